"""Tables are those of TrustGraph's config type `schema`; rows are checked and become texts."""

from __future__ import annotations

import importlib
import json
from dataclasses import asdict
from typing import Any

import pytest

from tests.support.graph_records import ExtractedObject
from tests.support.requirements import unavailable
from trustgraph_prompt import package_data
from trustgraph_prompt.contract import Limits
from trustgraph_prompt.errors import ConfigError
from trustgraph_prompt.graph.tables import TableDefinition, read_table
from trustgraph_prompt.prompts import files
from trustgraph_prompt.wire import Chunk, Metadata

CHUNK = Chunk(Metadata("urn:chunk:1", "urn:doc:1", "default"), "Etna is high. " * 20, "urn:doc:1/1")
LIMIT = 5_000_000
MOUNTAINS = {
    "name": "Mountains of the world",
    "description": "Mountains and their heights.",
    "query-indexes": ["name"],
    "fields": [
        {"name": "name", "type": "string", "primary_key": True, "indexed": True, "size": 40},
        {"name": "height", "type": "integer", "description": "In metres.", "required": True},
        {"name": "slope", "type": "float"},
        {"name": "active", "type": "boolean", "description": None},
        {"name": "climbed", "type": "date"},
        {"name": "kind", "type": "string", "enum": ["volcano", "other"]},
        {"name": "grade", "type": "integer", "enum": ["1", "2"]},
    ],
}
ETNA = {"name": "Etna", "height": 3403}


def table(definition: object = MOUNTAINS) -> TableDefinition:
    return read_table("mountains", json.dumps(definition))


def test_table_without_a_name_has_the_name_of_its_key() -> None:
    assert table().name == "Mountains of the world"
    assert table({"fields": MOUNTAINS["fields"]}).name == "mountains"


@pytest.mark.parametrize(
    ("more", "texts"),
    [
        ({}, {}),
        ({"height": "3403"}, {}),
        ({"height": 3403.0}, {}),
        ({"slope": "0.5"}, {"slope": "0.5"}),
        ({"slope": 1}, {"slope": "1"}),
        ({"active": "true"}, {"active": "True"}),
        ({"active": None, "climbed": None, "kind": None}, {"active": "", "climbed": "", "kind": ""}),
        ({"climbed": "1669-03-11"}, {"climbed": "1669-03-11"}),
        ({"climbed": 1669}, {"climbed": "1669"}),
        ({"climbed": [1669, "ß"]}, {"climbed": '[1669, "\\u00df"]'}),
        ({"climbed": {"in": True}}, {"climbed": '{"in": true}'}),
        ({"kind": "volcano", "grade": "2"}, {"kind": "volcano", "grade": "2"}),
        ({"grade": 2}, {"grade": "2"}),
        ({"unknown": "key"}, {}),
    ],
)
def test_values_of_a_row_become_texts(more: dict[str, Any], texts: dict[str, str]) -> None:
    value, accepted = table().contract().take({**ETNA, **more})

    assert accepted
    [data] = table().messages([value], CHUNK, LIMIT)
    assert ExtractedObject.decode(data).values == [{"name": "Etna", "height": "3403", **texts}]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"name": None}, "/name: expected number or string, found null"),
        ({"name": ""}, '/name: expected minLength 1, found ""'),
        ({"height": None}, "/height: expected integer, found null"),
        ({"height": "high"}, '/height: expected integer, found string "high"'),
        ({"height": 3403.5}, "/height: expected integer, found number 3403.5"),
        ({"slope": "steep"}, '/slope: expected null or number, found string "steep"'),
        ({"active": "perhaps"}, '/active: expected null or boolean, found string "perhaps"'),
        ({"kind": "hill"}, '/kind: expected "volcano" or "other" or null, found "hill"'),
        ({"grade": 3}, "/grade: expected 1 or 2 or null, found 3"),
    ],
)
def test_row_that_does_not_fit_the_table_is_rejected_with_the_reason(more: dict[str, Any], told: str) -> None:
    assert told in [str(issue) for issue in table().contract().issues({**ETNA, **more})]


@pytest.mark.parametrize("missing", ["name", "height"])
def test_required_fields_and_primary_keys_must_be_present(missing: str) -> None:
    row = {name: value for name, value in ETNA.items() if name != missing}

    assert [str(issue) for issue in table().contract().issues(row)] == [f'"{missing}" is missing']


def test_row_without_any_field_of_the_table_is_rejected() -> None:
    optional = table({"fields": [{"name": "name", "type": "string"}]})

    assert not optional.contract().accepts({"mountains": '{"name": "Etna"}'})
    assert optional.contract().accepts({"name": "Etna"})


def test_contract_of_a_table_is_compiled_once() -> None:
    assert table().contract() is table().contract(limits=Limits())
    assert table().contract(repair=True).repair


