"""Parses URLs of brokers, and shows them without secrets."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from trustgraph_prompt.errors import ConfigError

_PULSAR_PORTS: Final = {"pulsar": 6650, "pulsar+ssl": 6651}


def address(url: str) -> str:
    """Return the URL without user, password and options, for messages."""
    scheme, _, rest = url.partition(":")
    if scheme == "embedded":
        return url
    hosts = rest.rpartition("@")[2].partition("?")[0].strip("/")
    return f"{scheme}://{hosts}"


def pulsar_hosts(url: str) -> list[tuple[str, int]]:
    """Return host and port of each broker in a Pulsar URL. Raises `ConfigError`, which shows no secrets."""
    scheme, _, hosts = address(url).partition("://")
    try:
        if may_hold_a_secret(url):
            raise ValueError
        hosts_and_ports = [_host(host, _PULSAR_PORTS[scheme]) for host in hosts.split(",")]
    except (KeyError, ValueError) as error:
        raise ConfigError(
            f"not a Pulsar URL: {_problem(url, scheme, hosts)}",
            found=address(url),
            expected="pulsar://HOST:PORT or pulsar+ssl://HOST:PORT",
        ) from (None if may_hold_a_secret(url) else error)
    return hosts_and_ports


def may_hold_a_secret(url: str) -> bool:
    """Return whether a URL has a user, a password or options."""
    return "@" in url or "?" in url


def _problem(url: str, scheme: str, hosts: str) -> str:
    if may_hold_a_secret(url):
        return "it must not contain a user, a password or options (credentials come from the environment)"
    if scheme not in _PULSAR_PORTS:
        return "it begins with neither pulsar:// nor pulsar+ssl://"
    return "a host is missing" if "" in hosts.split(",") else "a host or port is invalid"


def _host(text: str, default: int) -> tuple[str, int]:
    parts = urlsplit(f"//{text}")
    if not parts.hostname or parts.port == 0:
        raise ValueError(text)
    parts.hostname.encode("idna")  # raises for names that no resolver accepts, such as a..b
    return parts.hostname, parts.port or default
