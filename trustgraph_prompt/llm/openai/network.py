"""The way out to a server, as the environment has it: proxies, and the certificates that are trusted."""

from __future__ import annotations

import os
import ssl
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.request import getproxies, proxy_bypass

from yarl import URL

from trustgraph_prompt import http_urls
from trustgraph_prompt.errors import ConfigError

_CERTIFICATES = {"SSL_CERT_FILE": "cafile", "SSL_CERT_DIR": "capath"}


@dataclass(frozen=True, slots=True, repr=False)
class Proxy:
    """A proxy, and the headers that tell it who asks. Has no `repr`, for that would show the password."""

    url: URL
    headers: Mapping[str, str]
    secrets: Sequence[str]


def proxy_for(url: URL) -> Proxy | None:
    """The proxy of `HTTP_PROXY` or `HTTPS_PROXY` (in either case) that leads to `url`.

    None without one, and where `NO_PROXY` names the host. Raises `ConfigError` for a proxy that is none.
    aiohttp's own reading of the environment would take credentials from `~/.netrc` as well.
    """
    found = getproxies().get(url.scheme)
    if not found or proxy_bypass(f"{url.host}:{url.port}"):
        return None
    try:
        proxy = URL(found if "://" in found else f"http://{found}")
        valid = proxy.scheme in ("http", "https") and bool(proxy.host and proxy.port)
    except ValueError:
        valid = False
    if not valid:
        shown = found.rpartition("@")[2]
        name = f"{url.scheme.upper()}_PROXY"
        raise ConfigError(
            f"the URL of the proxy is not valid: {http_urls.refusal(found if '://' in found else f'http://{found}')}",
            where=name,
            found=shown,
            expected="http://host:port or the like",
        )
    who = basic(proxy)
    return Proxy(proxy.with_user(None), {"Proxy-Authorization": who} if who else {}, password_of(proxy))


def basic(url: URL) -> str:
    """The user and password of a URL as a header has them (RFC 7617), "" without a user."""
    return f"Basic {_encoded(url)}" if url.user else ""


def password_of(url: URL) -> list[str]:
    """The password of a URL as it is, as it is written, and as a header has it."""
    return [url.password or "", url.raw_password or "", _encoded(url)] if url.user else []


def _encoded(url: URL) -> str:
    return b64encode(f"{url.user or ''}:{url.password or ''}".encode()).decode()


def trust() -> ssl.SSLContext:
    """What servers are held to: the system's certificates, or those of `SSL_CERT_FILE` and `SSL_CERT_DIR`.

    Raises `ConfigError` where one of them cannot be read: OpenSSL would go on, and trust nobody.
    """
    context = ssl.create_default_context()
    for name, kind in _CERTIFICATES.items():
        if path := os.environ.get(name):
            try:
                os.stat(path)
                context.load_verify_locations(**{kind: path})
            except OSError as error:  # ssl.SSLError, too
                raise ConfigError(f"cannot be read: {error}", where=name) from None
    return context
