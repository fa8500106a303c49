"""Fetches the status of all workers behind some addresses, each by itself: one that hangs delays no other."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, Final, NamedTuple, Self

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

MAX_ADDRESSES: Final = 256
"""Addresses behind one name that are asked."""

Status = Mapping[str, Any]
"""A document that `worker/telemetry/status.schema.json` describes."""


class Look(NamedTuple):
    """What is at an address: the status of a worker, or `why` there is none."""

    status: Status | None
    why: str = ""


class Workers:
    """The workers behind URLs: `seen` has the last look at each address, and at each name without any.

    A context manager; `seen` changes while `look` or `follow` runs.
    """

    def __init__(self, urls: Sequence[str]) -> None:
        """Raises `ConfigError` for an invalid URL."""
        self._urls = list(dict.fromkeys(map(_checked, urls)))
        self.seen: dict[str, Look] = {}
        self._valid = jsonschema_rs.validator_for(_schema(), validate_formats=True)

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
            if look.status is not None:
                by_instance.setdefault(look.status["worker"]["instance"], (address, look.status))
        return dict(by_instance.values())

    @property
    def missing(self) -> dict[str, str]:
        """Why there is no status, by address."""
        return {address: look.why for address, look in sorted(self.seen.items()) if look.status is None}

    async def look(self) -> None:
        """Look once at every address."""

        async def behind(url: URL) -> None:
            await asyncio.gather(*(self._look_at(url, host) for host in await self._hosts(url)))

        await asyncio.gather(*map(behind, self._urls))

    async def follow(self, interval: float) -> None:
        """Look at every address again and again, until cancelled. `interval` is in seconds."""
        async with asyncio.TaskGroup() as group:
            for url in self._urls:
                group.create_task(self._follow_name(url, interval))

    async def _follow_name(self, url: URL, interval: float) -> None:
        """Look at all addresses of a name. When it cannot be looked up, the last ones are kept."""
        followed: dict[str, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group:
            while True:
                hosts = await self._hosts(url)
                for gone in followed.keys() - set(hosts or followed):
                    followed.pop(gone).cancel()
                    self.seen.pop(_address(url, gone), None)
                for host in hosts:
                    if host not in followed:
                        followed[host] = group.create_task(self._follow_address(url, host, interval))
                await asyncio.sleep(interval)

    async def _follow_address(self, url: URL, host: str, interval: float) -> None:
        while True:
            await self._look_at(url, host)
            await asyncio.sleep(interval)

    async def _hosts(self, url: URL) -> list[str]:
        """The IP addresses of a name; `seen` says why there are none."""
        assert url.host is not None
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(SECONDS_FOR_AN_ANSWER):
                found = await loop.getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:  # TimeoutError, too
            self.seen[str(url)] = Look(
                None, getattr(error, "strerror", None) or "the name is not looked up in time"
            )
            return []
        families = {family for family, *_ in found}  # of IPv4 and IPv6, a server may listen on only one
        chosen = socket.AF_INET if socket.AF_INET in families else socket.AF_INET6
        hosts = sorted({str(address[0]) for family, *_, address in found if family == chosen})
        self.seen.pop(str(url), None)
        if len(hosts) > MAX_ADDRESSES:
            self.seen[str(url)] = Look(
                None, f"it has {len(hosts):,} addresses, of which {MAX_ADDRESSES} are asked"
            )
        return hosts[:MAX_ADDRESSES]

    async def _look_at(self, url: URL, host: str) -> None:
        try:
            look = Look(await self._status(url, host))
        except TimeoutError:
            look = Look(None, f"no answer in {SECONDS_FOR_AN_ANSWER:g} s")
        except aiohttp.ClientSSLError as error:  # its number is not one of the operating system
            look = Look(None, excerpt(str(error)))
        except aiohttp.ClientConnectorError as error:
            number = error.os_error.errno
            look = Look(None, os.strerror(number) if number else excerpt(str(error.os_error)))
        except (aiohttp.ClientError, OSError, ValueError) as error:
            look = Look(None, excerpt(str(error) or type(error).__name__))
        self.seen[_address(url, host)] = look

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
            if response.status != 200:
                raise ValueError(f"HTTP {response.status}, expected the status of a worker")
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > MAX_BYTES:
                    raise ValueError(f"more than {MAX_BYTES:,} bytes, expected the status of a worker")
        try:
            document = orjson.loads(body)
            self._valid.validate(document)
        except ValueError as error:
            raise ValueError(f"not the status of a worker: {error}") from None
        status: Status = document
        return status


def _address(url: URL, host: str) -> str:
    """The address for people: that of the worker, with the path of a proxy."""
    return f"{url.with_host(host).authority}{url.path.rstrip('/')}"


def _checked(url: str) -> URL:
    try:
        return http_urls.server(url)
    except ValueError as error:
        raise ConfigError(
            f"not the URL of a worker: {error}", where="URL", expected="http://HOST:PORT"
        ) from None


def _schema() -> dict[str, Any]:
    file = (
        resources.files("trustgraph_prompt") / "worker/telemetry/status.schema.json"
    )  # without importing it
    schema: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return schema
