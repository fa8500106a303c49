"""Calls Pulsar's admin API over HTTP with the credentials for the broker."""

from __future__ import annotations

import json
import ssl
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import aiohttp
from yarl import URL

from trustgraph_prompt import http_urls
from trustgraph_prompt.broker.pulsar.errors import refusal
from trustgraph_prompt.broker.urls import pulsar_hosts
from trustgraph_prompt.errors import BrokerError, BrokerUnavailable, ConfigError, excerpt

if TYPE_CHECKING:
    from trustgraph_prompt.broker.pulsar.credentials import Credentials


T = TypeVar("T")

ADMIN_URL: Final = "TRUSTGRAPH_PROMPT_ADMIN_URL"
"""The environment variable with the URL of the admin API, if it is not on the host of the broker."""

_CONNECT_SECONDS: Final = 10.0
_MAX_CONNECTIONS: Final = 8
_MAX_REDIRECTS: Final = 5
_MAX_BODY_BYTES: Final = 4 * 1024 * 1024
_TOKEN_SECONDS: Final = 30.0


def admin_url(broker: str) -> str:
    """Return the default URL of the admin API for a Pulsar URL. Raises `ConfigError` for any other URL."""
    host = pulsar_hosts(broker)[0][0]
    host = f"[{host}]" if ":" in host else host
    return f"https://{host}:8443" if broker.startswith("pulsar+ssl:") else f"http://{host}:8080"


class PulsarAdmin:
    """A client of the admin API at a URL, and an asynchronous context manager."""

    _session: aiohttp.ClientSession

    def __init__(
        self,
        url: str,
        *,
        authorization: str | None = None,
        trust: ssl.SSLContext | None = None,
        timeout: float = 60.0,
    ) -> None:
        """Make a client. `authorization` is the header of that name, `timeout` the seconds for a response.

        (A broker gives up on its own metadata after 30 seconds.) Raises `ConfigError` for an invalid URL.
        """
        self.url = _check_url(url)
        self._authorization = authorization
        self._trust = trust
        self._timeout = aiohttp.ClientTimeout(total=timeout, connect=_CONNECT_SECONDS)

    async def get(self, path: str, kind: type[T], *, none: Collection[int] = (404,)) -> T | None:
        """Return the JSON value at a path below `/admin/v2/`; None for an empty body or a status in `none`.

        Raises `BrokerUnavailable`, `BrokerError`, and `ConfigError` if the server is not Pulsar.
        """
        status, body = await self._request("GET", path)
        what = f"GET {path}"
        if status in (200, 204):
            return self._value(body, kind, what) if body else None
        if status in none and _reason(body):
            return None
        raise self._refusal(status, body, what)

    async def send(self, method: str, path: str, body: Any = None) -> bool:
        """Make a change. Returns False if it was already made (409). Raises as `get` does."""
        status, answer = await self._request(method, path, body)
        if status in (200, 204):
            return True
        if status == 409 and _reason(answer):
            return False
        raise self._refusal(status, answer, f"{method} {path}")

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=_MAX_CONNECTIONS, ssl=self._trust or True),
            timeout=self._timeout,
        )
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._session.close()

    async def _request(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        """Return status and body of the response, following redirects to the broker that owns the topic."""
        url = URL(f"{self.url}/admin/v2/{path}", encoded=True)
        try:
            for _ in range(_MAX_REDIRECTS + 1):
                status, answer, redirect = await self._request_once(method, url, body)
                if redirect is None:
                    return status, answer
                url = redirect
        except TimeoutError:
            raise BrokerUnavailable(
                f"{self.url}: no response to {method} {path} in {self._timeout.total:g} s"
            ) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            detail = _line(_message(error)) or type(error).__name__
            raise BrokerUnavailable(f"{self.url}: {detail}") from error
        raise BrokerError(f"{self.url}: {method} {path} was redirected more than {_MAX_REDIRECTS} times")

    async def _request_once(self, method: str, url: URL, body: Any) -> tuple[int, bytes, URL | None]:
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if self._authorization is not None:
            headers["Authorization"] = self._authorization
        data = b"" if body is None else json.dumps(body).encode()
        async with self._session.request(
            method, url, data=data, headers=headers, allow_redirects=False
        ) as response:
            # A broker redirects to the one that owns the topic. aiohttp would not send the credentials there.
            if response.status in (302, 307, 308) and (location := response.headers.get("Location")):
                return response.status, b"", self._redirect_target(url, location)
            return response.status, await body_of(response, self.url), None

    def _redirect_target(self, url: URL, location: str) -> URL:
        target = url.join(URL(location, encoded=True))
        if target.scheme not in ("http", "https") or (url.scheme == "https" and target.scheme != "https"):
            raise BrokerError(
                f"{self.url}: redirected to {excerpt(str(target))}, which is not safe to follow"
            )
        return target

    def _value(self, body: bytes, kind: type[T], what: str) -> T:
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, kind):
            raise self._not_pulsar(what, excerpt(body, 80))
        return value

    def _refusal(self, status: int, body: bytes, what: str) -> Exception:
        reason = _reason(body)
        if status in (401, 403):
            detail = f": {reason}" if reason else ""
            return BrokerError(f"{self.url}: these credentials may not {what} (HTTP {status}{detail})")
        if status == 404 and not reason:
            return self._not_pulsar(what, f"HTTP 404 {excerpt(body, 60)}")
        detail = reason or _line(body.decode(errors="replace")) or "no reason given"
        kind = BrokerUnavailable if status >= 500 else BrokerError
        return kind(f"{self.url}: {what}: HTTP {status}: {detail}")

    def _not_pulsar(self, what: str, found: str) -> ConfigError:
        return ConfigError(
            f"not the admin API of a Pulsar: {what}", where=self.url, found=found, expected="Pulsar's JSON"
        )


