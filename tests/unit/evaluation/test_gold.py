"""Gold files are checked line by line, and for the prompt that they are for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.evaluation import gold
from trustgraph_prompt.evaluation.gold import questions
from trustgraph_prompt.prompts import PromptDefinition, gold_file

ENTRY = {
    "dialect": "jinja",
    "prompt": "Which of {{ text }}?",
    "response-type": "jsonl",
    "aliases": ["hills"],
    "match": {"name": "normalised"},
    "schema": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "x-from": "text"},
            "height": {"type": "integer", "minimum": 0},
        },
        "required": ["name", "height"],
        "additionalProperties": False,
    },
}
PROMPT = PromptDefinition.from_entry("mountains", ENTRY)
TERMS = {"text": "Etna is high."}


def written(folder: Path, *lines: Any) -> Path:
    path = folder / "gold.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return path


def errors(folder: Path, *lines: Any) -> list[ConfigError]:
    with pytest.raises(ConfigError) as raised:
        gold.check_for(PROMPT, gold_file.read(written(folder, *lines)), {})
    return [raised.value, *raised.value.others]


def test_line_is_read_and_empty_lines_are_skipped(tmp_path: Path) -> None:
    line = {"terms": TERMS, "objects": [{"name": "Etna"}]}
    path = written(tmp_path, line, "", {**line, "name": "the second", "prompt": "hills", "note": "checked"})
    first, second = gold_file.read(path)
    assert (first.where, first.name, first.prompt) == (f"{path}:1", "line 1", None)
    assert (second.where, second.name, second.prompt) == (f"{path}:3", "the second", "hills")
    assert first.objects == ({"name": "Etna"},)
    gold.check_for(PROMPT, [first, second], {})  # what is not compared may be left out


@pytest.mark.parametrize(
    ("line", "path", "says"),
    [
        ("{", "", "not JSON"),
        ([], "", "it is of the wrong type"),
        ({"terms": TERMS}, "", "the key `objects` is missing"),
        ({"terms": TERMS, "objects": [], "object": []}, "/object", "did you mean 'objects'?"),
        ({"terms": "Etna", "objects": []}, "/terms", "it is of the wrong type"),
        ({"terms": TERMS, "objects": {}}, "/objects", "it is of the wrong type"),
        ({"terms": {"txt": "Etna"}, "objects": []}, "/terms", "mountains needs the term text"),
        ({"terms": TERMS, "objects": [{"nmae": "Etna"}]}, "/objects/0", "did you mean 'nmae'?"),
        ({"terms": TERMS, "objects": [{"name": "Hekla"}]}, "/objects/0/name", "is not in the passage"),
        ({"terms": TERMS, "objects": [{"name": 3}]}, "/objects/0/name", "expected string, found integer 3"),
        (
            {"terms": TERMS, "objects": [{"name": "Etna"}, {"name": "Etna", "height": -1}]},
            "/objects/1/height",
            "can never give this object",
        ),
        ({"terms": TERMS, "objects": ["Etna"]}, "/objects/0", "expected object"),
        ({"terms": TERMS, "objects": [{}] * 2001}, "/objects", "at most 2,000"),
    ],
)
def test_error_has_file_line_and_key(tmp_path: Path, line: Any, path: str, says: str) -> None:
    error, *others = errors(tmp_path, {"terms": TERMS, "objects": []}, line)
    assert others == []
    assert (error.where, error.path) == (f"{tmp_path / 'gold.jsonl'}:2", path)
    assert says in str(error)


def test_all_errors_of_a_file_are_listed(tmp_path: Path) -> None:
    assert [error.where for error in errors(tmp_path, "{", {"terms": {}}, "nope")] == [
        f"{tmp_path / 'gold.jsonl'}:{line}" for line in (1, 2, 3)
    ]


def test_file_without_texts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there are no texts"):
        gold_file.read(written(tmp_path, ""))
    with pytest.raises(ConfigError, match="No such file"):
        gold_file.read(tmp_path / "missing.jsonl")


def test_term_that_every_question_gets_may_be_missing_in_a_line(tmp_path: Path) -> None:
    texts = gold_file.read(written(tmp_path, {"terms": {}, "objects": [{"name": "Etna"}]}))
    gold.check_for(PROMPT, texts, TERMS)


def test_id_of_a_question_does_not_depend_on_the_expected_objects(tmp_path: Path) -> None:
    def ids(model: str = "m", prompt: PromptDefinition = PROMPT, **changed: Any) -> list[str]:
        line = {"terms": TERMS, "objects": [], **changed}
        texts = gold_file.read(
            written(tmp_path, line, {**line, "prompt": "hills"}, {**line, "prompt": "others"})
        )
        return [question.id for question in questions([prompt], texts, model=model, terms={})]

    first, alias = ids()
    assert first == alias
    assert ids(objects=[{"name": "Etna"}]) == ids(name="a text") == [first, first]
    rematched = PromptDefinition.from_entry("mountains", {**ENTRY, "match": {"height": "exact"}})
    assert ids(prompt=rematched) == [first, first]
    reworded = PromptDefinition.from_entry("mountains", {**ENTRY, "prompt": "Name all of {{ text }}."})
    assert first not in [*ids("n"), *ids(terms={"text": "Etna."}), *ids(prompt=reworded)]


ENOUGH = [{"terms": TERMS, "objects": []}] * gold.FEWEST


def remarks(folder: Path, *lines: Any, **changes: Any) -> list[str]:
    entry = {key: value for key, value in (ENTRY | changes).items() if value is not None}
    prompt = PromptDefinition.from_entry("mountains", entry)
    return gold.remarks(prompt, gold_file.read(written(folder, *lines)))


def test_compared_keys_are_named_without_a_match_clause(tmp_path: Path) -> None:
    assert remarks(tmp_path, *ENOUGH) == []
    assert remarks(tmp_path, *ENOUGH, match=None) == [
        "mountains has no `match`, so its required strings are compared: `name`; not compared: `height`"
    ]
    assert remarks(tmp_path, *ENOUGH, match=None, schema={"type": "object"}) == [
        "mountains has no `match`, so whole objects are compared"
    ]


def test_objects_without_a_compared_key_are_counted(tmp_path: Path) -> None:
    line = {"terms": TERMS, "objects": [{"name": "Etna", "height": 3403}, {"name": "Etna"}]}
    optional = {"type": "object", "properties": {"name": {"type": "string"}, "height": {"type": "integer"}}}
    match = {"name": "normalised", "height": "exact"}
    assert remarks(tmp_path, *ENOUGH, line, line, schema=optional, match=match) == [
        f"`height` is compared, but 2 of 4 objects lack it (the first in {tmp_path / 'gold.jsonl'}:7): "
        "an object that comes with `height` matches none of these"
    ]


def test_key_of_another_kind_of_object_is_not_missing(tmp_path: Path) -> None:
    kinds = [
        {"type": "object", "properties": {key: {"type": "string"}}, "required": [key]}
        for key in ("name", "title")
    ]
    line = {"terms": TERMS, "objects": [{"name": "Etna"}, {"title": "On Etna"}]}
    match = {"name": "normalised", "title": "normalised"}
    assert remarks(tmp_path, *ENOUGH, line, schema={"anyOf": kinds}, match=match) == []


def test_key_that_the_schema_does_not_declare_is_reported_once(tmp_path: Path) -> None:
    peak = {"type": "object", "properties": {"height": {"type": "integer"}}}
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "peak": peak},
        "required": ["name"],
    }
    line = {"terms": TERMS, "objects": [{"name": "Etna", "peak": {"heigth": 3403}, "named": None}]}
    where = f"{tmp_path / 'gold.jsonl'}:7 /objects/0"
    undeclared = "the schema of mountains does not declare it, so it is never asked for"
    assert remarks(tmp_path, *ENOUGH, line, line, schema=schema) == [
        f'{where}: unexpected "named": {undeclared}',
        f'{where}/peak: unexpected "heigth": {undeclared}',
    ]
    assert remarks(tmp_path, *ENOUGH, line, schema=None, match=None) == [
        "mountains has no `match`, so whole objects are compared"
    ]


def test_too_few_texts_for_a_comparison_are_reported(tmp_path: Path) -> None:
    assert remarks(tmp_path, *ENOUGH[1:]) == [
        "mountains has fewer than 6 texts (5): no difference between two versions can be told from noise"
    ]
