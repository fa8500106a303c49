"""Pulsar's admin API over HTTP, with the credentials of the broker."""

from __future__ import annotations

import json
import ssl
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar
from urllib.parse import urlsplit

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
"""The environment variable that says where the admin API is, unless it is beside the broker."""

_CONNECT_SECONDS: Final = 10.0
_AT_ONCE: Final = 8
_REDIRECTS: Final = 5
_LARGEST: Final = 4 * 1024 * 1024


def admin_url(broker: str) -> str:
    """Where the admin API of the broker at a `pulsar://` URL is, unless somebody has put it elsewhere.

    Raises `ConfigError` where that is no Pulsar's URL.
    """
    host = pulsar_hosts(broker)[0][0]
    host = f"[{host}]" if ":" in host else host
    return f"https://{host}:8443" if broker.startswith("pulsar+ssl:") else f"http://{host}:8080"


class PulsarAdmin:
    """The admin API at a URL. An asynchronous context manager."""

    _session: aiohttp.ClientSession

    def __init__(
        self,
        url: str,
        *,
        authorization: str | None = None,
        trust: ssl.SSLContext | None = None,
        timeout: float = 60.0,
    ) -> None:
        """`authorization` is the header of that name; `timeout` the seconds that an answer may take.

        (A broker itself gives up on its metadata after 30.) Raises `ConfigError` where the URL is none.
        """
        self.url = _checked(url)
        self._authorization = authorization
        self._trust = trust
        self._timeout = aiohttp.ClientTimeout(total=timeout, connect=_CONNECT_SECONDS)

    async def get(self, path: str, kind: type[T], *, none: Collection[int] = (404,)) -> T | None:
        """The JSON value at a path below `/admin/v2/`; None where it says nothing, or answers one of `none`.

        Raises `BrokerUnavailable`, `BrokerError`, and `ConfigError` where no Pulsar answers.
        """
        status, body = await self._ask("GET", path)
        what = f"GET {path}"
        if status in (200, 204):
            return self._value(body, kind, what) if body else None
        if status in none and _reason(body):
            return None
        raise self._refusal(status, body, what)

    async def send(self, method: str, path: str, body: Any = None) -> bool:
        """Have something done; False where it says that it was there already (409). Raises as `get` does."""
        status, answer = await self._ask(method, path, body)
        if status in (200, 204):
            return True
        if status == 409 and _reason(answer):
            return False
        raise self._refusal(status, answer, f"{method} {path}")

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=_AT_ONCE, ssl=self._trust or True),
            timeout=self._timeout,
        )
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._session.close()

    async def _ask(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        """Status and body of the answer, wherever in the cluster it comes from."""
        url = URL(f"{self.url}/admin/v2/{path}", encoded=True)
        try:
            for _ in range(_REDIRECTS + 1):
                status, answer, elsewhere = await self._once(method, url, body)
                if elsewhere is None:
                    return status, answer
                url = elsewhere
        except TimeoutError:
            raise BrokerUnavailable(f"{self.url}: no answer in time to {method} {path}") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            told = _line(_told(error)) or type(error).__name__
            raise BrokerUnavailable(f"{self.url}: {told}") from error
        raise BrokerError(f"{self.url}: {method} {path} was sent on more than {_REDIRECTS} times")

    async def _once(self, method: str, url: URL, body: Any) -> tuple[int, bytes, URL | None]:
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if self._authorization is not None:
            headers["Authorization"] = self._authorization
        data = b"" if body is None else json.dumps(body).encode()
        async with self._session.request(
            method, url, data=data, headers=headers, allow_redirects=False
        ) as response:
            # A broker sends on what another one owns. Who follows for us would leave the credentials behind.
            if response.status in (302, 307, 308) and (location := response.headers.get("Location")):
                return response.status, b"", self._elsewhere(url, location)
            return response.status, await body_of(response, self.url), None

    def _elsewhere(self, url: URL, location: str) -> URL:
        target = url.join(URL(location, encoded=True))
        if target.scheme not in ("http", "https") or (url.scheme == "https" and target.scheme != "https"):
            raise BrokerError(f"{self.url}: sent on to {excerpt(str(target))}, which is not safe to follow")
        return target

    def _value(self, body: bytes, kind: type[T], what: str) -> T:
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, kind):
            raise self._no_pulsar(what, excerpt(body, 80))
        return value

    def _refusal(self, status: int, body: bytes, what: str) -> Exception:
        reason = _reason(body)
        if status in (401, 403):
            told = f": {reason}" if reason else ""
            return BrokerError(f"{self.url}: these credentials may not {what} (HTTP {status}{told})")
        if status == 404 and not reason:
            return self._no_pulsar(what, f"HTTP 404 {excerpt(body, 60)}")
        told = reason or _line(body.decode(errors="replace")) or "it says no reason"
        kind = BrokerUnavailable if status >= 500 else BrokerError
        return kind(f"{self.url}: {what}: HTTP {status}: {told}")

    def _no_pulsar(self, what: str, found: str) -> ConfigError:
        return ConfigError(
            f"no Pulsar admin API answers {what}",
            where=self.url,
            found=found,
            expected="JSON, as Pulsar gives it",
        )


