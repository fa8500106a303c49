"""The clause `graph` in prompts: where it may be, its errors, and those of the bundled prompts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trustgraph_prompt import package_data
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.graph.graph_clause import example_for
from trustgraph_prompt.graph.mapping import graph_of
from trustgraph_prompt.graph.names import naming
from trustgraph_prompt.prompts import files
from trustgraph_prompt.prompts.definition import PromptDefinition

FORM = {"entity": {"subject": "name", "class": "Volcano"}}
STATEMENT = {"subject": "name", "predicate": "name", "object": "name"}
ENTRY = {
    "dialect": "jinja",
    "prompt": "Which volcanoes?",
    "response-type": "jsonl",
    "schema": {"type": "object", "properties": {"name": {"type": "string"}}},
}


def test_graph_clause_is_part_of_the_version_of_its_prompt() -> None:
    plain = PromptDefinition.from_entry("volcanoes", ENTRY)
    made = PromptDefinition.from_entry("volcanoes", {**ENTRY, "graph": [FORM]})
    other = PromptDefinition.from_entry("volcanoes", {**ENTRY, "graph": [FORM, FORM]})

    assert plain.graph is None
    assert made.graph is not None
    assert len({plain.version, made.version, other.version}) == 3


def test_example_of_a_clause_names_things_by_a_free_text_not_a_fixed_word() -> None:
    properties = {"type": {"const": "peak"}, "rank": {"enum": ["high", "low"]}, "name": {"type": "string"}}
    schema = {"type": "object", "required": ["type", "rank", "name"], "properties": properties}

    assert 'subject: "name"' in example_for(Contract.from_schema(schema, format="jsonl"))


@pytest.mark.parametrize(
    ("graph", "path", "says"),
    [
        ([], "/graph", "it is empty"),
        ({}, "/graph", "wrong type"),
        ([{}], "/graph/0", "none of the allowed forms"),
        ([{"statement": {"subject": "name"}}], "/graph/0/statement", "is missing"),
        (
            [{"entity": {"subject": "name"}}],
            "/graph/0/entity",
            "at least one of `definition`, `type`, `class`",
        ),
        ([{"entity": {"subject": "nme"}}], "/graph/0/entity/subject", "did you mean 'name'"),
        ([{"entity": {}}], "/graph/0/entity", "`subject` is missing"),
        ([{**FORM, "statement": STATEMENT}], "/graph/0/entity", "only one of `statement` and `entity`"),
        ([{**FORM, "when": {"name": ["x"]}}], "/graph/0/when/name", "one value"),
        ([{"entity": {"subject": "name", "class": "http://a b"}}], "/graph/0/entity/class", "a valid IRI"),
        ([{"entity": {"subject": "name", "class": "urn:"}}], "/graph/0/entity/class", "a valid IRI"),
        ([{"entity": {"subject": "name", "class": "urn:a%2b%2"}}], "/graph/0/entity/class", "a valid IRI"),
        (
            [{"entity": {"subject": "name", "properties": {"name": {"predicate": "https://a.b/{c}\n"}}}}],
            "/graph/0/entity/properties/name/predicate",
            "a valid IRI",
        ),
        ([{"rows": True}], "/graph/0/rows", "unknown key"),
        ([{"entity": {"subject": "title", "class": "x"}}], "/graph/0/entity/subject", "does not declare"),
        (
            [{"entity": {"subject": "name", "class": "x", "clas": "y"}}],
            "/graph/0/entity/clas",
            "did you mean 'class'",
        ),
    ],
)
def test_invalid_clause_is_refused_with_its_place(graph: Any, path: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as refused:
        PromptDefinition.from_entry("volcanoes", {**ENTRY, "graph": graph})

    assert refused.value.path == path


def test_entity_without_keys_is_one_error() -> None:
    with pytest.raises(ConfigError) as refused:
        PromptDefinition.from_entry("volcanoes", {**ENTRY, "graph": [{"entity": {}}]})

    assert not refused.value.others


def test_answer_without_objects_has_no_graph() -> None:
    text = {"dialect": "jinja", "prompt": "Why?", "graph": [FORM]}

    with pytest.raises(ConfigError, match="does not apply to an answer of type text"):
        PromptDefinition.from_entry("why", text)


def test_entry_in_trustgraphs_format_has_no_graph_clause() -> None:
    entry = {"prompt": "Which?", "response-type": "jsonl", "graph": "anything"}

    assert PromptDefinition.from_entry("volcanoes", entry).graph is None


def test_error_in_a_prompt_file_names_its_line(tmp_path: Path) -> None:
    source = 'schema V:\n    name: string\n\nprompt v expecting V[] as jsonl:\n    text: "?"\n'
    path = tmp_path / "v.prompt"
    path.write_text(source + '    graph: [{entity: {subject: "nam", class: "V"}}]\n')

    with pytest.raises(ConfigError, match="does not declare this key, did you mean 'name'") as refused:
        files.read(path)

    assert (refused.value.where or "").startswith(f"{path}:6:")


def test_bundled_extraction_prompts_make_graphs() -> None:
    read = files.read(package_data.templates())
    prompts = read.build().prompts
    made = {}
    for example in read.examples:
        clause = prompts[example.prompt].graph
        if clause is not None:
            objects = example.reads
            assert isinstance(objects, list)
            graph = graph_of(clause, objects, naming())
            assert len(graph.facts) == len(objects)
            made[example.prompt] = True

    assert set(made) == {
        "extract-definitions",
        "extract-relationships",
        "extract-topics",
        "agent-kg-extract",
    }
