"""The status page in a real browser: its numbers, what becomes of its worker, and what it never does."""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import ClientSession

from tests.support import status_counts
from tests.support.browser import browsing
from tests.support.busy_worker import KINDS, RECORDING, TEMPLATES, flow_file, text_of
from tests.support.pulsar_proxy import PulsarProxy
from tests.support.worker_processes import Process, Site
from tests.support.workers import listening
from trustgraph_prompt.broker import Broker, connect
from trustgraph_prompt.cost import Budget, Price
from trustgraph_prompt.llm import ScriptedAnswer, ScriptedProvider
from trustgraph_prompt.wire import PromptRequest
from trustgraph_prompt.worker import Answer, Flow, Input, Outputs, Prompts, Service
from trustgraph_prompt.worker.telemetry import http
from trustgraph_prompt.worker.telemetry.status import Status
from trustgraph_prompt.worker.telemetry.status_page import StatusPage

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

REQUESTS = 5_000
DEFINITIONS = "persistent://tg/flow/definitions"


async def ask(broker: Broker, count: int, first: int = 0) -> list[Answer]:
    """Ask the requests from `first` to `count`; gives the records of all answers."""
    async with listening(broker, f"{DEFINITIONS}-answers") as answers:
        producer = await broker.producer(DEFINITIONS)
        for number in range(first, count):
            data = PromptRequest.asking("define", {"text": text_of(number)}).encode()
            await producer.send(data, properties={"id": f"request-{number}"})
        return [Answer.decode(message.data) for message in await answers.until(count, 180)]


async def figures(page: Page, card: str) -> dict[str, str]:
    """The figures and counts in the card with this title, by their names."""
    names = f"article:has(h3:text-is('{card}')) dl > div"
    pairs: list[list[str]] = await page.eval_on_selector_all(
        names,
        "divs => divs.map(div => [...div.children].map(child => child.textContent.trim()))",
    )
    return {name: " ".join(values) for name, *values in pairs}


async def rules_broken(page: Page) -> list[str]:
    """What axe-core finds."""
    from axe_playwright_python.async_playwright import Axe

    results = await Axe().run(page)
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in results.response["violations"]]


async def test_after_five_thousand_requests_every_number_is_a_count_over_the_answers() -> None:
    async with local(flow("definitions")) as worker, browsing(worker.url) as page:
        records = await ask(worker.broker, REQUESTS)
        useless = KINDS.count("useless") * REQUESTS // len(KINDS)
        await page.get_by_text(f"unusable-answer {useless:,}").wait_for()
        await page.get_by_text("0 of 16").wait_for()
        status_counts.check(worker.status.observe()(), worker.service.metrics.text().decode())
        shown, of_prompt = await figures(page, "definitions"), await figures(page, "define")

    def total(what: Callable[[Answer], float | None]) -> str:
        return f"{sum(what(record) or 0 for record in records):,}"

    reasons = Counter(record.reason.replace("_", " ") for record in records)
    for numbers in (shown, of_prompt):
        assert numbers["Requests"] == f"{REQUESTS:,}"
        assert numbers["Objects"] == total(lambda record: len(record.objects))
        assert numbers["Outcomes"] == " ".join(f"{reason} {n:,}" for reason, n in sorted(reasons.items()))
        assert numbers["Spent"] == f"{sum(record.cost or 0.0 for record in records):.4f}"
    assert shown["Refused"] == total(lambda record: record.rejected_count)
    assert of_prompt["Refused objects"] == f"schema missing field {shown['Refused']}"
    assert of_prompt["Truncated"] == total(lambda record: record.truncated)
    continued = [record for record in records if any(call["why"] == "continue" for call in record.calls)]
    assert of_prompt["Completed"] == f"{len(continued):,}"
    repaired = sum(1 for number in range(REQUESTS) if KINDS[number % len(KINDS)] == "broken")
    assert of_prompt["Repaired objects"] == f"other quotes than JSON's {repaired:,}"


async def served_by(process: Process) -> str:
    host, port = await process.address()
    return f"http://{host}:{port}/"


async def answered(site: Site, process: Process) -> None:
    """Ask for an answer of each kind, until the process has nothing in work."""
    async with await connect(site.url) as broker:
        await ask(broker, len(KINDS))
    await process.shows("/status.json", '"in_work":0')


