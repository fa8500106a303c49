"""Why an HTTP URL is invalid, without quoting it: it may hold a password."""

from __future__ import annotations

from urllib.parse import urlsplit


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
