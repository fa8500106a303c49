"""The report of a run in a real browser: its numbers, its links, its limits, and what it never does."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson
import pytest

from tests.support.browser import browsers, opened
from tests.support.command import DOCUMENT, SCRIPTED, run
from trustgraph_prompt.broker import connect
from trustgraph_prompt.cost import Price, Usage
from trustgraph_prompt.documents import Document, DocumentChunk
from trustgraph_prompt.extraction.questions import Job
from trustgraph_prompt.extraction.report import ReportedRun, RunReport, write_report
from trustgraph_prompt.extraction.results import FoundObject, Result
from trustgraph_prompt.extraction.state import ANSWERS
from trustgraph_prompt.worker.messages.answer_record import Answer

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

PRICE: Final = Price(0.15, 0.60)
HOSTILE: Final = "</script></style><img src=x onerror=\"document.title='owned'\"><!--"
UNSEEN: Final = "\u202eright\u202c \x1b[31m\x00 \u2066left\u2069"
NUMBERS: Final = """(all) => all.map((each) => [each.dataset.of, Number(each.value)])"""
TABLES: Final = """(tables) => tables.map((table) => {
    const cells = (row) => [...row.querySelectorAll("td data")];
    const numbers = (row) => cells(row).map((each) => [each.dataset.of, Number(each.value)]);
    const named = (row) => [row.querySelector("bdi").textContent, Object.fromEntries(numbers(row))];
    return Object.fromEntries([...table.tBodies[0].rows].map(named));
})"""
VALUES: Final = (
    """(all) => all.map((object) => [...object.querySelectorAll("dd")].map((each) => each.textContent))"""
)
TEXTS: Final = "(all) => all.map((each) => each.textContent)"

Opening = Callable[..., "Page"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsers() as launch:
        yield launch()


@pytest.fixture
def open_report(browser: Browser) -> Iterator[Opening]:
    with ExitStack() as stack:
        yield lambda file, **options: stack.enter_context(opened(browser, file, "main", **options))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run over the demo's document, with graph and report."""
    folder = tmp_path_factory.mktemp("demo")
    shutil.copy(DOCUMENT, folder / "chalk.txt")
    outputs = ("-o", "objects.jsonl", "--graph", "graph.html", "--report", "report.html")
    command = ("extract", "chalk.txt", "--provider", SCRIPTED, "--price", "0.15,0.60", *outputs)
    assert run(*command, folder=folder).returncode == 0
    return folder


def kept_answers(state: Path) -> list[Answer]:
    """The answers in the state of a run."""

    async def read() -> list[Answer]:
        async with await connect(f"embedded:{state}") as broker:
            table = await broker.table(ANSWERS)
            await table.close()
            return [Answer.decode(message.data) for message in table.entries.values()]

    with ThreadPoolExecutor() as thread:  # this one has the loop of the browser
        return thread.submit(asyncio.run, read()).result()


def counted(lines: list[dict[str, Any]], answers: list[Answer]) -> dict[str, Any]:
    """The numbers of some objects and answers, counted from scratch."""
    usages = [Usage(**answer.usage) for answer in answers]
    continued = [answer for answer in answers if any(call["why"] == "continue" for call in answer.calls)]
    found: dict[str, Any] = {
        "questions": len(answers),
        "objects": len(lines),
        "refused": sum(answer.rejected_count for answer in answers),
        "weak": sum(
            where["kind"] == "part" for line in lines for where in line.get("grounding", {}).values() if where
        ),
        "truncated": sum(bool(answer.truncated) for answer in answers),
        "completed": sum(not answer.truncated for answer in continued),
        "nothing": sum(not answer.objects and answer.reason == "success" for answer in answers),
        "tokens_in": sum(usage.prompt_tokens or 0 for usage in usages),
        "tokens_out": sum(usage.completion_tokens or 0 for usage in usages),
        "money": pytest.approx(sum(map(PRICE.of, usages))),
    }
    assert sum(not answer.objects for answer in answers) == found["nothing"], "none is without use"
    return found


def test_every_number_is_a_count_over_the_objects_and_the_state(demo: Path, open_report: Opening) -> None:
    page = open_report(demo / "report.html")
    lines = [json.loads(line) for line in (demo / "objects.jsonl").read_bytes().splitlines()]
    answers = kept_answers(demo / "objects.jsonl.state")
    total = counted(lines, answers)
    by_prompt = {
        prompt: counted(
            [line for line in lines if line["prompt"] == prompt],
            [answer for answer in answers if answer.prompt == prompt],
        )
        for prompt in ("extract-definitions", "extract-relationships")
    }
    prompts, documents = page.locator("table").evaluate_all(TABLES)
    assert prompts == {**by_prompt, "all": total}
    assert documents == {"chalk.txt": total}

    shown = dict(page.locator("#numbers data").evaluate_all(NUMBERS))
    expected = {"objects", "tokens_in", "tokens_out", "money"}
    assert shown == {name: total[name] for name in expected} | {
        "documents": 1,
        "chunks": len(answers) / len(by_prompt),
        "answers": len(answers),
    }

    assert page.locator(".objects > li").count() == total["objects"]
    assert page.locator("#refused .remarks > li").count() == total["refused"]
    assert page.locator("#doubtful .remarks > li").count() == total["weak"]
    assert page.locator("#truncated .remarks > li").count() == total["truncated"]
    assert page.locator("#nothing .remarks > li").count() == total["nothing"]
    linked = page.locator("nav data").all_inner_texts()
    assert linked == [str(total[name]) for name in ("refused", "weak", "truncated", "nothing", "objects")]