@pytest.fixture
async def busy(site: Site) -> Site:
    site.serves(flow_file("definitions"), TEMPLATES)
    site.answers(*RECORDING)
    return site


async def test_content_appears_nowhere_without_the_option(busy: Site) -> None:
    process = await busy.run()
    await answered(busy, process)
    async with browsing(await served_by(process)) as page:
        await page.locator("#outcomes tr").nth(len(KINDS) - 1).wait_for()
        assert "SECRET" not in await page.content()
    pages = [await process.page(path) for path in ("/", "/status.json", "/metrics", "/readyz", "/livez")]
    assert "SECRET" not in "".join(pages)
    process.send_signal(signal.SIGTERM)
    await process.ended()
    assert "SECRET" not in "".join(process.log)


async def test_content_is_shown_on_request_with_the_rule_that_was_broken(busy: Site) -> None:
    process = await busy.run("--show-content")
    await answered(busy, process)
    async with browsing(await served_by(process)) as page:
        await page.get_by_text("Live").wait_for()
        await page.locator("summary", has_text=f"request-{KINDS.index('refused')}").focus()
        await page.keyboard.press("Enter")
        details = page.locator("details[open]")
        await details.get_by_text('{"entity": "SECRET-ANSWER"}').wait_for()
        assert '"required": ["entity", "definition"]' in await details.inner_text()
        assert text_of(KINDS.index("refused")) in await details.inner_text()
        assert await rules_broken(page) == []
        async with await connect(busy.url) as broker:
            await ask(broker, len(KINDS) + 1, first=len(KINDS))
        await page.locator("#outcomes tr", has_text=f"request-{len(KINDS)}").wait_for()
        assert await details.count() == 1  # an update has not closed it
    assert "SECRET" not in "".join(process.log)


@pytest.mark.parametrize(
    ("address", "is_warned"),
    [(":0", True), ("0.0.0.0:0", True), ("127.0.0.1:0", False), ("localhost:0", False)],
)
async def test_content_on_an_address_that_others_reach_is_warned_of(
    busy: Site, address: str, is_warned: bool
) -> None:
    process = await busy.run("--show-content", "--http", address)
    await process.address()
    process.send_signal(signal.SIGTERM)
    await process.ended()
    assert ("whoever reaches this address can read" in "".join(process.log)) is is_warned


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_the_page_breaks_no_rule_of_accessibility_and_fits_a_phone(scheme: str) -> None:
    phone: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "color_scheme": scheme}
    async with local(flow("definitions")) as worker, browsing(worker.url, **phone) as page:
        await ask(worker.broker, len(KINDS))
        worker.service.health.waiting["broker"] = "away " + "far" * 100
        await page.get_by_text("Not ready").first.wait_for()
        await page.locator("#outcomes tr").nth(len(KINDS) - 1).wait_for()
        assert await rules_broken(page) == []
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        await page.set_viewport_size({"width": 1280, "height": 900})
        assert await rules_broken(page) == []
        assert "here)" in await page.locator("header").inner_text()
        title = await page.locator("header time").first.get_attribute("title")
        assert "GMT+5:45" in str(title)
        await page.locator("body").press("Tab")
        assert await page.evaluate("document.activeElement.textContent") == "1 prompt not asked yet"
        await page.keyboard.press("Tab")
        assert await page.evaluate("document.activeElement.className") == "card scroll"


def flow(name: str) -> Flow:
    topic = f"persistent://tg/flow/{name}"
    return Flow(
        name,
        Input(topic, f"prompt--default--{name}--request"),
        Outputs(f"{topic}-answers"),
        concurrency=16,
        budget=Budget(attempts=1),
        price=Price(0.2, 0.6),
    )


class Local:
    """A worker in this process, and its page."""

    def __init__(self, broker: Broker, *flows: Flow) -> None:
        script = [ScriptedAnswer(line.pop("answer"), **line) for line in map(dict, RECORDING)]
        self.broker = broker
        self.service = Service(
            broker, flows, Prompts(TEMPLATES), lambda model: ScriptedProvider(script), config_topic=None
        )
        self.status = Status(self.service, "prompt")
        self.bound = "127.0.0.1:0"
        self._serving = AsyncExitStack()

    @property
    def url(self) -> str:
        return f"http://{self.bound}/"

    def change(self, flows: Sequence[Flow]) -> None:
        """Serve these flows."""
        assert self.service.flow_set is not None
        self.service.flow_set.change(flows)

    async def serve(self) -> None:
        """Serve the page as after a start, at the address that it had."""
        await self.close()
        self.status = Status(self.service, "prompt")
        service, page = self.service, StatusPage(self.status)
        serving = http.serve(self.bound, service.health, service.metrics, page)
        self.bound = await self._serving.enter_async_context(serving)

    async def close(self) -> None:
        await self._serving.aclose()


