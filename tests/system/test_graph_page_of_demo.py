"""The page that the demo's run writes, beside its store: what it shows is what SPARQL finds there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.support.browser import browsers, opened
from tests.support.command import DOCUMENT, SCRIPTED, run
from trustgraph_prompt.graph_store.store import GraphStore

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

FACTS: Final = "?s ?p ?o FILTER(?p != rdfs:label)"
NUMBERS: Final = {
    "things": "SELECT (COUNT(DISTINCT ?thing) AS ?n)"
    " { { ?thing ?p ?o } UNION { ?s ?p ?thing } FILTER(?p != rdfs:label && isIRI(?thing)) }",
    "facts": f"SELECT (COUNT(*) AS ?n) {{ {FACTS} }}",
    "relations": f"SELECT (COUNT(*) AS ?n) {{ {FACTS} FILTER(isIRI(?o)) }}",
    "documents": "SELECT (COUNT(*) AS ?n) { GRAPH <urn:graph:source> { ?d a schema:DigitalDocument } }",
    "refused": "SELECT (COUNT(*) AS ?n) { GRAPH <urn:graph:source> { ?answer tp:refused ?object } }",
    "ungrounded": "SELECT (COUNT(*) AS ?n) { GRAPH <urn:graph:source> { ?fact tp:ungrounded true } }",
    "weak": "SELECT (COUNT(*) AS ?n) { GRAPH <urn:graph:source> {"
    " ?fact tp:weak true ; rdf:reifies <<( ?s ?p ?o )>> FILTER(?p != rdfs:label) } }",
    "truncated": "SELECT (COUNT(*) AS ?n) { GRAPH <urn:graph:source> { ?answer tp:truncated true } }",
}
RELATIONS: Final = """
    SELECT ?from ?name ?to (GROUP_CONCAT(DISTINCT ?quote; separator="\\n") AS ?quotes) {
        ?s ?p ?o . ?s rdfs:label ?from . ?p rdfs:label ?name . ?o rdfs:label ?to
        GRAPH <urn:graph:source> {
            ?fact rdf:reifies <<( ?s ?p ?o )>> ; oa:hasTarget [ oa:hasSelector [ oa:exact ?quote ] ]
        }
    } GROUP BY ?from ?name ?to"""
EDGE: Final = """([from, to]) => {
    const { sigma } = graphPage;
    const graph = sigma.getGraph();
    const ends = [from, to].map((name) => graph.findNode((_, { thing }) => thing.name === name));
    const [a, b] = ends.map((node) => sigma.graphToViewport(graph.getNodeAttributes(node)));
    const { left, top } = document.getElementById("graph").getBoundingClientRect();
    return { edge: graph.edge(...ends), x: left + (a.x + b.x) / 2, y: top + (a.y + b.y) / 2 };
}"""
HIGHLIGHTED: Final = "() => [...CSS.highlights.get('sentence')].map((range) => range.toString()).join()"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Page, GraphStore]]:
    """The page of the demo's run, and the store that the same run filled."""
    folder = tmp_path_factory.mktemp("demo")
    outputs = ("-o", folder / "objects.jsonl", "--graph", folder / "g.html", "--store", folder / "store")
    assert run("extract", DOCUMENT, "--provider", SCRIPTED, *outputs).returncode == 0
    with (
        browsers() as launch,
        opened(launch(), folder / "g.html") as page,
        GraphStore.open(folder / "store", read_only=True) as store,
    ):
        yield page, store


def asked(store: GraphStore, sparql: str) -> list[list[str]]:
    solutions: Any = store.query(sparql)
    return [[term.value for term in row] for row in solutions]


def test_every_number_is_that_of_a_query(demo: tuple[Page, GraphStore]) -> None:
    page, store = demo
    expected = {name: int(asked(store, sparql)[0][0]) for name, sparql in NUMBERS.items()}
    shown = {
        each.get_attribute("data-of"): int(each.get_attribute("value") or "")
        for each in page.locator("#numbers data").all()
    }
    for each in page.locator("#problems button").all():
        number, name = each.inner_text().split()
        shown[name] = int(number)
    assert shown == expected
    assert page.locator("#found").inner_text() == f"{expected['things']} of {expected['things']} things"
    drawn = "() => [graphPage.sigma.getGraph().order, graphPage.sigma.getGraph().size]"
    pairs = asked(store, f"SELECT DISTINCT ?s ?o {{ {FACTS} FILTER(isIRI(?o)) }}")
    assert page.evaluate(drawn) == [expected["things"], len(pairs)]
    assert page.locator("h1").inner_text() == DOCUMENT.name


def leads_to_its_sentence(page: Page, subject: str, predicate: str, object: str, quotes: str) -> None:
    assert f"{subject} — {predicate} → {object}" in page.locator("#place-text span").inner_text()
    assert page.evaluate(HIGHLIGHTED) in DOCUMENT.read_text()
    words = page.locator("mark.chosen").all_inner_texts()
    assert words
    assert all(any(word in quote for quote in quotes.split("\n")) for word in words)


def test_each_edge_leads_to_its_sentence_in_the_text(demo: tuple[Page, GraphStore]) -> None:
    page, store = demo
    relations = asked(store, RELATIONS)
    assert len(relations) > 30
    for subject, predicate, object, quotes in relations:
        edge = page.evaluate(EDGE, [subject, object])["edge"]
        page.evaluate("(edge) => graphPage.sigma.emit('clickEdge', { edge })", edge)
        leads_to_its_sentence(page, subject, predicate, object, quotes)


def test_a_click_on_an_edge_leads_to_its_sentence_in_the_text(demo: tuple[Page, GraphStore]) -> None:
    page, store = demo
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Show all").click()
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    relations = {each[0]: each for each in asked(store, RELATIONS)}
    subject, predicate, object, quotes = relations["rime"]
    at = page.evaluate(EDGE, [subject, object])
    page.mouse.click(at["x"], at["y"])
    leads_to_its_sentence(page, subject, predicate, object, quotes)