def test_each_object_stands_beside_the_chunk_that_it_is_from(demo: Path, open_report: Opening) -> None:
    page = open_report(demo / "report.html")
    lines = [json.loads(line) for line in (demo / "objects.jsonl").read_bytes().splitlines()]
    text = (demo / "chalk.txt").read_text(encoding="utf-8")
    by_chunk: dict[int, list[dict[str, Any]]] = {}
    for line in lines:
        by_chunk.setdefault(line["chunk"], []).append(line)
    for number, of_chunk in by_chunk.items():
        article = page.locator(f"#d1-c{number}")
        assert (article.locator(".passage").text_content() or "") in text
        marks = set(article.locator("mark").evaluate_all(TEXTS))
        values = article.locator(".objects > li").evaluate_all(VALUES)
        for line, shown in zip(of_chunk, values, strict=True):
            for value, cell in zip(line["object"].values(), shown, strict=True):
                assert cell.startswith(value if isinstance(value, str) else json.dumps(value))
            for where in line.get("grounding", {}).values():
                for start, end in where["spans"] if where else ():
                    words = text[line["start"] + start : line["start"] + end]
                    assert any(words in mark or mark in words for mark in marks)


def test_links_lead_to_the_graph_to_the_objects_and_within_the_page(demo: Path, open_report: Opening) -> None:
    page = open_report(demo / "report.html")
    files = page.locator("#numbers a").evaluate_all("(links) => links.map((link) => link.href)")
    assert files == [(demo / name).as_uri() for name in ("graph.html", "objects.jsonl")]
    inner = page.locator("a[href^='#']").evaluate_all("(all) => all.map((link) => link.getAttribute('href'))")
    assert inner
    for target in set(inner):
        assert page.locator(target).count() == 1, target


def test_command_that_a_run_names_makes_the_report_again_of_kept_answers(tmp_path: Path) -> None:
    shutil.copy(DOCUMENT, tmp_path / "chalk.txt")
    first = run("extract", "chalk.txt", "--provider", SCRIPTED, "-o", "o.jsonl", folder=tmp_path)
    [command] = [line for line in first.stdout.splitlines() if "--report" in line]
    again = run(*shlex.split(command)[1:], "--json", folder=tmp_path)
    summary = json.loads(again.stdout)
    assert summary["from_earlier_runs"] == summary["answers"]
    assert summary["tokens"] == {"in": 0, "out": 0}
    assert summary["report"] == "o-report.html"
    once = run(
        *("extract", "chalk.txt", "--provider", SCRIPTED, "-o", "p.jsonl", "--report", "p-report.html"),
        folder=tmp_path,
    )
    assert once.returncode == 0
    pages = [(tmp_path / f"{name}-report.html").read_text() for name in "op"]
    made = re.compile(r"<time .*?</time>")
    assert made.sub("", pages[0]) == made.sub("", pages[1]).replace("p.jsonl", "o.jsonl")


PROMPT: Final = {"dialect": "jinja", "prompt": "{{ text }}", "response-type": "jsonl"} | {
    "schema": {"type": "object", "required": ["a"]}
}