@asynccontextmanager
async def local(*flows: Flow) -> AsyncIterator[Local]:
    async with await connect("embedded:") as broker:
        worker = Local(broker, *flows)
        running = asyncio.create_task(worker.service.run())
        await worker.serve()
        yield worker
        await worker.close()
        worker.service.stop()
        await running


async def test_flows_come_and_go_while_requests_are_answered() -> None:
    async with local(flow("first")) as worker, browsing(worker.url) as page:
        await page.get_by_role("heading", name="first").wait_for()
        worker.change([flow("first"), flow("definitions")])
        await page.get_by_role("heading", name="definitions").wait_for()
        asking = asyncio.create_task(ask(worker.broker, 240))
        worker.change([flow("definitions")])
        await page.get_by_role("heading", name="first").wait_for(state="detached")
        await page.get_by_text("success 210").first.wait_for()
        await page.get_by_text("extraction failed 30").first.wait_for()
        await asking
        assert (await figures(page, "definitions"))["Requests"] == "240"


async def test_a_worker_that_starts_again_is_shown_without_a_click() -> None:
    async with local(flow("first")) as worker, browsing(worker.url) as page:
        await page.get_by_text("Live").wait_for()
        before = await page.locator("html").get_attribute("data-instance")
        await worker.serve()
        changed = "before => document.documentElement.dataset.instance !== before"
        await page.wait_for_function(changed, arg=before)
        await page.get_by_text("Live").wait_for()


async def test_one_page_too_many_says_so_and_tries_again() -> None:
    async with local(flow("first")) as worker, ClientSession() as session, AsyncExitStack() as others:
        for _ in range(http.MAX_LISTENERS):
            await others.enter_async_context(session.get(f"{worker.url}events"))
        async with browsing(worker.url, logs="503") as page:
            await page.get_by_text("too many pages are open").wait_for()
            worker.change([flow("other")])
            await others.aclose()
            await page.get_by_role("heading", name="other").wait_for()
            await page.get_by_text("Live").wait_for()


async def test_the_error_page_of_a_proxy_does_not_replace_the_page() -> None:
    async with local(flow("first")) as worker, browsing(worker.url, logs="50") as page:
        await page.route("**/events", lambda route: route.fulfill(status=502, body="<h1>Bad Gateway</h1>"))
        await worker.close()
        await worker.serve()
        await page.get_by_text("cannot be reached").wait_for()
        await page.get_by_role("heading", name="first").wait_for()
        await page.unroute("**/events")
        await page.get_by_text("Live").wait_for()


async def test_the_completion_worker_has_the_page(site: Site) -> None:
    site.answers({"answer": "said"})
    worker = await site.start("complete", "--broker", site.url, "--provider", site.provider)
    document = json.loads(await worker.page("/status.json"))
    assert [(flow["kind"], flow["waiting"]) for flow in document["flows"]] == [("text-completion", None)]
    assert document["worker"]["id"] == "text-completion"
    assert document["config"] == {"topic": None, "changes": []}
    assert "text-completion" in await worker.page("/")


@pytest.mark.pulsar
async def test_a_broker_that_goes_away_is_named(pulsar_url: str, pulsar_space: str, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(PulsarProxy(pulsar_url))
        site = Site(tmp_path, stack, proxy.url, f"persistent://{pulsar_space}/config/prompt")
        site.serves(flow_file("f", f"{pulsar_space}/flow"), TEMPLATES)
        site.answers(*RECORDING)
        worker = await site.run()
        async with browsing(await served_by(worker)) as page:
            await page.locator(".state.good", has_text="Ready").wait_for()
            proxy.refuse()
            await page.locator(".state.bad", has_text="Not ready").wait_for()
            await page.locator("#problems dt", has_text="flow f").first.wait_for()
            await page.get_by_text("Live").wait_for()