async def body_of(response: aiohttp.ClientResponse, where: str) -> bytes:
    """Read the body of a response. Raises `BrokerError` if it is too large."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > _MAX_BODY_BYTES:
            raise BrokerError(
                f"{where}: found more than {_MAX_BODY_BYTES:,} bytes, expected a shorter response"
            )
    return bytes(body)


def _check_url(url: str) -> str:
    try:
        http_urls.server(url)
    except ValueError as error:
        raise ConfigError(
            f"not an admin URL: {error}",
            found="one with a user or a query" if "@" in url or "?" in url else url,
            expected="http://HOST:PORT or https://HOST:PORT; credentials come from the environment",
        ) from None
    return url.rstrip("/")


def _reason(body: bytes) -> str:
    """Return the reason in an error response of Pulsar, empty if there is none."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    reason = value.get("reason") if isinstance(value, dict) else None
    return _line(reason) if isinstance(reason, str) else ""


def _message(error: Exception) -> str:
    """Return the text of an error without aiohttp's `ssl:default`, which it adds even without TLS."""
    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, aiohttp.ClientSSLError):
        return refusal(error.os_error)
    return str(error)


def _line(text: str) -> str:
    return excerpt(" ".join(text.split()))


async def admin_of(url: str, credentials: Credentials) -> PulsarAdmin:
    """Return a client of the admin API at a URL. Raises as `authorization` and `trust`."""
    return PulsarAdmin(url, authorization=await authorization(credentials), trust=trust(credentials))


def trust(credentials: Credentials) -> ssl.SSLContext:
    """Return a TLS context with the trusted authorities and the client certificate. Raises `ConfigError`."""
    files = (credentials.trust_file, credentials.certificate_file, credentials.key_file)
    try:
        context = ssl.create_default_context(cafile=credentials.trust_file)
        if credentials.certificate_file and credentials.key_file:
            context.load_cert_chain(credentials.certificate_file, credentials.key_file, password="")
    except OSError as error:  # ssl.SSLError, too
        where = ", ".join(str(file) for file in files if file)
        detail = error.strerror or type(error).__name__
        raise ConfigError(f"the certificates cannot be read: {detail}", where=where) from None
    return context


async def authorization(credentials: Credentials) -> str | None:
    """Return the `Authorization` header, None without credentials or with only a certificate.

    Raises `ConfigError`, and `BrokerError` if the OAuth2 issuer returns no token. Neither shows secrets.
    """
    token = credentials.token
    if credentials.token_file is not None:
        token = _read(credentials.token_file).strip()
    elif credentials.oauth2 is not None:
        token = await _fetch_token(credentials.oauth2)
    if token is None:
        return None
    if not token.isascii() or not token.isprintable() or " " in token:
        problem = "it has characters other than printable ASCII without spaces" if token else "it is empty"
        raise ConfigError(f"the token is not valid: {problem}", where="credentials")
    return f"Bearer {token}"


async def _fetch_token(oauth2: Mapping[str, str]) -> str:
    """Fetch a token for client credentials (RFC 6749, section 4.4) from the issuer's endpoint (RFC 8414)."""
    issuer, file = oauth2["issuer_url"], Path(oauth2["private_key"].removeprefix("file://"))
    try:
        key = json.loads(_read(file))
        form = {"client_id": key["client_id"], "client_secret": key["client_secret"]}
    except (ValueError, TypeError, KeyError):
        expected = "a JSON object with client_id and client_secret"
        raise ConfigError(f"is not {expected}", where=str(file)) from None
    form |= {name: oauth2[name] for name in ("audience", "scope") if name in oauth2}
    timeout = aiohttp.ClientTimeout(total=_TOKEN_SECONDS)
    try:
        async with aiohttp.ClientSession(timeout=timeout, raise_for_status=True) as session:
            url = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
            async with session.get(url) as response:
                endpoint = _string(await body_of(response, issuer), "token_endpoint")
            grant = {"grant_type": "client_credentials", **form}
            async with session.post(endpoint, data=grant, allow_redirects=False) as response:
                return _string(await body_of(response, issuer), "access_token")
    except TimeoutError:
        raise BrokerError(f"{issuer}: no token: no response in {_TOKEN_SECONDS:g} s") from None
    except aiohttp.ClientResponseError as error:
        raise BrokerError(f"{issuer}: no token: HTTP {error.status}") from None
    except (aiohttp.ClientError, OSError, ValueError, TypeError, RecursionError) as error:
        raise BrokerError(f"{issuer}: no token: {type(error).__name__}") from None


def _string(body: bytes, name: str) -> str:
    answer = json.loads(body)
    value = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(value, str):
        raise ValueError(f"no {name}")
    return value


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(file)) from None
    except UnicodeDecodeError:
        raise ConfigError("is not UTF-8 text", where=str(file)) from None
