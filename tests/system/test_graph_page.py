"""The page of a graph in a real browser: search, filters, drawing, text, keyboard, and what it never does."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.browser import Launch, browsers, opened
from tests.support.command import ROOT, run
from tests.support.made_graph import made_graph
from tests.support.stored_graph import Answer, Paper, relation
from trustgraph_prompt.graph_store.node_positions import layout
from trustgraph_prompt.graph_store.page import TEMPLATE, write_page
from trustgraph_prompt.graph_store.store import GraphStore
from trustgraph_prompt.graph_store.view import (
    Cut,
    Fact,
    GraphView,
    RefusedObject,
    SourceDocument,
    SourcePassage,
    Thing,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

HOSTILE = "<img src=x onerror=\"document.title='owned'\"></script><!--"
NOTES = (
    "🦀🦀 On engines.\n\n"
    "It was 1843. 🚀 Ada Lovelace wrote the Notes\nabout the Analytical Engine, 記録. "
    "She lived in London.\n\nNobody else did.\n"
)
LETTERS = f"A letter. Ada Lovelace also wrote Notes in French. Then {HOSTILE} was there.\n"


class Story:
    """A small graph with all that a page shows."""

    def __init__(self) -> None:
        self.documents = {
            "urn:1": SourceDocument("urn:1", ("notes.txt",), "text", NOTES),
            "urn:2": SourceDocument("urn:2", ("letters.pdf",), "pdf", LETTERS),
        }
        ada, notes = self.thing("Ada Lovelace", "Person", "Lovelace, Ada"), self.thing("Notes", "Work")
        engine, london = self.thing("Analytical Engine", "Machine"), self.thing("London", "Place")
        hostile = self.thing(HOSTILE, "<b>Person</b>")
        self.things = {each.iri: each for each in (ada, notes, engine, london, hostile)}
        self.facts = [
            self.fact(
                ada,
                "wrote",
                notes,
                ("urn:1", "Ada Lovelace"),
                ("urn:1", "Notes"),
                ("urn:2", "Ada Lovelace"),
                ("urn:2", "Notes"),
            ),
            self.fact(notes, "are about", engine, ("urn:1", "Notes"), ("urn:1", "Analytical Engine")),
            self.fact(
                notes,
                "are described as",
                "the Notes\nabout the Analytical Engine",
                ("urn:1", "the Notes\nabout the Analytical Engine"),
            ),
            self.fact(ada, "lived in", london, ("urn:1", "London"), prompt="places"),
            Fact(
                engine.iri,
                "runs on",
                "steam",
                False,
                (),
                ("facts",),
                (SourcePassage("urn:1", 0, len(NOTES) - 1),),
                True,
            ),
            self.fact(hostile, HOSTILE, HOSTILE),
        ]

    def thing(self, name: str, type: str, *others: str) -> Thing:
        iri = f"https://example.org/{len(name)}"
        return Thing(iri, name, (iri,), (name, *others), (type,))

    def passage(self, document: str, words: str) -> SourcePassage:
        start = self.documents[document].text.index(words)
        return SourcePassage(document, start, start + len(words), 3 if document == "urn:2" else None)

    def fact(
        self,
        subject: Thing,
        predicate: str,
        object: Thing | str,
        *where: tuple[str, str],
        prompt: str = "facts",
    ) -> Fact:
        passages = tuple(self.passage(*each) for each in where)
        value = object if isinstance(object, str) else object.iri
        return Fact(
            subject.iri, predicate, value, isinstance(object, Thing), passages, (prompt,), (), not passages
        )

    def view(self) -> GraphView:
        whole = SourcePassage("urn:2", 0, len(LETTERS) - 1)
        refusal = RefusedObject(whole, "facts", '{"subject": "Zeus"}', f"Zeus is not in the text {HOSTILE}")
        return GraphView(self.things, self.facts, self.documents, [refusal], [Cut(whole, "places")])


@pytest.fixture(scope="module")
def chromium() -> Iterator[Launch]:
    with browsers() as launch:
        yield launch


@pytest.fixture(scope="module")
def browser(chromium: Launch) -> Browser:
    return chromium()


Opening = Callable[..., "Page"]


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Opening]:
    """Write the page of a graph and open it."""
    with ExitStack() as stack:

        def open_page(view: GraphView, **options: Any) -> Page:
            write_page(view, tmp_path / "graph.html", "A graph of <notes>")
            return stack.enter_context(opened(browser, tmp_path / "graph.html", **options))

        yield open_page


@pytest.fixture
def page(open_page: Opening) -> Page:
    """The page of the story."""
    return open_page(Story().view())


def sees(locator: Locator, *texts: str | re.Pattern[str]) -> None:
    from playwright.sync_api import expect

    expect(locator).to_have_text([*texts])


def reads(page: Page, quote: str, *words: str) -> None:
    """Check which sentence is highlighted, and which words in it."""
    highlighted = "() => [...CSS.highlights.get('sentence')].map((range) => range.toString()).join()"
    assert page.evaluate(highlighted) == quote
    sees(page.locator("mark.chosen"), *words)


def chosen(page: Page, name: str) -> None:
    sees(page.locator("#details h2"), name)


def edge_at(page: Page, subject: int, object: int) -> tuple[float, float]:
    """Where the middle of an edge is in the window."""
    x, y = page.evaluate(
        """([a, b]) => {
            const { sigma } = graphPage;
            const at = (node) => sigma.graphToViewport(sigma.getGraph().getNodeAttributes(node));
            const [from, to] = [at(a), at(b)];
            const { left, top } = document.getElementById("graph").getBoundingClientRect();
            return [left + (from.x + to.x) / 2, top + (from.y + to.y) / 2];
        }""",
        [subject, object],
    )
    return x, y


def test_an_edge_leads_to_its_sentence_and_to_those_of_other_documents(page: Page) -> None:
    page.mouse.click(*edge_at(page, 0, 1))
    chosen(page, "Ada Lovelace")
    sees(page.locator("#place-text span"), "Passage 1 of 2: Ada Lovelace — wrote → Notes")
    reads(
        page,
        "🚀 Ada Lovelace wrote the Notes\nabout the Analytical Engine, 記録.",
        *("Ada Lovelace", "Notes"),
    )
    page.get_by_role("button", name="Next passage").click()
    sees(page.locator("#place-text small"), "letters.pdf · page 3 · facts")
    reads(page, "Ada Lovelace also wrote Notes in French.", "Ada Lovelace", "Notes")
    assert page.locator("#text").inner_text().startswith("A letter.")  # only one document is there
    page.get_by_role("button", name="Next passage").click()
    sees(page.locator("#place-text small"), "notes.txt · facts")


def test_a_click_in_the_text_chooses_the_thing_also_where_passages_overlap(page: Page) -> None:
    sees(
        page.locator("#text mark"),
        "Ada Lovelace",
        "the ",
        "Notes",
        "\nabout the ",
        "Analytical Engine",
        "London",
    )
    for words, name in (("London", "London"), ("Analytical Engine", "Analytical Engine"), ("the ", "Notes")):
        page.locator("#text mark").get_by_text(words, exact=True).first.click()
        chosen(page, name)


def test_a_click_on_a_node_shows_its_facts_and_its_neighbours(page: Page) -> None:
    page.mouse.click(*edge_at(page, 1, 1))
    chosen(page, "Notes")
    sees(page.locator("#details h3"), "Facts (3)")
    described = "are described asthe Notes\nabout the Analytical Engine"
    sees(page.locator(".facts li"), described, "wrote← Ada Lovelace", "are about→ Analytical Engine")
    near = "() => graphPage.sigma.getGraph().filterNodes((_, { thing }) => thing.near).length"
    assert page.evaluate(near) == 3
    page.get_by_label("Neighbours").select_option("2 steps")
    assert page.evaluate(near) == 4


def test_search_suggests_things_by_each_of_their_names(page: Page) -> None:
    page.get_by_label("Search", exact=True).fill("LOVELACE, a")
    sees(page.locator("#things li"), "Ada Lovelace")
    sees(page.locator("#found"), "1 of 5 things")
    page.get_by_label("Search", exact=True).press("Enter")
    chosen(page, "Ada Lovelace")


def test_a_chosen_thing_leads_to_its_first_mention_and_then_to_the_others(page: Page) -> None:
    page.get_by_label("Document", exact=True).select_option("letters.pdf")
    page.locator("#things").get_by_role("button", name="Ada Lovelace").click()
    sees(page.locator("#place-text span"), "Passage 1 of 2: Ada Lovelace")
    sees(page.locator("#place-text small"), "notes.txt · named here")
    reads(page, "🚀 Ada Lovelace wrote the Notes\nabout the Analytical Engine, 記録.", "Ada Lovelace")
    page.get_by_role("button", name="Next passage").click()
    sees(page.locator("#place-text small"), "letters.pdf · page 3 · named here")
    page.get_by_label("From document").select_option("letters.pdf")
    page.locator("#things").get_by_role("button", name="Ada Lovelace").click()
    sees(page.locator("#place-text small"), "letters.pdf · page 3 · named here")
    page.locator("#text mark").get_by_text("Notes", exact=True).click()
    chosen(page, "Notes")
    assert page.locator("#place").is_hidden()  # the reader is at a mention


def test_a_value_that_is_the_name_of_a_thing_leads_to_it_and_is_marked(open_page: Opening) -> None:
    story = Story()
    engine = story.things["https://example.org/17"]
    story.facts += [
        story.fact(engine, "was explained by", "the Ada  Lovelace", ("urn:1", "Ada Lovelace")),
        story.fact(engine, "is", "analytical engine", ("urn:1", "Analytical Engine")),
        story.fact(engine, "is a", "Machine", ("urn:1", "Analytical Engine")),
    ]
    page = open_page(story.view())
    page.locator("#things").get_by_role("button", name="Analytical Engine").click()
    rows = page.locator(".facts li")
    sees(rows.filter(has_text="was explained by"), "was explained by→ Ada Lovelace (linked by name)")
    sees(rows.filter(has_text="analytical engine"), "isanalytical engine")
    assert page.locator("#numbers data[data-of='linked by name']").get_attribute("value") == "1"
    assert page.evaluate("() => graphPage.sigma.getGraph().hasEdge('2 0')")
    rows.get_by_role("button", name="Ada Lovelace").click()
    chosen(page, "Ada Lovelace")


def test_doubts_and_ids_are_explained_where_they_stand(open_page: Opening) -> None:
    story = Story()
    iri = "http://trustgraph.ai/e/tamm"
    story.things[iri] = Thing(iri, "Herb Tamm", (iri,), ("Herb Tamm",), ())
    tamm = story.fact(story.things[iri], "lived in", "London", ("urn:1", "London"))
    story.facts.append(tamm._replace(is_weak=True))
    page = open_page(story.view())
    page.get_by_role("button", name="1 weak").click()
    sees(page.locator("#problem-help"), re.compile("of which the text has only a part"))
    page.get_by_role("button", name="Herb Tamm — lived in → London").click()
    sees(
        page.locator("#place-text span"),
        "Herb Tamm — lived in → London — a name is in the text only in part",
    )
    sees(page.locator(".facts li"), "lived in→ London (linked by name) (in the text in part)")
    sees(page.locator("#details .iris"), re.compile("are made from names.*no addresses on the web"))
    page.get_by_role("button", name="2 ungrounded").click()
    sees(page.locator("#problem-help"), re.compile("a name that is not in the text"))


def test_headings_are_shown_without_their_marks(open_page: Opening) -> None:
    text = "# Ada *Lovelace* #\n\nShe wrote.\n\nNotes\n=====\n\n## Steam ##\nA #1 engine.\n"
    iri = "urn:trustgraph:1"
    document = SourceDocument(iri, ("ada.md",), "markdown", text)
    page = open_page(GraphView({}, [], {iri: document}, [], []))
    shown = page.locator("#text").inner_text()
    assert shown.rstrip() == "Ada *Lovelace*\n\nShe wrote.\n\nNotes\n\nSteam\nA #1 engine."
    sees(page.locator("#text b:visible"), "Ada *Lovelace*", "Notes", "Steam")


def test_a_heading_full_of_blanks_is_shown(open_page: Opening) -> None:
    text = "# Chalk" + " " * 1_000_000 + "and flint\n"
    page = open_page(
        GraphView({}, [], {"urn:1": SourceDocument("urn:1", ("a.md",), "markdown", text)}, [], [])
    )
    assert "flint" in page.locator("#text b:visible").inner_text()


def test_filters_narrow_things_by_type_document_and_prompt(page: Page) -> None:
    found, types = page.locator("#found"), page.locator("#types")
    types.get_by_label("Machine").uncheck()
    sees(found, "4 of 5 things")
    page.get_by_role("button", name="All or none").click()
    sees(found, "5 of 5 things")
    page.get_by_label("From document").select_option("letters.pdf")
    sees(found, "2 of 5 things")
    page.get_by_label("From document").select_option("all documents")
    page.get_by_label("From prompt").select_option("places")
    sees(found, "2 of 5 things")
    drawn = """() => graphPage.sigma.getGraph().filterNodes(
        (node) => !graphPage.sigma.getNodeDisplayData(node).hidden).length"""
    assert page.evaluate(drawn) == 2


def test_refused_ungrounded_and_truncated_are_listed_with_reasons_and_places(page: Page) -> None:
    page.get_by_role("button", name="1 refused").click()
    sees(page.locator("#problem-list code"), '{"subject": "Zeus"}')
    page.get_by_role("button", name="Zeus is not in the text").click()
    reads(page, LETTERS[:-1])
    page.get_by_role("button", name="1 truncated").click()
    assert page.locator("#place").is_hidden()
    page.get_by_role("button", name="The answer was truncated").click()
    sees(page.locator("#place-text span"), "The answer about this passage was truncated")
    page.get_by_role("button", name="2 ungrounded").click()
    page.get_by_role("button", name="Analytical Engine — runs on → steam").click()
    sees(
        page.locator("#place-text span"),
        "Analytical Engine — runs on → steam — extracted from this passage, but not found in it",
    )
    reads(page, NOTES[:-1])
    page.get_by_role("button", name="2 ungrounded").click()
    page.locator("#problem-list button").last.click()
    sees(
        page.locator("#place-text span"),
        f"{HOSTILE} — {HOSTILE} → {HOSTILE} — no passage of a text is known for this",
    )


def test_texts_from_outside_stay_texts(page: Page) -> None:
    page.locator("#things").get_by_role("button", name=HOSTILE).click()
    chosen(page, HOSTILE)
    assert page.locator("img").count() == 0
    assert page.title() == "A graph of <notes>"


def test_everything_works_by_keyboard(page: Page) -> None:
    from playwright.sync_api import expect

    press = page.keyboard.press
    press("Control+k")
    page.keyboard.type("notes")
    press("ArrowDown")
    press("Enter")
    chosen(page, "Notes")
    page.locator(".facts button").first.focus()  # the lists of facts follow in the order of Tab
    press("Enter")
    reads(
        page,
        "🚀 Ada Lovelace wrote the Notes\nabout the Analytical Engine, 記録.",
        "the ",
        "Notes",
        "\nabout the ",
        "Analytical Engine",
    )
    page.locator("#text").focus()
    for key in "npnn":
        press(key)
    press("Enter")
    chosen(page, "Notes")
    page.locator("#graph").focus()
    before = page.evaluate("() => graphPage.sigma.getCamera().getState()")
    press("ArrowLeft")
    press("+")
    after = page.evaluate("() => graphPage.sigma.getCamera().getState()")
    assert after["x"] < before["x"]
    assert after["ratio"] < before["ratio"]
    press("Escape")
    expect(page.locator("#details h2")).to_have_count(0)


def test_tab_reaches_every_control_and_each_list_once(page: Page) -> None:
    page.locator("#things button").first.click()
    usable = page.locator("button:enabled:visible, select:visible, input:visible, #graph, #text, #details")
    for _ in range(usable.count()):
        page.keyboard.press("Tab")
        page.evaluate("() => document.activeElement.classList.add('reached')")
    missed = page.locator(":is(button:enabled, select, input, #graph, #text, #details):not(.reached):visible")
    in_lists = page.locator("ul.list :is(button, input):not(.reached):visible")
    assert missed.count() == in_lists.count() > 0


def test_arrow_keys_move_in_lists_and_the_focus_stays_where_it_is_of_use(page: Page) -> None:
    from playwright.sync_api import expect

    page.locator("#things").get_by_role("button", name="Ada Lovelace").press("Enter")
    wrote, lived = page.locator(".predicate").all()
    wrote.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(lived).to_be_focused()
    page.keyboard.press("Enter")
    reads(page, "She lived in London.", "London")
    expect(lived).to_be_focused()
    expect(lived).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    chosen(page, "London")
    expect(page.locator("#details")).to_be_focused()
    page.get_by_role("button", name="1 refused").click()
    page.locator("#problem-list button").press("Enter")
    expect(page.locator("#text")).to_be_focused()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(open_page: Opening, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = open_page(Story().view(), color_scheme=scheme)
    assert Axe().run(page).response["violations"] == []
    page.locator("#things button").first.click()
    page.locator(".predicate").first.click()
    assert Axe().run(page).response["violations"] == []
    page.get_by_role("button", name="1 refused").click()
    assert Axe().run(page).response["violations"] == []


def test_light_and_dark_follow_the_preference(page: Page) -> None:
    def looks() -> tuple[str, bytes]:
        paper = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        return paper, page.locator("#graph").screenshot()

    light = looks()
    page.emulate_media(color_scheme="dark")
    dark = looks()
    assert dark[0] != light[0]
    assert dark[1] != light[1]


def test_numbers_shown_are_those_of_the_graph(open_page: Opening) -> None:
    view = made_graph(300, 700, 3)
    page = open_page(view)
    shown = """() => Object.fromEntries([...document.querySelectorAll("#numbers data")].map(
        ({ dataset, value }) => [dataset.of, Number(value)]))"""
    assert page.evaluate(shown) == {"things": 300, "facts": len(view.facts), "relations": 700, "documents": 3}
    sees(
        page.locator("#problems button"),
        "7 refused in all",
        "15 ungrounded in all",
        "0 weak in all",
        "7 truncated in all",
    )
    types = """() => Object.fromEntries([...document.querySelectorAll("#types label")].map(
        (label) => [label.querySelector("span").textContent, Number(label.querySelector("data").value)]))"""
    assert page.evaluate(types) == {
        type: sum(type in thing.types for thing in view.things.values())
        for type in {type for thing in view.things.values() for type in thing.types}
    }


PLACES = "() => graphPage.sigma.getGraph().mapNodes((_, { x, y }) => [x, y])"


def written_places(view: GraphView) -> list[list[float]]:
    """Where the file puts the things."""
    numbers = {iri: number for number, iri in enumerate(view.things)}
    edges = [(numbers[each.subject], numbers[each.object]) for each in view.facts if each.is_relation]
    return [[round(x, 1), round(y, 1)] for x, y in layout(len(numbers), edges)]


@pytest.mark.parametrize("by_choice", [False, True])
def test_the_layout_is_refined_until_a_thing_is_chosen(open_page: Opening, by_choice: bool) -> None:
    view = made_graph(100, 200)
    page = open_page(view, reduced_motion="no-preference")
    moved = f"(before) => JSON.stringify(before) != JSON.stringify(({PLACES})())"
    page.wait_for_function(moved, arg=written_places(view))
    if by_choice:
        page.locator("#things button").first.click()
        assert page.locator("#graph").get_attribute("aria-busy") == "false"
    page.wait_for_selector("#graph[aria-busy=false]")


def test_without_motion_the_layout_stays_as_it_was_written(open_page: Opening) -> None:
    view = made_graph(100, 200)
    page = open_page(view)
    assert page.locator("#graph").get_attribute("aria-busy") == "false"
    assert page.evaluate(PLACES) == written_places(view)


WRITTEN = """(canvas) => new Promise((done) => {
    const { sigma } = graphPage;
    const context = sigma.getCanvases()[canvas].getContext("2d");
    const texts = [];
    const write = context.fillText;
    context.fillText = (text, x, y) => {
        texts.push([text, x, y - 10, x + context.measureText(text).width, y + 2]);
        write.call(context, text, x, y);
    };
    sigma.once("afterRender", () => setTimeout(() => {
        delete context.fillText;
        done(texts);
    }));
    sigma.refresh();
})"""
"""What is written on a canvas in a frame: each text with the left, top, right and bottom of its box."""


def test_labels_lie_on_no_other(open_page: Opening) -> None:
    page = open_page(made_graph(40, 60))
    drawn = page.evaluate(WRITTEN, "labels")
    assert len(drawn) > 20
    for (_, left, top, right, bottom), (_, left_2, top_2, right_2, bottom_2) in combinations(drawn, 2):
        assert right <= left_2 or right_2 <= left or bottom <= top_2 or bottom_2 <= top


def test_labels_without_room_are_left_out_except_those_of_the_most_related(open_page: Opening) -> None:
    view = made_graph(80, 60)
    page = open_page(view, viewport={"width": 390, "height": 844})
    labelled = {text for text, *_ in page.evaluate(WRITTEN, "labels")}
    assert len(labelled) < 40
    relations = Counter(end for fact in view.facts if fact.is_relation for end in {fact.subject, fact.object})
    assert {view.things[iri].name for iri, _ in relations.most_common(6)} <= labelled


def test_a_chosen_thing_covers_nothing_of_its_label(open_page: Opening) -> None:
    page = open_page(made_graph(40, 60))
    for button in page.locator("#things button").all()[:12]:
        button.click()
        ((name, left, top, right, bottom),) = page.evaluate(WRITTEN, "hovers")
        x, y, size = page.evaluate(
            """(name) => {
                const { sigma } = graphPage;
                const node = sigma.getGraph().findNode((_, { thing }) => thing.name === name);
                const shown = sigma.getNodeDisplayData(node);
                const { x, y } = sigma.framedGraphToViewport(shown);
                return [x, y, sigma.scaleSize(shown.size)];
            }""",
            name,
        )
        assert right <= x - size or x + size <= left or bottom <= y - size or y + size <= top, name


def test_a_chosen_thing_has_its_neighbours_in_sight(open_page: Opening) -> None:
    page = open_page(made_graph(2, 1))
    for button in page.locator("#things button").all():
        button.click()
        hidden = page.evaluate(
            """() => {
                const { sigma } = graphPage;
                const { width, height } = sigma.getDimensions();
                return sigma.getGraph().filterNodes((node, { thing }) => {
                    const { x, y } = sigma.framedGraphToViewport(sigma.getNodeDisplayData(node));
                    return thing.near && (x < 0 || x > width || y < 0 || y > height);
                });
            }"""
        )
        assert hidden == []


def test_labels_of_relations_in_one_line_lie_side_by_side(open_page: Opening) -> None:
    """Two things that are related in both directions: both names of the relations can be read."""
    a, b = (Thing(f"urn:{name}", name, (f"urn:{name}",), (name,)) for name in "ab")
    facts = [
        Fact(one.iri, verb, other.iri, True, (), ("p",))
        for one, verb, other in ((a, "taught", b), (b, "learnt from", a))
    ]
    page = open_page(GraphView({"urn:a": a, "urn:b": b}, facts, {}, [], []))
    page.locator("#things button").first.click()
    drawn = page.evaluate(
        """() => new Promise((done) => {
            const { sigma } = graphPage;
            const context = sigma.getCanvases().edgeLabels.getContext("2d");
            const texts = [];
            const write = context.fillText;
            context.fillText = (text, x, y) => {
                const { e, f } = context.getTransform();
                const { width } = context.measureText(text);
                texts.push([text, e / devicePixelRatio, f / devicePixelRatio, width]);
                write.call(context, text, x, y);
            };
            sigma.once("afterRender", () => done(texts));
            sigma.refresh();
        })"""
    )
    (one, x, y, width), (other, x_2, y_2, width_2) = drawn
    assert {one, other} == {"taught", "learnt from"}
    assert math.dist((x, y), (x_2, y_2)) >= (width + width_2) / 2


def test_an_endless_name_is_no_obstacle(open_page: Opening) -> None:
    name = "A" * 100_000
    thing = Thing("urn:1", name, ("urn:1",), (name,))
    page = open_page(GraphView({"urn:1": thing}, [Fact("urn:1", name, name, False, (), ("p",))], {}, [], []))
    sees(page.locator("#things li"), "A" * 1000 + "…")
    page.locator("#things button").click()
    page.locator(".predicate").click()
    assert page.locator("#place-text").inner_text().startswith("A" * 1000 + "… — ")


def test_a_name_from_right_to_left_turns_nothing_beside_it(open_page: Opening) -> None:
    names = ("\u202eevil", "\u05e9\u05dc\u05d5\u05dd")
    things = {f"urn:{n}": Thing(f"urn:{n}", name, (f"urn:{n}",), (name,)) for n, name in enumerate(names)}
    page = open_page(GraphView(things, [Fact("urn:0", "met", "urn:1", True, (), ("p",))], {}, [], []))
    page.locator("#things button").first.click()
    page.locator(".predicate").click()
    order = page.evaluate(
        """() => Array.from(
            document.querySelectorAll("#place-text bdi"), (each) => each.getBoundingClientRect().left
        )"""
    )
    assert len(order) == 3
    assert order == sorted(order)


def test_a_long_name_is_shortened_in_the_drawing_only(open_page: Opening) -> None:
    name = "🦀" * 500
    page = open_page(GraphView({"urn:1": Thing("urn:1", name, ("urn:1",), (name,))}, [], {}, [], []))
    label = page.evaluate("() => graphPage.sigma.getNodeDisplayData('0').label")
    assert label == "🦀" * 40 + "…"
    sees(page.locator("#things li"), name)


def test_a_passage_that_ends_behind_its_text_ends_with_it(open_page: Opening) -> None:
    """A store may hold what somebody else loaded."""
    beyond = SourcePassage("urn:1", 4, 4000)
    thing = Thing("urn:2", "Etna", ("urn:2",), ("Etna",))
    fact = Fact("urn:2", "definition", "A volcano.", False, (beyond,), ("facts",))
    document = SourceDocument("urn:1", ("notes.txt",), "text", "🌋 Etna smokes.")
    page = open_page(GraphView({"urn:2": thing}, [fact], {"urn:1": document}, [], []))
    page.locator("#text mark").click()
    page.locator(".predicate").click()
    reads(page, "🌋 Etna smokes.", "na smokes.")


def test_headings_are_shown_as_such_with_all_their_characters(open_page: Opening) -> None:
    text = (
        "# 🌋 Etna\n\nIt smokes.\n\n```sh\n# no heading\n```\n\n"
        "Eruptions of Etna\n---\n\nEtna erupted in 1669.\n"
    )
    thing = Thing("urn:2", "Etna", ("urn:2",), ("Etna",))
    at = [each.start() for each in re.finditer("Etna", text)]
    passages = tuple(SourcePassage("urn:1", start, start + 4) for start in at)
    facts = [Fact("urn:2", "is", f"{n}", False, (each,), ("facts",)) for n, each in enumerate(passages)]
    document = SourceDocument("urn:1", ("notes.md",), "markdown", text)
    page = open_page(GraphView({"urn:2": thing}, facts, {"urn:1": document}, [], []))
    assert page.locator("#text").evaluate("(area) => area.textContent") == text
    headings = page.locator("#text b").all_text_contents()
    assert "".join(headings) == "# 🌋 EtnaEruptions of Etna\n---"
    page.locator("#text mark").nth(1).click()
    page.locator(".predicate").nth(1).click()
    sees(page.locator("mark.chosen"), "Etna")
    assert page.locator("mark.chosen").evaluate(
        "(mark) => mark.parentElement.previousSibling.textContent"
    ) == ("Eruptions of ")


def test_a_narrow_window_does_not_scroll_beyond_the_page(open_page: Opening) -> None:
    page = open_page(Story().view(), viewport={"width": 600, "height": 500})
    page.locator("#things").get_by_role("button", name="London").click()
    page.locator(".predicate").click()
    reads(page, "She lived in London.", "London")
    assert page.evaluate("() => document.scrollingElement.scrollTop") == 0


def test_without_webgl_lists_and_text_still_work(chromium: Launch, tmp_path: Path) -> None:
    file = tmp_path / "graph.html"
    write_page(Story().view(), file)
    with opened(chromium("--disable-3d-apis"), file) as page:
        assert page.get_by_text("This browser cannot draw the graph").is_visible()
        page.locator("#things button").first.click()
        page.locator(".predicate").first.click()
        assert page.locator("mark.chosen").count()


def test_incomplete_graph_says_so_and_details_say_what_is_not_checked(
    browser: Browser, tmp_path: Path
) -> None:
    write_page(Story().view(), tmp_path / "graph.html", incomplete="Incomplete: 2 of <3> questions.")
    with opened(browser, tmp_path / "graph.html") as page:
        sees(page.locator("#incomplete"), "Incomplete: 2 of <3> questions.")
        page.locator("#things button").first.click()
        sees(page.locator("#details"), re.compile("a predicate or a definition may be wrong"))


def test_facts_that_were_not_looked_up_are_counted_and_marked(open_page: Opening) -> None:
    view = Story().view()
    lived = next(fact for fact in view.facts if fact.predicate == "lived in")
    facts = [fact._replace(is_looked_up=fact is not lived) for fact in view.facts]
    page = open_page(replace(view, facts=facts))
    page.get_by_role("button", name="1 not looked up").click()
    sees(page.locator("#problem-list li"), re.compile("Ada Lovelace — lived in → London"))
    page.locator("#problem-list button").click()
    sees(page.locator("#place"), re.compile("a name was not looked up"))
    page.locator("#things").get_by_role("button", name="London").click()
    sees(page.locator("#details .facts li"), re.compile(r"lived in.*\(not looked up\)"))
    assert not page.locator("#incomplete").is_visible()


def test_page_says_at_the_top_that_nothing_was_looked_up(open_page: Opening) -> None:
    view = Story().view()
    facts = [fact._replace(is_looked_up=False, passages=()) for fact in view.facts]
    page = open_page(replace(view, facts=facts))
    sees(page.locator("#incomplete"), "No name of any fact was looked up in the texts.")


def test_an_empty_graph_opens(open_page: Opening) -> None:
    page = open_page(GraphView({}, [], {}, [], []))
    assert not page.locator("#incomplete").is_visible()
    sees(page.locator("#found"), "0 of 0 things")


def test_the_command_writes_the_page_of_a_store(browser: Browser, tmp_path: Path) -> None:
    paper = Paper(
        "volcanoes.txt",
        "🌋 Etna is in Sicily.",
        {
            0: [
                Answer(
                    "relationships",
                    {relation("Etna", "is in", "Sicily"): ("Etna", "Sicily")},
                    ["Etna", "Sicily"],
                )
            ]
        },
    )
    with GraphStore.open(tmp_path / "volcanoes") as store:
        store.add(paper.statements())
    file = tmp_path / "out.html"
    command = ("graph", "page", "--store", tmp_path / "volcanoes", "-o", file)
    assert run(*command).returncode == 0
    with opened(browser, file) as page:
        sees(page.locator("h1"), "volcanoes.txt")
        page.locator("#things").get_by_role("button", name="Etna").click()
        page.locator(".predicate").click()
        reads(page, "🌋 Etna is in Sicily.", "Etna", "Sicily")
    again = run(*command)
    assert again.returncode == 2
    assert "exists; give --overwrite" in again.stderr
    assert run(*command, "--overwrite", "--title", "{{data}} & more").returncode == 0
    with opened(browser, file) as page:
        sees(page.locator("h1"), "{{data}} & more")


def test_a_large_graph_and_a_text_of_a_megabyte_can_be_used(open_page: Opening) -> None:
    view = made_graph(20_000, 50_000, 3)
    assert all(len(document.text) > 900_000 for document in view.documents.values())
    page = open_page(view, reduced_motion="no-preference")
    page.get_by_label("Search", exact=True).fill("chalk 19990")
    page.get_by_label("Search", exact=True).press("Enter")
    page.locator(".predicate:not(.without)").first.click()
    words = page.locator("mark.chosen").first
    assert words.is_visible()
    assert words.evaluate("(mark) => mark.getBoundingClientRect().bottom < innerHeight")


def test_the_page_in_the_package_is_that_of_its_sources() -> None:
    folder = ROOT / "page"
    names = ["build.js", "package-lock.json", "package.json"]
    files = [*(folder / name for name in names), *sorted((folder / "src").iterdir())]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    assert digest in TEMPLATE.read_text(), "run `make page`"


def test_the_page_may_load_nothing_and_run_only_its_own_script() -> None:
    page = TEMPLATE.read_text()
    found = re.search(r'"Content-Security-Policy" content="([^"]*)"', page)
    assert found
    policy = dict(each.split(" ", 1) for each in found[1].split("; "))
    script = re.search(r"<script>(.*)</script>", page, re.DOTALL)
    assert script
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    assert policy.pop("script-src") == f"'sha256-{digest}'"
    assert re.fullmatch(r"'sha256-[^']*'", policy.pop("style-src"))
    none = dict.fromkeys(("default-src", "base-uri", "form-action"), "'none'")
    assert policy == {**none, "worker-src": "blob:"}


def test_the_licences_of_all_libraries_come_with_the_page() -> None:
    licences = TEMPLATE.with_name("LICENSES.txt").read_text()
    for library in ("sigma", "graphology", "graphology-layout-forceatlas2"):
        assert re.search(rf"^{library} \d", licences, re.MULTILINE)
    assert licences in TEMPLATE.read_text()