def test_rows_of_a_chunk_are_one_message() -> None:
    [data] = table().messages([ETNA, {**ETNA, "name": "Süd"}], CHUNK, LIMIT)

    assert ExtractedObject.decode(data) == ExtractedObject(
        metadata=Metadata("urn:chunk:1:mountains", "urn:doc:1", "default"),
        schema_name="mountains",
        values=[{"name": "Etna", "height": "3403"}, {"name": "Süd", "height": "3403"}],
        confidence=0.8,
        source_span=CHUNK.chunk[:100],
    )


def test_empty_list_of_rows_makes_no_message() -> None:
    assert list(table().messages([], CHUNK, LIMIT)) == []


def test_rows_too_large_for_one_message_are_sent_in_several_in_order() -> None:
    rows = [{"name": f"{number:04}", "height": number} for number in range(100)]

    data = list(table().messages(rows, CHUNK, 1_500))

    assert len(data) > 2
    assert max(map(len, data)) <= 1_500
    sent = [row["name"] for message in data for row in ExtractedObject.decode(message).values]
    assert sent == [row["name"] for row in rows]
    assert len(list(table().messages(rows[:2], CHUNK, 1))) == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "schema 'mountains': not JSON"),
        ("[]", "it is of the wrong type (found [], expected a mapping)"),
        ("{}", "the key `fields` is missing"),
        ('{"fields": []}', "/fields: it is empty"),
        ('{"fields": [{"name": "a"}]}', "/fields/0: the key `type` is missing"),
        ('{"fields": [{"name": "", "type": "string"}]}', "/fields/0/name: it is empty"),
        ('{"fields": [{"name": "a", "type": 1}]}', "/fields/0/type: it is of the wrong type (found 1"),
        ('{"fields": [{"name": "a", "type": "string", "enum": [1]}]}', "/fields/0/enum/0"),
        (
            '{"fields": [{"name": "a", "type": "string"}, {"name": "a", "type": "date"}]}',
            "/fields/1/name: two fields have the same name (found 'a')",
        ),
    ],
)
def test_invalid_table_is_refused_with_place_and_reason(text: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_table("mountains", text)

    assert "schema 'mountains'" in str(caught.value)
    assert told in str(caught.value)


@pytest.mark.parametrize("definition", [MOUNTAINS, {"fields": MOUNTAINS["fields"]}])
@pytest.mark.upstream
def test_term_of_a_table_is_that_of_trustgraphs_extractor(definition: dict[str, Any]) -> None:
    try:
        schema: Any = importlib.import_module("trustgraph.schema")
        translators: Any = importlib.import_module("trustgraph.messaging.translators")
    except ModuleNotFoundError:
        unavailable("no trustgraph-base: pip install trustgraph-prompt[upstream]")
    fields = [
        schema.Field(
            name=field["name"],
            type=field["type"],
            size=field.get("size", 0),
            primary=field.get("primary_key", False),
            description=field.get("description") or "",
            required=field.get("required", False),
            enum_values=field.get("enum", []),
            indexed=field.get("indexed", False),
        )
        for field in definition["fields"]
    ]
    row_schema = schema.RowSchema(
        definition.get("name", "mountains"), definition.get("description", ""), fields
    )

    assert table(definition).term == translators.row_schema_translator.encode(row_schema)


@pytest.mark.parametrize("size", ["null", "0", "0.0", "-0.0"])
def test_term_of_a_column_without_a_size_has_0(size: str) -> None:
    definition = f'{{"fields": [{{"name": "a", "type": "string", "size": {size}}}]}}'
    assert json.dumps(read_table("k", definition).term["fields"][0]["size"]) == "0"


@pytest.mark.upstream
def test_message_is_read_by_trustgraphs_own_classes() -> None:
    try:
        schema: Any = importlib.import_module("trustgraph.schema")
        serialization: Any = importlib.import_module("trustgraph.base.serialization")
    except ModuleNotFoundError:
        unavailable("no trustgraph-base: pip install trustgraph-prompt[upstream]")
    [data] = table().messages([{**ETNA, "climbed": None}], CHUNK, LIMIT)

    read = serialization.dict_to_dataclass(json.loads(data), schema.ExtractedObject)

    assert asdict(read) == asdict(ExtractedObject.decode(data))
    assert read.values == [{"name": "Etna", "height": "3403", "climbed": ""}]


def test_bundled_prompt_describes_each_field_once() -> None:
    prompt = files.read(package_data.templates()).build().prompts["extract-rows"]
    asked = prompt.with_contract(table().contract())

    question = asked.question({"text": "TEXT", "schema": table().term})

    assert question.prompt.count("In metres.") == 1
    assert '"volcano", "other"' in question.prompt


def test_table_too_large_for_a_schema_is_refused_when_it_is_read() -> None:
    enum = [f"value {n}" for n in range(12_000)]
    text = json.dumps({"fields": [{"name": "n", "type": "string", "enum": enum}]})

    with pytest.raises(ConfigError, match="the fields make no schema"):
        read_table("t", text)


def test_lone_surrogate_makes_no_row_unreadable() -> None:
    [data] = table().messages([{**ETNA, "name": "E\ud800"}], CHUNK, LIMIT)

    assert ExtractedObject.decode(data).values[0]["name"] == "E?"