async def body_of(response: aiohttp.ClientResponse, where: str) -> bytes:
    """All of a body. Raises `BrokerError` where it is too large for any answer."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > _LARGEST:
            raise BrokerError(f"{where}: an answer of more than {_LARGEST:,} bytes")
    return bytes(body)


def _checked(url: str) -> str:
    expected = "http://HOST:PORT or https://HOST:PORT"
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        good = good and not (parts.username or parts.password or parts.query or parts.fragment)
    except ValueError:
        good = False
    if not good:
        if "@" in url:
            wrong, shown = "it may not hold a user or a password", "one with a user"
        elif "?" in url or "#" in url:
            wrong, shown = "it may not hold a query or a fragment", url
        else:
            wrong, shown = http_urls.why_invalid(url), url
        raise ConfigError(f"the admin URL is not valid: {wrong}", found=shown, expected=expected)
    return url.rstrip("/")


def _reason(body: bytes) -> str:
    """What a Pulsar says about a refusal; empty where it says nothing."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    reason = value.get("reason") if isinstance(value, dict) else None
    return _line(reason) if isinstance(reason, str) else ""


def _told(error: Exception) -> str:
    """Without what the HTTP client adds to each refusal, `ssl:default`, also where there is no TLS."""
    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, aiohttp.ClientSSLError):
        return refusal(error.os_error)
    return str(error)


def _line(text: str) -> str:
    return excerpt(" ".join(text.split()))


_SECONDS_FOR_A_TOKEN: Final = 30.0


async def admin_of(url: str, access: Credentials) -> PulsarAdmin:
    """The admin API at a URL, with those credentials. Raises as `authorization` and `trust`."""
    return PulsarAdmin(url, authorization=await authorization(access), trust=trust(access))


def trust(access: Credentials) -> ssl.SSLContext:
    """Public authorities or those of the trust file, and our certificate. Raises `ConfigError`."""
    try:
        context = ssl.create_default_context(cafile=access.trust_file)
        if access.certificate_file and access.key_file:
            context.load_cert_chain(access.certificate_file, access.key_file, password="")
    except OSError as error:  # ssl.SSLError, too
        files = ", ".join(str(f) for f in (access.trust_file, access.certificate_file, access.key_file) if f)
        why = error.strerror or type(error).__name__
        raise ConfigError(f"the certificates cannot be read: {why}", where=files) from None
    return context


async def authorization(access: Credentials) -> str | None:
    """The header of that name; None where nothing but a certificate says who we are.

    Raises `ConfigError`, and `BrokerError` where the issuer of OAuth2 gives no token. Neither shows secrets.
    """
    token = access.token
    if access.token_file is not None:
        token = _read(access.token_file).strip()
    elif access.oauth2 is not None:
        token = await _issued(access.oauth2)
    if token is None:
        return None
    if not token.isascii() or not token.isprintable() or " " in token:
        wrong = "it is empty" if not token else "it has blanks or characters that are not printable ASCII"
        raise ConfigError(f"the token is not valid: {wrong}", where="credentials")
    return f"Bearer {token}"


async def _issued(oauth2: Mapping[str, str]) -> str:
    """A token for client credentials (RFC 6749, section 4.4), of the issuer's endpoint (RFC 8414)."""
    issuer, file = oauth2["issuer_url"], Path(oauth2["private_key"].removeprefix("file://"))
    try:
        key = json.loads(_read(file))
        form = {"client_id": key["client_id"], "client_secret": key["client_secret"]}
    except (ValueError, TypeError, KeyError):
        expected = "a JSON object with client_id and client_secret"
        raise ConfigError(f"is not {expected}", where=str(file)) from None
    form |= {name: oauth2[name] for name in ("audience", "scope") if name in oauth2}
    timeout = aiohttp.ClientTimeout(total=_SECONDS_FOR_A_TOKEN)
    try:
        async with aiohttp.ClientSession(timeout=timeout, raise_for_status=True) as session:
            url = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
            async with session.get(url) as told:
                endpoint = _text(await body_of(told, issuer), "token_endpoint")
            grant = {"grant_type": "client_credentials", **form}
            async with session.post(endpoint, data=grant, allow_redirects=False) as told:
                return _text(await body_of(told, issuer), "access_token")
    except TimeoutError:
        raise BrokerError(f"{issuer}: gives no token: no answer in time") from None
    except aiohttp.ClientResponseError as error:
        raise BrokerError(f"{issuer}: gives no token: HTTP {error.status}") from None
    except (aiohttp.ClientError, OSError, ValueError, TypeError, RecursionError) as error:
        raise BrokerError(f"{issuer}: gives no token: {type(error).__name__}") from None


def _text(body: bytes, name: str) -> str:
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
