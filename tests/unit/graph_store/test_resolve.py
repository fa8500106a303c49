"""What `graph resolve` writes to a store, and takes out of it again."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.stored_graph import Answer, Paper, definition, entity, relation
from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.graph_store.read_view import read_view
from trustgraph_prompt.graph_store.resolve import apply_decisions, resolve, undo, write_pairs
from trustgraph_prompt.graph_store.store import GRAPH_DIFFERENT, GRAPH_SAME, GraphStore

PAPER = Paper(
    "ada.txt",
    "Ada Lovelace wrote notes.\nLovelace, Ada knew Holmes.\nSherlock Holmes smokes.\n",
    {
        0: [
            Answer(
                "definitions",
                {definition("Ada Lovelace", "=A mathematician."): ("Ada Lovelace",)},
                ["Ada Lovelace"],
            )
        ],
        1: [
            Answer(
                "relationships",
                {relation("Lovelace, Ada", "knew", "Holmes"): ("Lovelace, Ada", "Holmes")},
                ["Lovelace, Ada", "Holmes"],
            )
        ],
        2: [
            Answer(
                "definitions",
                {definition("Sherlock Holmes", "Smokes."): ("Sherlock Holmes",)},
                ["Sherlock Holmes"],
            )
        ],
    },
)
LATER = Paper(
    "later.txt",
    "Dr. Ada Lovelace.\n",
    {0: [Answer("definitions", {definition("Dr. Ada Lovelace", "A doctor."): ()}, ["Dr. Ada Lovelace"])]},
)


ADA, HOLMES = entity("Ada Lovelace"), entity("Holmes")


@pytest.fixture
def store() -> Iterator[GraphStore]:
    with GraphStore.in_memory() as opened:
        opened.add(PAPER.statements())
        yield opened


def names(store: GraphStore) -> list[tuple[str, ...]]:
    return sorted(tuple(sorted(thing.names)) for thing in read_view(store).things.values())


def statements(store: GraphStore) -> set[str]:
    return set(map(str, store.dataset))


APART = [("Ada Lovelace",), ("Holmes",), ("Lovelace, Ada",), ("Sherlock Holmes",)]
MERGED = [("Ada Lovelace", "Lovelace, Ada"), ("Holmes",), ("Sherlock Holmes",)]


def decide(store: GraphStore, folder: Path, *rows: tuple[str, str, str]) -> tuple[int, int]:
    file = folder / "decided.csv"
    lines = [("decision", "iri 1", "iri 2"), *((d, entity(a), entity(b)) for d, a, b in rows)]
    with file.open("w", newline="") as opened:
        csv.writer(opened).writerows(lines)
    return apply_decisions(store, file)


def test_names_that_are_one_by_rule_are_merged_with_reason_and_score(store: GraphStore) -> None:
    resolve(store)
    assert names(store) == MERGED
    found = store.query(
        "SELECT ?reason ?score WHERE { GRAPH <urn:graph:same> { ?a owl:sameAs ?b . "
        "?r rdf:reifies <<( ?a owl:sameAs ?b )>> ; tp:reason ?reason ; tp:score ?score } }"
    )
    assert [(each["reason"].value, float(each["score"].value)) for each in found] == [  # type: ignore[union-attr]
        ("the same but for case, spaces, punctuation or order at a comma", 1.0)
    ]


def test_dry_run_writes_nothing_and_undo_restores_the_store(store: GraphStore) -> None:
    before = statements(store)
    assert len(resolve(store, dry_run=True).found.same) == 1
    assert statements(store) == before
    resolve(store)
    assert undo(store) == 1
    assert statements(store) == before
    assert undo(store) == 0


def test_resolving_again_after_new_documents_only_adds(store: GraphStore) -> None:
    resolve(store)
    before = statements(store)
    assert resolve(store).found.same == []
    assert statements(store) == before
    store.add(LATER.statements())
    before = statements(store)
    resolve(store)
    assert statements(store) > before
    assert ("Ada Lovelace", "Dr. Ada Lovelace", "Lovelace, Ada") in names(store)


def test_open_pairs_are_decided_in_the_file_that_lists_them(store: GraphStore, tmp_path: Path) -> None:
    file = tmp_path / "pairs.csv"
    write_pairs(file, resolve(store))
    with file.open(encoding="utf-8-sig", newline="") as opened:
        open_pair, merged = csv.DictReader(opened)
    assert open_pair["decision"] == ""
    assert open_pair["reason"] == "one may be short for the other"
    assert (open_pair["name 1"], open_pair["name 2"]) == ("Holmes", "Sherlock Holmes")
    assert open_pair["definition 2"] == "Smokes."
    assert open_pair["passage 1"].startswith("ada.txt: …")
    assert "knew Holmes" in open_pair["passage 1"]
    assert (merged["decision"], merged["definition 1"]) == ("same", "'=A mathematician.")  # no formula

    file.write_text(file.read_text("utf-8-sig").replace("\n,one may", "\nsame,one may"))
    assert apply_decisions(store, file) == (1, 0)
    assert apply_decisions(store, file) == (0, 0)
    assert names(store) == [("Ada Lovelace", "Lovelace, Ada"), ("Holmes", "Sherlock Holmes")]


def test_passage_of_an_open_pair_has_the_name_though_the_quote_has_a_pronoun(tmp_path: Path) -> None:
    text = f"Holmes lived in Baker Street. {'It rained. ' * 20}He smoked. Then Sherlock Holmes left.\n"
    facts = {
        definition("Holmes", "Smoked."): ("He smoked",),
        definition("Sherlock Holmes", "Left."): ("left",),
    }
    paper = Paper("holmes.txt", text, {0: [Answer("definitions", facts, ["Holmes", "Sherlock Holmes"])]})
    file = tmp_path / "pairs.csv"
    with GraphStore.in_memory() as store:
        store.add(paper.statements())
        write_pairs(file, resolve(store))
    with file.open(encoding="utf-8-sig", newline="") as opened:
        [pair] = csv.DictReader(opened)
    assert "Holmes lived in Baker Street" in pair["passage 1"]
    assert "Then Sherlock Holmes left" in pair["passage 2"]


def test_merged_pair_can_be_separated_for_good_and_joined_again(store: GraphStore, tmp_path: Path) -> None:
    resolve(store)
    pair = ("Lovelace, Ada", "Ada Lovelace")
    assert decide(store, tmp_path, ("different", *pair)) == (0, 1)
    assert names(store) == APART
    assert not any(GRAPH_SAME in each for each in statements(store))
    found = resolve(store).found
    assert (len(found.same), [each.verdict.reason.name for each in found.open]) == (0, ["SHORT"])
    assert decide(store, tmp_path, ("same", *pair)) == (1, 0)
    assert names(store) == MERGED
    assert not any(GRAPH_DIFFERENT in each for each in statements(store))


def test_pair_joined_only_through_a_third_is_separated_too(store: GraphStore, tmp_path: Path) -> None:
    store.add(LATER.statements())
    resolve(store)
    assert ("Ada Lovelace", "Dr. Ada Lovelace", "Lovelace, Ada") in names(store)
    decide(store, tmp_path, ("different", "Dr. Ada Lovelace", "Lovelace, Ada"))
    assert [each for each in names(store) if {"Dr. Ada Lovelace", "Lovelace, Ada"} & {*each}] == [
        ("Dr. Ada Lovelace",),
        ("Lovelace, Ada",),
    ]
    assert resolve(store).found.same == []


def test_pair_kept_apart_is_not_joined_by_later_decisions(store: GraphStore, tmp_path: Path) -> None:
    ada, holmes, sherlock = "Ada Lovelace", "Holmes", "Sherlock Holmes"
    assert decide(store, tmp_path, ("different", ada, holmes), ("same", ada, sherlock)) == (1, 1)
    before = statements(store)
    with pytest.raises(ConfigError, match="joins, through others, what is kept apart"):
        decide(store, tmp_path, ("same", ada, sherlock), ("same", sherlock, holmes))
    assert statements(store) == before
    assert decide(store, tmp_path, ("same", sherlock, holmes)) == (1, 0)  # the last decision counts
    assert names(store) == [(ada,), ("Holmes", "Sherlock Holmes"), ("Lovelace, Ada",)]


def test_file_of_a_spreadsheet_with_semicolons_and_another_encoding_is_read(
    store: GraphStore, tmp_path: Path
) -> None:
    file = tmp_path / "decided.csv"
    rows = f'decision;"name 1";iri 1;iri 2\r\nsame;Müller;{ADA};{HOLMES}\r\n;forgotten;urn:x;urn:y\r\n'
    file.write_bytes(rows.encode("cp1252"))
    assert apply_decisions(store, file) == (1, 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("decision,iri 1\nsame,x\n", "columns are missing"),
        ("decision,iri 1,iri 2\nperhaps,x,y\n", "row 2: no such decision"),
        (f"decision,iri 1,iri 2\nsame,{HOLMES},urn:x\n", "row 2: these are not two things"),
        (f"decision,iri 1,iri 2\nsame,{HOLMES},{HOLMES}\n", "row 2: these are not two things"),
        (f"decision,iri 1,iri 2\nsame,{HOLMES}\n", "row 2: these are not two things"),
        (f"decision,iri 1,iri 2\nsame,{ADA},{HOLMES}\ndifferent,{HOLMES},{ADA}\n", "row 3: an earlier row"),
        (f"decision,iri 1,iri 2\nsame,{'x' * 200_000},y\n", "cannot be read: field larger"),
        (b"\xff\xfe\x00", "columns are missing"),
        (None, "cannot be read"),
    ],
)
def test_file_with_an_error_changes_nothing(
    store: GraphStore, tmp_path: Path, text: str | bytes | None, message: str
) -> None:
    file = tmp_path / "decided.csv"
    if text is not None:
        file.write_bytes(text.encode() if isinstance(text, str) else text)
    before = statements(store)
    with pytest.raises(ConfigError, match=message):
        apply_decisions(store, file)
    assert statements(store) == before
