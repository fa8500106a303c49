"""Who we are to the admin API, and whom we believe: as with the broker itself."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import aiohttp

from trustgraph_prompt.broker.pulsar.admin.client import PulsarAdmin, body_of
from trustgraph_prompt.errors import BrokerError, ConfigError

if TYPE_CHECKING:
    from trustgraph_prompt.broker.pulsar.access import Access

_SECONDS_FOR_A_TOKEN: Final = 30.0


async def admin_of(url: str, access: Access) -> PulsarAdmin:
    """The admin API at a URL, with those credentials. Raises as `authorization` and `trust`."""
    return PulsarAdmin(url, authorization=await authorization(access), trust=trust(access))


def trust(access: Access) -> ssl.SSLContext:
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


async def authorization(access: Access) -> str | None:
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
