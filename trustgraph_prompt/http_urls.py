"""Checks HTTP URLs, and says what is wrong with one without quoting it: it may hold a password."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from yarl import URL


def server(url: str) -> URL:
    """Parse the URL of a server, without user, query and fragment. Raises `ValueError` with the reason."""
    from yarl import URL  # slow to import, and a worker may have no such URL

    try:
        parsed = URL(url)
        is_http = (
            url == url.strip()
            and parsed.scheme in ("http", "https")
            and bool(parsed.host)
            and parsed.port != 0
        )
    except ValueError:
        is_http = False
    if not is_http:
        raise ValueError(why_invalid(url))
    if parsed.user or parsed.password:
        raise ValueError("it must not contain a user or a password")
    if parsed.query_string or parsed.fragment:
        raise ValueError("it must not contain a query or a fragment")
    return parsed


def why_invalid(url: str) -> str:
    """Explain why `url` is not a valid HTTP URL."""
    try:
        parts = urlsplit(url.strip())
        if parts.scheme not in ("http", "https") or not url.strip()[len(parts.scheme) :].startswith("://"):
            return "it begins with neither http:// nor https://"
        if not parts.hostname:
            return "it names no host"
        parts.hostname.encode("idna")
        if parts.port == 0:
            return "its port is 0"
    except UnicodeError:
        return "its host is not a name that can be looked up"
    except ValueError:
        pass
    return "its host or its port cannot be read"
