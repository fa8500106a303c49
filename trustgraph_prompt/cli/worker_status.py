"""Fetches the status of all workers behind some addresses, each by itself: one that hangs delays no other."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import defaultdict
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, Final, Self

import aiohttp
import jsonschema_rs
import orjson
from yarl import URL

from trustgraph_prompt import http_urls
from trustgraph_prompt.errors import ConfigError, excerpt

SECONDS_FOR_AN_ANSWER: Final = 3.0
"""For looking up a name, and for one document."""

MAX_BYTES: Final = 8 * 1024 * 1024
"""The size of a document. A worker's own bounds keep it far smaller."""

MAX_CONNECTIONS: Final = 256
"""Addresses that are asked at a time."""

SCHEMA: Final = resources.files("trustgraph_prompt") / "worker/telemetry/status.schema.json"  # not imported

Status = Mapping[str, Any]
"""A document that the schema describes."""


class Workers:
    """The workers behind URLs: `seen` has the status at each address, or why there is none, and why a
    name has no address.

    A context manager; `seen` changes while `look` or `follow` runs.
    """

    def __init__(self, urls: Sequence[str]) -> None:
        """Raises `ConfigError` for an invalid URL."""
        self._urls = list(dict.fromkeys(map(_checked, urls)))
        self.seen: dict[str, Status | str] = {}
        self._behind: defaultdict[URL, set[str]] = defaultdict(set)
        self._asked: set[str] = set()  # names and addresses
        self._slots = asyncio.Semaphore(MAX_CONNECTIONS)
        self._valid = jsonschema_rs.validator_for(orjson.loads(SCHEMA.read_bytes()), validate_formats=True)

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True), auto_decompress=False
        )
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._session.close()

    @property
    def statuses(self) -> dict[str, Status]:
        """The statuses by address; of a worker with several addresses, only the first."""
        by_instance: dict[str, tuple[str, Status]] = {}
        for address, look in sorted(self.seen.items()):
            if not isinstance(look, str):
                by_instance.setdefault(look["worker"]["instance"], (address, look))
        return dict(by_instance.values())

    @property
    def missing(self) -> dict[str, str]:
        """Why there is no status, by address."""
        return {address: look for address, look in sorted(self.seen.items()) if isinstance(look, str)}

    async def look(self) -> None:
        """Look once at every address. When a name cannot be looked up, its last addresses are kept."""
        await asyncio.gather(*map(self._look_behind, self._urls))

    async def follow(self, interval: float) -> None:
        """Look every `interval` seconds, until cancelled. A look that takes longer delays no other."""
        async with asyncio.TaskGroup() as looks:
            while True:
                looks.create_task(self.look())
                await asyncio.sleep(interval)

    async def _look_behind(self, url: URL) -> None:
        if hosts := await self._hosts(url):
            for gone in self._behind[url] - set(hosts):
                self.seen.pop(_address(url, gone), None)
            self._behind[url] = set(hosts)
        await asyncio.gather(*(self._look_at(url, host) for host in self._behind[url]))

    async def _hosts(self, url: URL) -> list[str]:
        """The IP addresses of a name. Without any, it is still being looked up, or `seen` says why."""
        assert url.host is not None
        if str(url) in self._asked:
            return []
        self._asked.add(str(url))
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(SECONDS_FOR_AN_ANSWER):
                found = await loop.getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:  # TimeoutError, too
            self.seen[str(url)] = getattr(error, "strerror", None) or "the name is not looked up in time"
            return []
        finally:
            self._asked.remove(str(url))
        families = {family for family, *_ in found}  # of IPv4 and IPv6, a server may listen on only one
        chosen = socket.AF_INET if socket.AF_INET in families else socket.AF_INET6
        self.seen.pop(str(url), None)
        return sorted({str(address[0]) for family, *_, address in found if family == chosen})

    async def _look_at(self, url: URL, host: str) -> None:
        """Look at an address, unless it is still being asked."""
        address = _address(url, host)
        if address in self._asked:
            return
        self._asked.add(address)
        try:
            async with self._slots:
                look: Status | str = await self._status(url, host)
        except TimeoutError:
            look = f"no answer in {SECONDS_FOR_AN_ANSWER:g} s"
        except aiohttp.ClientSSLError as error:  # its number is not one of the operating system
            look = excerpt(str(error))
        except aiohttp.ClientConnectorError as error:
            number = error.os_error.errno
            look = os.strerror(number) if number else excerpt(str(error.os_error))
        except (aiohttp.ClientError, OSError, ValueError) as error:
            look = excerpt(str(error) or type(error).__name__)
        finally:
            self._asked.remove(address)
        if host in self._behind[url]:
            self.seen[address] = look

    async def _status(self, url: URL, host: str) -> Status:
        """Fetch the document. Raises `ValueError` if it is none."""
        body = bytearray()
        async with (
            asyncio.timeout(SECONDS_FOR_AN_ANSWER),
            self._session.get(
                url.with_host(host) / "status.json",
                headers={"Host": url.authority, "Accept-Encoding": "identity"},
                server_hostname=url.host if url.scheme == "https" else None,
                allow_redirects=False,
            ) as response,
        ):
            if response.status == 421:
                raise ValueError(f"the worker answers to other names: start it with --http-host {url.host}")
            if response.status != 200:
                raise ValueError(f"HTTP {response.status}, expected the status of a worker")
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > MAX_BYTES:
                    raise ValueError(f"more than {MAX_BYTES:,} bytes, expected the status of a worker")
        try:
            status: Status = orjson.loads(body)
            self._valid.validate(status)
        except ValueError as error:
            raise ValueError(f"not the status of a worker: {error}") from None
        return status


def _address(url: URL, host: str) -> str:
    """The address for people: that of the worker, with the path of a proxy."""
    return f"{url.with_host(host).authority}{url.path.rstrip('/')}"


def _checked(url: str) -> URL:
    try:
        return http_urls.server(url)
    except ValueError as error:
        # The URL is not shown: it may have a password.
        raise ConfigError(f"not the URL of a worker: {error}; give http://HOST:PORT", where="URL") from None
