"""A headless Chromium for the tests of pages, and what a page does there that it should not."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.support.requirements import unavailable

if TYPE_CHECKING:
    from playwright.async_api import ConsoleMessage as AsyncConsoleMessage
    from playwright.async_api import Page as AsyncPage
    from playwright.sync_api import Browser, ConsoleMessage, Page

CHROMIUM: Final = shutil.which("chromium")
SECONDS: Final = 60
"""Only guards against hanging."""
ARGUMENTS: Final = (
    *("--no-sandbox", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)


Launch = Callable[..., "Browser"]
"""Launches a Chromium with additional arguments."""


def missing() -> str | None:
    """What must be installed first."""
    if not find_spec("playwright") or not find_spec("axe_playwright_python"):
        return "no Playwright: pip install 'trustgraph-prompt[browser]'"
    return None if CHROMIUM else "no Chromium: apt-get install chromium"


@contextmanager
def browsers() -> Iterator[Launch]:
    """Yield what launches a Chromium. Skips the test if something is missing."""
    if reason := missing():
        unavailable(reason)
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=SECONDS * 1000)
    with sync_playwright() as playwright:
        launched: list[Browser] = []

        def launch(*arguments: str) -> Browser:
            arguments = (*ARGUMENTS, *arguments)
            launched.append(playwright.chromium.launch(executable_path=CHROMIUM, args=arguments))
            return launched[-1]

        yield launch
        for browser in launched:
            browser.close()


@contextmanager
def opened(browser: Browser, file: Path, ready: str = "html[data-drawn]", **options: Any) -> Iterator[Page]:
    """Open a page and wait for the element `ready`. It must neither log an error nor request anything."""
    options = {"viewport": {"width": 1440, "height": 900}, "reduced_motion": "reduce"} | options
    with browser.new_context(**options) as context:
        context.set_default_timeout(SECONDS * 1000)
        errors: list[str] = []
        requests: list[str] = []

        def on_console(message: ConsoleMessage) -> None:
            if message.type == "error":
                errors.append(message.text)

        context.on("request", lambda request: requests.append(request.url))
        context.on("console", on_console)
        context.on("weberror", lambda error: errors.append(str(error.error)))
        page = context.new_page()
        page.goto(file.as_uri())
        page.wait_for_selector(ready, state="attached")
        yield page
        assert errors == []
        assert [url for url in requests if not url.startswith("blob:")] == [file.as_uri()]


@asynccontextmanager
async def browsing(url: str, *, logs: str | None = None, **options: Any) -> AsyncIterator[AsyncPage]:
    """Open a page of a server, beside an event loop.

    It must neither log an error, unless it contains `logs`, nor request anything from elsewhere. Skips the
    test if something is missing.
    """
    if reason := missing():
        unavailable(reason)
    from playwright.async_api import async_playwright, expect

    expect.set_options(timeout=SECONDS * 1000)
    options = {"viewport": {"width": 1280, "height": 900}, "timezone_id": "Asia/Kathmandu"} | options
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        context = await browser.new_context(**options)
        context.set_default_timeout(SECONDS * 1000)
        errors: list[str] = []
        requests: list[str] = []

        def on_console(message: AsyncConsoleMessage) -> None:
            if message.type in ("error", "warning") and (logs is None or logs not in message.text):
                errors.append(message.text)

        context.on("request", lambda request: requests.append(request.url))
        context.on("console", on_console)
        context.on("weberror", lambda error: errors.append(str(error.error)))
        page = await context.new_page()
        await page.goto(url)
        yield page
        await browser.close()
        assert errors == []
        assert [other for other in requests if not other.startswith((url, "data:"))] == []
