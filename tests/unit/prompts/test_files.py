"""Prompt files and exports of a workspace; and the prompts that come with the package."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from trustgraph_prompt import language, package_data
from trustgraph_prompt.ask import try_example
from trustgraph_prompt.config_files import read_bytes
from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.prompts import Example, PromptSet, files
from trustgraph_prompt.prompts.entry_schema import SCHEMA, SYSTEM_SCHEMA
from trustgraph_prompt.reader import read

GOOD = "dialect: jinja\nprompt: |\n  Hello {{ name }}\n"


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_folder_of_files_becomes_the_entries_of_a_workspace(tmp_path: Path) -> None:
    write(tmp_path / "greet.yaml", GOOD)
    write(tmp_path / "system.yaml", "dialect: jinja\nprompt: You greet {{ name }}.\n")
    write(tmp_path / "notes.txt", "not a prompt")
    entries = files.load(tmp_path)
    assert sorted(entries) == ["system", "template.greet"]
    question = PromptSet.build(entries).question("greet", {"name": "Etna"})[1]
    assert (question.system, question.prompt) == ("You greet Etna.", "Hello Etna")


def test_one_file_is_one_entry(tmp_path: Path) -> None:
    assert list(files.load(str(write(tmp_path / "greet.yml", GOOD)))) == ["template.greet"]


@pytest.mark.parametrize("suffix", ["prompt", "yaml", "json"])
def test_named_pipe_without_a_writer_is_refused_at_once(tmp_path: Path, suffix: str) -> None:
    pipe = tmp_path / f"greet.{suffix}"
    os.mkfifo(pipe)
    with pytest.raises(ConfigError, match="a pipe that nobody writes to"):
        files.read(pipe)


def test_prompts_may_come_through_a_pipe() -> None:
    end, start = os.pipe()
    os.write(start, b'{"template.greet": {}}')
    os.close(start)
    try:
        assert read_bytes(Path(f"/dev/fd/{end}"), 100) == b'{"template.greet": {}}'
    finally:
        os.close(end)


def test_endless_file_is_read_up_to_its_limit() -> None:
    with pytest.raises(ConfigError, match="larger than 1,000 bytes"):
        read_bytes(Path("/dev/zero"), 1_000)


@pytest.mark.parametrize("text", ["", " \n\n", "# nothing\n"])
def test_prompt_file_without_declarations_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="the file declares nothing"):
        files.read(write(tmp_path / "greet.prompt", text))


ENTRY: dict[str, Any] = {"prompt": "Hi {{x}}", "response-type": "json"}


@pytest.mark.parametrize(
    "export",
    [
        {"system": json.dumps("Sys"), "template.a": json.dumps(ENTRY), "template-index": '["a"]'},
        {"system": "Sys", "template.a": ENTRY},
        {"prompt": {"system": json.dumps("Sys"), "template.a": json.dumps(ENTRY)}, "flow": {"x": "{}"}},
    ],
    ids=["entries as text", "entries as values", "TrustGraph's configuration"],
)
def test_export_of_a_workspace_becomes_its_entries(tmp_path: Path, export: dict[str, Any]) -> None:
    entries = files.load(write(tmp_path / "export.json", json.dumps(export)))
    assert sorted(entries) == ["system", "template.a"]
    definition, question = PromptSet.build(entries).question("a", {"x": 1})
    assert (question.system, question.prompt, definition.contract.format) == ("Sys", "Hi 1", "json")


def test_folder_may_have_files_of_both_kinds(tmp_path: Path) -> None:
    write(tmp_path / "greet.yaml", GOOD)
    write(tmp_path / "more.prompt", 'system: "You greet."\nprompt bye: "Bye {{ name }}"\nprompt hi: "Hi"\n')
    prompts = PromptSet.build(files.load(tmp_path))
    assert sorted(prompts.prompts) == ["bye", "greet", "hi"]
    question = prompts.question("greet", {"name": "Etna"})[1]
    assert (question.system, question.prompt) == ("You greet.", "Hello Etna")


@pytest.mark.parametrize(
    ("again", "said"),
    [
        ('prompt greet: "Hi"\n', "greet.yaml: the prompt is defined twice"),
        ('\nsystem: "x"\n', "system.yaml: the system message is defined twice"),
    ],
)
def test_prompt_in_two_files_is_an_error_that_names_both(tmp_path: Path, again: str, said: str) -> None:
    write(tmp_path / "a.prompt", again)
    write(tmp_path / "greet.yaml", GOOD)
    write(tmp_path / "system.yaml", GOOD)
    with pytest.raises(ConfigError) as raised:
        files.load(tmp_path)
    assert said in str(raised.value)
    assert f"only the definition in {tmp_path / 'a.prompt'}:" in str(raised.value)


def test_bad_entry_of_an_export_is_refused_in_the_prompt_set(tmp_path: Path) -> None:
    export = {"template.a": "{not json", "template.b": {"prompt": "b"}}
    prompts = PromptSet.build(files.load(write(tmp_path / "export.json", json.dumps(export))))
    assert (list(prompts.prompts), list(prompts.refused)) == (["b"], ["template.a"])


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "p.yaml",
            GOOD + "respnse-type: json\n",
            "/respnse-type: unknown key, did you mean 'response-type'?",
        ),
        ("p.yaml", "prompt: x\ndescription: no dialect\n", "the key `dialect` is missing"),
        ("p.yaml", "prompt: x\ndialct: jinja\n", "/dialct: unknown key, did you mean 'dialect'?"),
        (
            "p.yaml",
            GOOD + "attempts: many\n",
            "/attempts: it is of the wrong type (found 'many', expected an integer)",
        ),
        (
            "p.yaml",
            "dialect: jinja\nprompt: |\n  a\n  {{ b|shout }}\n",
            "/prompt: line 2: the filter `shout`",
        ),
        (
            "p.yaml",
            GOOD + "response-type: json\nschema: {type: objct}\n",
            "/schema/type: unknown type, did you mean 'object'?",
        ),
        ("p.yaml", "a: [", "not YAML"),
        ("p.yaml", GOOD + "prompt: twice\n", ":4: not YAML: duplicate key 'prompt'"),
        ("p.yaml", "dialect: &x jinja\nprompt: *x\n", ":2: not YAML: aliases are not allowed"),
        ("p.yaml", "", "found None, expected a mapping"),
        ("system.yaml", GOOD + "attempts: 2\n", "/attempts: unknown key"),
        ("export.json", "{", "not JSON"),
        ("export.json", "[]", "contains no prompts"),
        ("export.json", '{"prompt": {}}', "contains no prompts"),
        ("export.json", '{"flow": {"template.x": "{}"}}', "contains no prompts"),
    ],
)
def test_invalid_file_is_refused_by_name_and_key(tmp_path: Path, name: str, text: str, said: str) -> None:
    path = write(tmp_path / name, text)
    with pytest.raises(ConfigError) as raised:
        files.load(path)
    assert str(raised.value).startswith(str(path))
    assert said in str(raised.value)


def test_missing_file_or_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="contains no prompts"):
        files.load(tmp_path)
    for name in ("gone.yaml", "gone.json"):
        with pytest.raises(ConfigError, match="No such file"):
            files.load(tmp_path / name)


SHIPPED = files.load(package_data.templates())
PROMPTS = PromptSet.build(SHIPPED)

TEXT = "A passage: {{ not a template }}."
TOOLS = [
    {"name": "TOOL", "description": "D", "arguments": [{"name": "ARG", "type": "string", "description": "D"}]}
]
FIELDS = [
    {
        "name": "FIELD",
        "type": "string",
        "description": "D",
        "enum_values": ["E"],
        "required": True,
        "indexed": True,
    }
]
TABLES = [{"name": "TABLE", "description": "D", "fields": FIELDS}]
CHOICES = [{"name": "CHOICE", "description": "D"}]
RESULTS = [{"index": 0, "goal": "GOAL", "result": "RESULT"}]
TERMS: dict[str, dict[str, Any]] = {
    "extract-definitions": {"text": TEXT},
    "extract-relationships": {"text": TEXT},
    "extract-topics": {"text": TEXT},
    "extract-rows": {"text": TEXT, "schema": TABLES[0]},
    "agent-kg-extract": {"text": TEXT},
    "extract-with-ontologies": {
        "text": TEXT,
        "classes": {},
        "object_properties": {"RELATION": {"domain": "CLASS", "range": "RANGE"}},
        "datatype_properties": {"ATTRIBUTE": {"domain": "CLASS", "range": "xsd:string"}},
    },
    "question": {"question": "QUESTION"},
    "document-prompt": {"query": "QUERY", "documents": ["DOCUMENT 1", "DOCUMENT 2"]},
    "extract-concepts": {"query": "QUERY"},
    "kg-synthesis": {"query": "QUERY", "knowledge": [{"s": "SUBJECT", "p": "PREDICATE", "o": "OBJECT"}]},
    "agent-react": {
        "question": "QUESTION",
        "tools": TOOLS,
        "context": "CONTEXT",
        "history": [
            {"thought": "THOUGHT", "action": "ACTION", "arguments": {"a": "VALUE"}, "observation": "SEEN"}
        ],
    },
    "task-type-classify": {"question": "QUESTION", "task_types": CHOICES},
    "pattern-select": {"question": "QUESTION", "task_type": "KIND", "patterns": CHOICES},
    "plan-create": {"question": "QUESTION", "framing": "FRAMING", "tools": CHOICES},
    "plan-step-execute": {"goal": "GOAL", "tools": TOOLS, "previous_results": RESULTS},
    "plan-synthesise": {"question": "QUESTION", "framing": "FRAMING", "steps": RESULTS},
    "supervisor-decompose": {
        "question": "QUESTION",
        "framing": "FRAMING",
        "max_subagents": 77,
        "tools": CHOICES,
    },
    "supervisor-synthesise": {"question": "QUESTION", "framing": "FRAMING", "results": RESULTS},
    "schema-selection": {"question": "QUESTION", "schemas": TABLES},
    "graphql-generation": {"question": "QUESTION", "schemas": TABLES},
    "diagnose-structured-data": {"sample": "SAMPLE", "schemas": TABLES, "hints": "HINTS"},
    "diagnose-csv": {"sample": "SAMPLE", "hints": "HINTS"},
    "diagnose-json": {"sample": "SAMPLE", "hints": "HINTS"},
    "diagnose-xml": {"sample": "SAMPLE", "hints": "HINTS"},
}


def test_all_prompts_of_trustgraph_are_bundled_and_valid() -> None:
    assert not PROMPTS.refused
    assert set(PROMPTS.prompts) == set(TERMS)


def strings(value: Any) -> list[str]:
    """What of the terms must be seen in the question: values, and the keys that are data."""
    if isinstance(value, dict):
        return [s for key, item in value.items() for s in strings(item) + [key] * key.isupper()]
    if isinstance(value, list):
        return [s for item in value for s in strings(item)]
    return [] if isinstance(value, bool) or value == 0 else [str(value)]


@pytest.mark.parametrize("id", TERMS)
def test_bundled_prompt_puts_all_its_terms_into_the_question(id: str) -> None:
    _, question = PROMPTS.question(id, TERMS[id])
    own_system = PROMPTS.prompts[id].own_system
    seen = question.prompt + question.system if own_system else question.prompt
    assert [s for s in strings(TERMS[id]) if s not in seen] == []
    assert own_system or "careful" in question.system
    assert not question.prompt.endswith("\n")
    assert "\n\n\n" not in question.prompt


OPTIONAL = {"context", "history", "schemas", "hints", "task_type", "previous_results", "framing"}


@pytest.mark.parametrize(
    "id", sorted(TERMS.keys() - {"graphql-generation", "schema-selection"})
)  # they need `schemas`
def test_bundled_prompt_can_be_asked_without_its_optional_terms(id: str) -> None:
    given = {name: value for name, value in TERMS[id].items() if name not in OPTIONAL}
    assert PROMPTS.question(id, given)[1].prompt.strip()


ANSWERS: dict[str, list[dict[str, Any]]] = {
    "extract-definitions": [{"quote": "q", "entity": "a", "definition": "b"}],
    "extract-relationships": [
        {"quote": "q", "subject": "a", "predicate": "b", "object": "c", "object-entity": True}
    ],
    "extract-topics": [{"topic": "a", "definition": "b"}],
    "extract-rows": [{"anything": 1}],
    "agent-kg-extract": [
        {"type": "definition", "entity": "a", "definition": "b"},
        {"type": "relationship", "subject": "a", "predicate": "b", "object": "c", "object-entity": False},
    ],
    "extract-with-ontologies": [{"subject": "a", "relation": "b", "object": "c"}],
}


@pytest.mark.parametrize("id", ANSWERS)
def test_bundled_extraction_prompts_have_the_contracts_of_seed_1(id: str) -> None:
    contract = PROMPTS.prompts[id].contract
    assert contract.format == "jsonl"
    for answer in ANSWERS[id]:
        assert contract.accepts({**answer, "more": "is welcome"})
        for key in answer if id != "extract-rows" else ():
            assert not contract.accepts({name: value for name, value in answer.items() if name != key})
    mixed = len(ANSWERS[id]) > 1
    assert contract.discriminator == ("type" if mixed else None)


QUOTING = {"extract-definitions", "extract-relationships"}


@pytest.mark.parametrize("id", sorted(ANSWERS.keys() - QUOTING - {"extract-with-ontologies"}))
def test_bundled_extraction_prompt_begins_with_the_passage(id: str) -> None:
    question = PROMPTS.question(id, TERMS[id])[1].prompt
    assert question.startswith(f"<passage>\n{TERMS[id]['text']}\n</passage>\n")
    assert "Use only what the passage says" in question
    form, _, end = question.rpartition("no Markdown, no code fence.\n\n")
    assert [key for answer in ANSWERS[id] for key in answer if f'"{key}"' not in form] == [
        key for key in ("anything",) if id == "extract-rows"
    ]
    assert end.startswith("Write a")


@pytest.mark.parametrize("id", sorted(QUOTING))
def test_passage_stands_alone_behind_two_examples_whose_objects_begin_with_a_quote(id: str) -> None:
    question = PROMPTS.question(id, TERMS[id])[1]
    assert question.prompt == TEXT
    assert "Use only what" in question.system
    assert [key for key in ANSWERS[id][0] if f'"{key}"' not in question.system] == []
    assert len(question.examples) == 2
    for example in question.examples:
        for shown in example.answer:
            assert list(shown) == list(ANSWERS[id][0])


def test_passage_stands_alone_in_the_question_in_the_terms_of_an_ontology() -> None:
    question = PROMPTS.question("extract-with-ontologies", TERMS["extract-with-ontologies"])[1]
    assert question.prompt == TEXT
    assert "- RELATION (of CLASS, to RANGE)\n- ATTRIBUTE (of CLASS, to xsd:string)\n" in question.system
    assert 'the keys "subject", "relation", "object", one per line, and nothing else.' in question.system


ASKING_FOR_JSON = [
    id
    for id, prompt in sorted(PROMPTS.prompts.items())
    if prompt.contract.format != "text" and not prompt.contract.accepts({})
]


@pytest.mark.parametrize("id", ASKING_FOR_JSON)
def test_no_bundled_prompt_contains_a_valid_answer(id: str) -> None:
    text = json.loads(SHIPPED[f"template.{id}"])["prompt"]
    assert not read(text, PROMPTS.prompts[id].contract).value


@pytest.mark.parametrize(("name", "schema"), [("prompt", SCHEMA), ("system", SYSTEM_SCHEMA)])
def test_schemas_for_editors_are_those_of_entries(name: str, schema: Any) -> None:
    assert json.loads((package_data.templates() / f"{name}.schema.json").read_text()) == schema


FILES = files.read(package_data.templates())


@pytest.mark.parametrize("example", FILES.examples, ids=str)
def test_bundled_example_is_read_as_it_says(example: Example) -> None:
    try_example(PROMPTS.prompts[example.prompt], example)


def test_items_of_bundled_lists_are_described() -> None:
    described = {
        id: json.loads(SHIPPED[f"template.{id}"])["schema"]["description"]
        for id in ("schema-selection", "supervisor-decompose")
    }
    assert described == {
        "schema-selection": "The name of a table.",
        "supervisor-decompose": "The goal of one part.",
    }


@pytest.mark.parametrize("id", TERMS)
def test_every_bundled_prompt_has_examples_and_a_description(id: str) -> None:
    examples = [example for example in FILES.examples if example.prompt == id]
    assert len(examples) >= (2 if id in ANSWERS else 1)
    assert any(example.terms for example in examples)
    assert PROMPTS.prompts[id].description


@pytest.mark.parametrize(
    "path", sorted(package_data.templates().glob("*.prompt")), ids=lambda path: path.stem
)
def test_every_bundled_file_is_formatted_and_names_its_terms(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert language.format(source, where=str(path)) == source
    assert source.startswith("# The system message" if path.stem == "system" else "# Terms: ")
