"""The status of a worker as a page that stays up to date, and as JSON.

What is served is made in a thread, at most once a second, and only while somebody asks.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Final, TypeVar

from jinja2 import Template
from markupsafe import Markup

from trustgraph_prompt import html_pages
from trustgraph_prompt.json_text.encoding import encode
from trustgraph_prompt.worker.telemetry.status import Document, Status

T = TypeVar("T")

SECONDS_BETWEEN_LOOKS: Final = 1.0

_SECTION: Final = re.compile(r"<!--(\w+)-->.*?<!--/\1-->", re.DOTALL)
"""A part of the page that changes. It fills the element with its name as the id."""

PROMPTS_ON_PAGE: Final = 100

PLAIN_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

FILES: Final = Path(__file__).parent / "status_page"

_thread = ThreadPoolExecutor(1, thread_name_prefix="status")


class StatusPage:
    """Serves a status to any number of readers."""

    def __init__(self, status: Status) -> None:
        self._status = status
        self._latest: asyncio.Task[_Rendered] | None = None
        self._begun = 0.0
        self._ended = asyncio.Event()

    async def document(self) -> bytes:
        """The document as JSON."""
        rendered = await self._render()
        return await _in_thread(lambda: rendered.json)

    async def html(self) -> bytes:
        """The whole page."""
        rendered = await self._render()
        return await _in_thread(lambda: rendered.page.encode(errors="replace"))

    async def events(self) -> AsyncIterator[bytes]:
        """Server-sent events until `end`: each second the sections that have changed since the last event."""
        shown: Mapping[str, str] = {}
        while not self._ended.is_set():
            rendered = await self._render()
            yield await _in_thread(partial(rendered.event, shown))
            shown = rendered.sections
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), SECONDS_BETWEEN_LOOKS)

    def end(self) -> None:
        """End all events."""
        self._ended.set()

    async def _render(self) -> _Rendered:
        """Look at the worker, unless somebody looked less than a second ago: then share what was made."""
        now = asyncio.get_running_loop().time()
        if self._latest is None or (self._latest.done() and now >= self._begun + SECONDS_BETWEEN_LOOKS):
            self._begun = now
            self._latest = asyncio.create_task(self._look(), name="status")
        return await asyncio.shield(self._latest)

    async def _look(self) -> _Rendered:
        return _Rendered(await _in_thread(self._status.observe()))


class _Rendered:
    """A document, and what is made of it when somebody asks for it. Only for the thread."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self._events: dict[tuple[str, ...], bytes] = {}

    @cached_property
    def json(self) -> bytes:
        return encode(self.document)

    @cached_property
    def page(self) -> str:
        return _template().render(self.document)

    @cached_property
    def sections(self) -> dict[str, str]:
        return {found[1]: found[0] for found in _SECTION.finditer(self.page)}

    def event(self, shown: Mapping[str, str]) -> bytes:
        """The server-sent event for a page that shows these sections. Pages that lack the same share it."""
        changed = tuple(name for name, html in self.sections.items() if shown.get(name) != html)
        if changed not in self._events:
            sections = {name: self.sections[name] for name in changed}
            event = {"instance": self.document["worker"]["instance"], "sections": sections}
            self._events[changed] = b"data: " + encode(event) + b"\n\n"
        return self._events[changed]


async def _in_thread(function: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(_thread, function)


@cache
def headers() -> dict[str, str]:
    """The headers of the page: it may run its own style and script, and ask its own worker, nothing else."""
    sources = f"style-src {html_pages.allowed(_style())}; script-src {html_pages.allowed(_script())}"
    nothing_else = "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    policy = f"default-src 'none'; {sources}; connect-src 'self'; {nothing_else}"
    return {"Content-Security-Policy": policy, **PLAIN_HEADERS}


def _style() -> Markup:
    return html_pages.style(FILES / "page.css")


def _script() -> Markup:
    return Markup((FILES / "page.js").read_text("utf-8"))


@cache
def _template() -> Template:
    environment = html_pages.environment(FILES)
    filters: dict[str, Callable[..., str]] = {
        "number": "{:,}".format,
        "short": _short,
        "decimal": lambda value: f"{value:,.3g}" if value < 100 else f"{value:,.0f}",
        "money": lambda value: f"{value:,.4f}" if value < 1 else f"{value:,.2f}",
        "words": lambda name: name.replace("_", " "),
        "sparkline": _sparkline,
    }
    environment.filters |= filters
    environment.globals |= {"style": _style(), "script": _script(), "max_prompts": PROMPTS_ON_PAGE}
    return environment.get_template("page.html")


def _short(number: int) -> str:
    """A large number with three digits and a unit: 1.23M."""
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= 10 * size:
            return f"{number / size:,.0f}{unit}" if number >= 100 * size else f"{number / size:.1f}{unit}"
    return f"{number:,}"


def _sparkline(counts: Sequence[int]) -> str:
    """An SVG path of the counts, 16 high, with the last one at the right."""
    highest = max(*counts, 1)
    points = " ".join(f"L{x},{15 - 14 * count / highest:.1f}" for x, count in enumerate(counts))
    return f"M0,16 {points} L{len(counts) - 1},16 Z"
