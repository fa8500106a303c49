"""What an extraction writes is what a store shows, and forgets."""

from __future__ import annotations

import sys
from importlib import reload

import pytest

import trustgraph_prompt.graph_store
from tests.unit.extraction.test_graph_outputs import DOCUMENT, LIES, found, made
from trustgraph_prompt.documents import Document
from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.graph.provenance import about_document, document_iri
from trustgraph_prompt.graph_store.forget import forget
from trustgraph_prompt.graph_store.read_view import read_view
from trustgraph_prompt.graph_store.store import GraphStore

UNGROUNDED = found({"s": "Etna", "p": "lies in", "o": "Europe"}, s=[0, 4], o=None)


def test_facts_of_an_extraction_have_their_passages_and_their_prompt() -> None:
    with GraphStore.in_memory() as store:
        store.add([*about_document(DOCUMENT), *made(LIES, UNGROUNDED, truncated=True)])
        view = read_view(store)
    lies, ungrounded = sorted(view.facts, key=lambda fact: fact.is_ungrounded)
    assert [DOCUMENT.text[each.start : each.end] for each in lies.passages] == ["Etna", "Sicily"]
    assert [(each.page, each.heading) for each in lies.passages] == [(2, "Italy")] * 2
    assert lies.prompts == ("facts",)
    assert [DOCUMENT.text[each.start : each.end] for each in lies.chunks] == ["Etna lies in Sicily."]
    assert view.things[ungrounded.object].name == "Europe"
    assert ungrounded.is_ungrounded
    assert [each.prompt for each in view.cuts] == ["facts"]
    (document,) = view.documents.values()
    assert (document.files, document.format, document.text) == (("vulcani.pdf",), "pdf", DOCUMENT.text)


def test_extraction_is_forgotten_without_a_trace() -> None:
    with GraphStore.in_memory() as store:
        store.add([*about_document(DOCUMENT), *made(LIES, UNGROUNDED, truncated=True)])
        forget(store, document_iri(DOCUMENT))
        assert not set(store.dataset)


def test_text_with_two_file_names_is_one_document_with_both() -> None:
    copy = Document("copy.pdf", DOCUMENT.text, "pdf", DOCUMENT.places)
    with GraphStore.in_memory() as store:
        store.add([*about_document(DOCUMENT), *about_document(copy)])
        (document,) = store.documents().values()
    assert document.files == ("copy.pdf", "vulcani.pdf")


def test_missing_extra_is_named_with_the_command_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyoxigraph", None)
    with pytest.raises(ConfigError, match=r"pip install 'trustgraph-prompt\[graph\]'"):
        reload(trustgraph_prompt.graph_store)
