"""Quotes that the objects of a gold file lack: the shortest sentence that names their values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.pools import gold_line
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.errors import PromptError
from trustgraph_prompt.prompts import PromptSet, files
from trustgraph_prompt.prompts.pool_files import with_quotes

TEXT = (
    "Alien is a film of 1979 that was made in England by Ridley Scott, who was young.\n"
    "Ridley Scott made Alien. Blade Runner is another film. He is old now."
)


def contract(**keys: Any) -> Contract:
    properties = {"quote": {"type": "string", "x-quote": "text"}, **keys}
    return Contract.from_schema({"type": "object", "properties": properties}, format="jsonl")


NAMES = contract(film={"type": "string"}, by={"type": "string"})


def test_quote_is_the_shortest_sentence_that_names_all_values_and_comes_first() -> None:
    [value] = with_quotes([{"film": "Alien", "by": "Ridley Scott"}], TEXT, NAMES) or []
    assert next(iter(value.items())) == ("quote", "Ridley Scott made Alien.")


def test_only_values_that_come_from_the_text_must_be_named() -> None:
    looked_up = contract(film={"type": "string", "x-from": "text"}, about={"type": "string"})
    [value] = with_quotes([{"film": "Blade Runner", "about": "robots"}], TEXT, looked_up) or []
    assert value["quote"] == "Blade Runner is another film."


@pytest.mark.parametrize(
    "value", [{"film": "Blade Runner", "by": "Ridley Scott"}, {"film": "Aliens Two"}, {}]
)
def test_text_is_left_out_without_a_sentence_for_each_object(value: dict[str, str]) -> None:
    assert with_quotes([{"film": "Alien"}, value], TEXT, NAMES) is None


@pytest.mark.parametrize("objects", [[], [{"quote": "He is old now.", "film": "Alien"}], ["Alien"]])
def test_objects_with_quotes_and_no_objects_stay_as_they_are(objects: list[Any]) -> None:
    assert with_quotes(objects, TEXT, NAMES) == objects


def test_prompt_without_quotes_gets_none() -> None:
    plain = Contract.from_schema({"type": "object"}, format="jsonl")
    assert with_quotes([{"film": "Solaris"}], TEXT, plain) == [{"film": "Solaris"}]


def test_pool_of_a_prompt_that_quotes_has_quotes_and_leaves_out_other_texts(tmp_path: Path) -> None:
    lines = [gold_line(TEXT, [{"film": "Alien"}]), gold_line("It was his third.", [{"film": "Legend"}])]
    (tmp_path / "films.gold.jsonl").write_text("\n".join(lines))
    (tmp_path / "films.prompt").write_text(
        "schema Film:\n    quote: string @quote(text)\n    film: string @from(text)\n\n"
        "prompt films expecting Film[] as jsonl:\n"
        '    examples: {from: "films.gold.jsonl"}\n    text: "{{ text }}"\n'
    )
    read = files.read(tmp_path)
    entries = dict(read.entries)
    [text] = json.loads(next(iter(entries.values())))["texts"]
    assert text["objects"] == [{"quote": "Ridley Scott made Alien.", "film": "Alien"}]
    shown = PromptSet.build(entries).question("films", {"text": "Another film by Ridley"})[1].examples
    assert list(shown[0].answer[0]) == ["quote", "film"]

    (tmp_path / "films.gold.jsonl").write_text(lines[1])
    with pytest.raises(PromptError, match=r"films\.gold\.jsonl: no sentence names all values of an object"):
        files.load(tmp_path)