def test_texts_from_outside_stay_texts(tmp_path: Path, open_report: Opening) -> None:
    name = "<b>\u202e&\"'.txt"
    (tmp_path / name).write_text(f"{HOSTILE} {UNSEEN}".replace("\0", ""), encoding="utf-8")
    (tmp_path / "say.yaml").write_text(json.dumps(PROMPT))
    answer = "\n".join(
        json.dumps(each) for each in ({"a": HOSTILE, HOSTILE: UNSEEN}, {"b": HOSTILE + UNSEEN})
    )
    (tmp_path / "said.jsonl").write_text(json.dumps({"answer": answer}) + "\n")
    command = (
        "extract",
        name,
        "--templates",
        "say.yaml",
        "--prompt",
        "say",
        "--provider",
        "scripted:said.jsonl",
    )
    made = run(*command, "-o", "<i>.jsonl", "--report", "report.html", folder=tmp_path)
    assert made.returncode == 0, made.stderr
    page = open_report(tmp_path / "report.html")
    assert page.title() == "Report: <i>.jsonl"
    assert page.locator("img, i, b:not(#numbers b), script").count() == 0
    assert page.locator("h1").inner_text() == "<i>.jsonl"
    assert page.locator(".objects dt").all_inner_texts() == ["a", HOSTILE]
    assert page.locator(".objects dd").all_inner_texts()[0] == HOSTILE
    content = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", content)
    assert "\\u202eright" in content


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(demo: Path, open_report: Opening, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = open_report(demo / "report.html", color_scheme=scheme)
    page.locator("summary").evaluate_all(
        "(all) => all.forEach((each) => { each.parentElement.open = true; })"
    )
    assert Axe().run(page).response["violations"] == []


def test_a_phone_scrolls_in_one_direction_and_axe_finds_nothing(demo: Path, open_report: Opening) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = open_report(demo / "report.html", viewport={"width": 360, "height": 740})
    assert page.evaluate("() => document.scrollingElement.scrollWidth <= innerWidth")
    assert Axe().run(page).response["violations"] == []


def test_light_and_dark_follow_the_preference(demo: Path, open_report: Opening) -> None:
    page = open_report(demo / "report.html")
    paper = "() => getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(paper) != light


def test_links_and_details_are_reached_and_opened_by_keyboard(demo: Path, open_report: Opening) -> None:
    page = open_report(demo / "report.html")
    usable = page.locator("a:visible, summary:visible, [tabindex]:visible")
    for _ in range(usable.count()):
        page.keyboard.press("Tab")
        page.evaluate("() => document.activeElement.classList.add('reached')")
    assert page.locator(":is(a, summary, [tabindex]):not(.reached):visible").count() == 0
    passage = page.locator("#refused .remarks .passage").first
    assert not passage.is_visible()
    page.locator("#refused .remarks summary").first.focus()
    page.keyboard.press("Enter")
    assert passage.is_visible()


def test_nothing_may_be_loaded_or_run(demo: Path) -> None:
    page = (demo / "report.html").read_text(encoding="utf-8")
    found = re.search(r'"Content-Security-Policy" content="([^"]*)"', page)
    assert found
    policy = dict(each.split(" ", 1) for each in found[1].replace("&#39;", "'").split("; "))
    assert re.fullmatch(r"'sha256-[^']*'", policy.pop("style-src"))
    assert policy == dict.fromkeys(("default-src", "base-uri", "form-action"), "'none'")
    assert not re.search(r"<script|style=|\son\w+=", page)


def test_ten_thousand_objects_can_be_used(tmp_path: Path, open_report: Opening) -> None:
    documents = [Document(f"{n}.txt", "word " * 400) for n in range(50)]
    report = RunReport({"define": None})
    jobs: list[Job] = []
    for document in documents:
        for number in range(1, 41):
            jobs.append(
                Job(len(jobs), str(len(jobs)), "define", document, DocumentChunk(number, 0, document.text))
            )
            found = tuple(FoundObject(orjson.dumps({"name": f"{len(jobs)} {n}"})) for n in range(5))
            report.add(Result(jobs[-1], found))
    report.count(jobs)
    write_report(
        report, tmp_path / "r.html", ReportedRun(tmp_path / "o.jsonl", "m", {"define": "v"}, None, ()), ()
    )
    page = open_report(tmp_path / "r.html")
    assert page.locator(".objects > li").count() == 10_000
    last = page.locator("#d50-c40")
    assert not last.is_visible()
    page.get_by_role("link", name="49.txt").click()
    page.locator("#d50 > summary").press("Enter")
    last.scroll_into_view_if_needed()
    assert last.get_by_text("2000 4", exact=True).is_visible()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--report", "report.pdf"], "--report report.pdf: a page is HTML"),
        (
            ["--report", "same.html", "--graph", "same.html"],
            "--report same.html: is another file of this run",
        ),
        (["--report", "nowhere/report.html"], "--report nowhere/report.html: cannot be written"),
        (["--report", "mine.html"], "mine.html: exists, and no run with this --output wrote it as it is"),
    ],
)
def test_report_that_cannot_be_written_is_refused_before_a_question(
    options: list[str], told: str, tmp_path: Path
) -> None:
    shutil.copy(DOCUMENT, tmp_path / "chalk.txt")
    (tmp_path / "mine.html").write_text("mine")
    refused = run("extract", "chalk.txt", "--provider", SCRIPTED, "-o", "o.jsonl", *options, folder=tmp_path)
    assert refused.returncode == 2
    assert told in refused.stderr
    assert not (tmp_path / "o.jsonl").exists()


def test_a_report_in_the_folder_of_documents_is_no_document(tmp_path: Path) -> None:
    (tmp_path / "papers").mkdir()
    shutil.copy(DOCUMENT, tmp_path / "papers" / "chalk.txt")
    command = (
        "extract",
        "papers",
        "--provider",
        SCRIPTED,
        "-o",
        "o.jsonl",
        "--report",
        "papers/r.html",
        "--json",
    )
    chunks = [json.loads(run(*command, folder=tmp_path).stdout)["chunks"] for _ in range(2)]
    assert Counter(chunks).most_common(1)[0][1] == 2
