"""URLs of brokers: what they name, and how they are shown without secrets."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from trustgraph_prompt.errors import ConfigError

_PULSAR_PORTS: Final = {"pulsar": 6650, "pulsar+ssl": 6651}


def address(url: str) -> str:
    """Which broker a URL is of, for others to see: without user, password and options."""
    scheme, _, rest = url.partition(":")
    if scheme == "embedded":
        return url
    hosts = rest.rpartition("@")[2].partition("?")[0].strip("/")
    return f"{scheme}://{hosts}"


def pulsar_hosts(url: str) -> list[tuple[str, int]]:
    """Host and port of each broker that a Pulsar's URL names. Raises `ConfigError`, without secrets."""
    scheme, _, hosts = address(url).partition("://")
    try:
        if may_hold_a_secret(url):
            raise ValueError
        found = [_host(host, _PULSAR_PORTS[scheme]) for host in hosts.split(",")]
    except (KeyError, ValueError) as error:
        raise ConfigError(
            f"the URL of the Pulsar is not valid: {_wrong(url, scheme, hosts)}",
            found=address(url),
            expected="pulsar://HOST:PORT or pulsar+ssl://HOST:PORT",
        ) from (None if may_hold_a_secret(url) else error)
    return found


def may_hold_a_secret(url: str) -> bool:
    """Whether it may hold a secret: a user, a password, options."""
    return "@" in url or "?" in url


def _wrong(url: str, scheme: str, hosts: str) -> str:
    if may_hold_a_secret(url):
        return "it may hold no user, password or options; who we are comes from the environment"
    if scheme not in _PULSAR_PORTS:
        return f"it begins with neither {' nor '.join(f'{known}://' for known in _PULSAR_PORTS)}"
    return "a host is missing" if "" in hosts.split(",") else "a host or its port cannot be read"


def _host(text: str, default: int) -> tuple[str, int]:
    parts = urlsplit(f"//{text}")
    if not parts.hostname or parts.port == 0:
        raise ValueError(text)
    parts.hostname.encode("idna")  # what no resolver could be asked for: a..b
    return parts.hostname, parts.port or default
