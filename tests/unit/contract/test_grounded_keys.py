"""Keys whose values must stand in the text that was asked about: what is refused, what is marked, where."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel, Field

from trustgraph_prompt.contract import Contract, Limits
from trustgraph_prompt.contract.object_keys import not_looked_up
from trustgraph_prompt.errors import ContractError, PromptError, Reason
from trustgraph_prompt.grounding import MatchKind
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.reader import StreamReader, read

TERMS = {"text": "The Rhine, 1,230 km long, and the Danube. The Rhine basin.", "title": "Rivers"}
RIVER = Contract.language(
    """
schema River:
    name: string @from(text, title)
    basin?: string @from(text) @grounding(strict)
    length?: int @from(text)
    tags?: string[] @from(text) @grounding(mark)
""",
    format="jsonl",
)["River"]


def of(schema: dict[str, Any], **more: Any) -> Contract:
    return Contract.from_schema(schema, **more)


def reasons(
    answer: str, contract: Contract, terms: dict[str, Any] | None = TERMS
) -> list[tuple[str, Reason]]:
    outcome = read(answer, contract, terms=terms)
    return [(issue.path, issue.reason) for _, issue in outcome.errors()]


@pytest.mark.parametrize(
    ("answer", "refused"),
    [
        ('{"name": "Danube"}', []),
        ('{"name": "rivers"}', []),
        ('{"name": "the Danube river"}', []),
        ('{"name": "Nile"}', ["/name"]),
        ('{"name": "Danube", "basin": "the RHINE-basin"}', []),
        ('{"name": "Danube", "basin": "Elbe basin"}', ["/basin"]),
        ('{"name": "Danube", "length": 1230}', []),
        ('{"name": "Danube", "length": 1231}', ["/length"]),
        ('{"name": "Danube", "tags": ["Nile"]}', []),
        ('{"name": "Nile", "length": 7}', ["/length", "/name"]),
        ('{"name": ""}', []),
        ('{"name": " "}', ["/name"]),
        ('{"name": "\\t", "basin": "\u00a0"}', ["/basin", "/name"]),
        ('{"name": "\u200b\\n"}', ["/name"]),
        ('{"name": "Rhine", "tags": [" "]}', []),
    ],
)
def test_value_in_no_term_is_refused_as_its_policy_says(answer: str, refused: list[str]) -> None:
    assert sorted(reasons(answer, RIVER)) == [(path, Reason.UNGROUNDED) for path in refused]


@pytest.mark.parametrize("blank", [" ", "\t", "\u00a0", "\u3000"])
def test_blank_element_of_a_list_is_refused(blank: str) -> None:
    names = of({"properties": {"names": {"type": "array", "x-from": "text"}}}, format="jsonl")
    answer = json.dumps({"names": ["Rhine", blank]})
    assert reasons(answer, names) == [("/names/1", Reason.UNGROUNDED)]


def test_numbers_and_dates_that_are_not_looked_up_are_named() -> None:
    contract = Contract.language(
        """
schema Person:
    name: string @from(text)
    born: date
    died: datetime?
    year: int?
    height: float @from(text)
    rank: int @from(text) @grounding(mark)
    note: string
    marks: int[]
""",
        format="jsonl",
    )["Person"]
    assert not_looked_up(contract) == ["born", "died", "year"]
    assert not_looked_up(of({"properties": {"year": {"type": "integer"}}})) == []


def test_object_has_the_places_of_its_values() -> None:
    outcome = read('{"name": "rhine", "length": 1230, "tags": ["Danube", "Nile"]}', RIVER, terms=TERMS)
    assert outcome.grounding is not None
    [found] = outcome.grounding
    assert found["/tags/1"] is None
    told = {path: (one.term, one.kind, one.spans) for path, one in found.items() if one}
    assert told == {
        "/name": ("text", MatchKind.FOLDED, ((4, 9), (46, 51))),
        "/length": ("text", MatchKind.FOLDED, ((11, 16),)),
        "/tags/0": ("text", MatchKind.EXACT, ((34, 40),)),
    }


@pytest.mark.parametrize("terms", [None, {}, {"text": ["a", "list"]}])
def test_values_are_not_looked_up_without_a_text(terms: dict[str, Any] | None) -> None:
    outcome = read('{"name": "Nile"}', RIVER, terms=terms)
    assert outcome.value == [{"name": "Nile"}]
    assert not outcome.grounding or outcome.grounding == ({},)


def test_contract_without_marked_keys_has_no_sources() -> None:
    plain = of({"type": "object"}, format="jsonl")
    assert plain.sources is None
    assert read('{"name": "Nile"}', plain, terms=TERMS).grounding is None
    assert read('{"name": "Nile"}', plain, terms=TERMS).contract is plain


@pytest.mark.parametrize(
    ("schema", "answer", "paths"),
    [
        ({"items": {"x-from": "text"}}, '["Rhine", "Nile"]', ["/1"]),
        ({"x-from": "text", "type": "array"}, '[["Rhine"], [["Nile"]]]', ["/1/0/0"]),
        ({"additionalProperties": {"x-from": "text"}}, '{"a": "Rhine", "b/c": "Nile"}', ["/b~1c"]),
        ({"properties": {"x-from": {"x-from": "text"}}}, '{"x-from": "Nile"}', ["/x-from"]),
        (
            {"properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"x-from": "text"}}},
            '{"a": "Nile"}',
            ["/a"],
        ),
        (
            {"properties": {"a": {"x-from": "text"}, "in": {"$ref": "#"}}},
            '{"a": "Rhine", "in": {"in": {"a": "Nile"}}}',
            ["/in/in/a"],
        ),
        (
            {
                "oneOf": [
                    {"properties": {"type": {"const": "river"}, "name": {"x-from": "text"}}},
                    {"properties": {"type": {"const": "idea"}, "name": {"type": "string"}}},
                ]
            },
            '[{"type": "river", "name": "Nile"}, {"type": "idea", "name": "Nile"}]',
            ["/0/name"],
        ),
    ],
)
def test_marked_keys_are_found_under_every_keyword_of_the_schema(
    schema: dict[str, Any], answer: str, paths: list[str]
) -> None:
    many = "oneOf" in schema
    assert reasons(answer, of(schema, many=many)) == [(path, Reason.UNGROUNDED) for path in paths]


EITHER = {"anyOf": [{"type": "string", "x-from": "text"}, {"enum": ["unknown"]}]}
BY_KEYS = {
    "anyOf": [
        {"required": ["name"], "properties": {"name": {"x-from": "text"}}},
        {"required": ["name", "guess"]},
    ]
}
QUANTITIES = {"text": "1.500 kg, 0.050 kg, 2.000 kg, .5 mm, 1e6 cells, ¼ cup and \u221240 degrees"}
QUANTITY = of({"type": "object", "properties": {"value": {"type": "number", "x-from": "text"}}})


@pytest.mark.parametrize("written", ["1.500", "0.050", "2.000", "0.5", "1e6", "1500", "-40", "-4e1", "0.25"])
def test_number_of_an_answer_is_found_as_the_text_writes_it(written: str) -> None:
    assert reasons(f'{{"value": {written}}}', QUANTITY, QUANTITIES) == []


@pytest.mark.parametrize("written", ["50", "5", "40", "6", "-1500"])
def test_number_that_the_text_does_not_have_is_refused(written: str) -> None:
    assert reasons(f'{{"value": {written}}}', QUANTITY, QUANTITIES) == [("/value", Reason.UNGROUNDED)]


BY_TYPE = {"anyOf": [{"type": "number", "x-from": "text"}, {"type": "string"}]}
BY_REFERENCE = {
    "oneOf": [
        {"properties": {"is": {"$ref": "#/$defs/one"}, "name": {"x-from": "text"}}},
        {"properties": {"is": {"const": True}, "name": {"type": "string"}}},
    ],
    "$defs": {"one": {"const": 1}},
}


@pytest.mark.parametrize(
    ("schema", "answer", "paths"),
    [
        (EITHER, '"unknown"', []),
        (EITHER, '"Nile"', [""]),
        (BY_KEYS, '{"name": "Nile", "guess": 1}', []),
        (BY_KEYS, '{"name": "Nile"}', ["/name"]),
        (BY_TYPE, '"Nile"', []),
        (BY_TYPE, "1231", [""]),
        (BY_REFERENCE, '{"is": true, "name": "Nile"}', []),
        (BY_REFERENCE, '{"is": 1, "name": "Nile"}', ["/name"]),
        ({"prefixItems": [{"x-from": "text"}], "items": {}}, '["Nile", "Nile"]', ["/0"]),
        ({"$defs": {"unused": {"x-from": "text"}}, "items": {"x-from": "text"}}, '["Nile"]', ["/0"]),
    ],
)
def test_value_is_judged_by_the_marks_of_the_matching_branch(
    schema: dict[str, Any], answer: str, paths: list[str]
) -> None:
    assert reasons(answer, of(schema)) == [(path, Reason.UNGROUNDED) for path in paths]


def test_value_is_judged_by_the_marks_of_its_version() -> None:
    plain = {"properties": {"name": {"type": "string"}}}
    marked = {"properties": {"name": {"type": "string", "x-from": "text"}}}
    contract = of(plain, versions={"1.0": plain, "2.0": marked})
    assert reasons('{"name": "Nile"}', contract) == []
    assert reasons('{"schema_version": "1.0", "name": "Nile"}', contract) == []
    assert reasons('{"schema_version": "2.1", "name": "Nile"}', contract) == [("/name", Reason.UNGROUNDED)]


@pytest.mark.parametrize(
    ("unversioned", "versions"),
    [(True, {"2.0": ...}), (None, {"1.0": True, "2.0": ...}), ({}, {"2.0": True, "2.1": ...})],
)
def test_version_that_accepts_anything_has_no_marks(
    unversioned: dict[str, Any] | bool | None, versions: dict[str, Any]
) -> None:
    marked = {"properties": {"name": {"type": "string", "x-from": "text"}}}
    contract = Contract.from_schema(
        unversioned, versions={name: marked if each is ... else each for name, each in versions.items()}
    )
    assert reasons('{"name": "Nile"}', contract) == []
    assert reasons('{"schema_version": "2.9", "name": "Nile"}', contract) == [("/name", Reason.UNGROUNDED)]
    for plain in (name for name, each in versions.items() if each is True):
        assert reasons(f'{{"schema_version": "{plain}", "name": "Nile"}}', contract) == []


def test_looking_up_values_counts_towards_the_effort() -> None:
    answer = "\n".join(f'{{"name": "n{n}"}}' for n in range(2_000))
    contract = of({"properties": {"name": {"x-from": "text"}}}, format="jsonl", limits=Limits(steps=500_000))
    outcome = read(answer, contract, terms={"text": "x"})
    assert outcome.reason is not Reason.SUCCESS
    assert Reason.EFFORT_SPENT in {issue.reason for _, issue in outcome.errors()}


def test_grounded_one_of_several_values_is_taken() -> None:
    contract = of({"properties": {"name": {"x-from": "text"}}, "required": ["name"]})
    outcome = read('Such as {"name": "Nile"}? No: {"name": "Rhine"}', contract, terms=TERMS)
    assert outcome.value == {"name": "Rhine"}


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_answer_read_in_chunks_has_the_same_grounding(size: int) -> None:
    answer = '{"name": "Rhine"}\n{"name": "Nile"}\n[{"name": "danube"}, {"name": "Po"}]\n{"name": 7}'
    reader = StreamReader(RIVER, TERMS)
    given = [one for at in range(0, len(answer), size) for one in reader.feed(answer[at : at + size])]
    outcome, whole = reader.close(), read(answer, RIVER, terms=TERMS)
    assert given == outcome.value == whole.value == [{"name": "Rhine"}, {"name": "danube"}]
    assert outcome.rejected == whole.rejected
    assert outcome.grounding == whole.grounding


def test_dataclass_and_model_can_mark_fields() -> None:
    @dataclass
    class River:
        name: str = field(metadata={"x-from": "text"})

    class Model(BaseModel):
        name: str = Field(json_schema_extra={"x-from": "text"})

    for type in (River, Model):
        contract = Contract.of(type)
        assert reasons('{"name": "Nile"}', contract) == [("/name", Reason.UNGROUNDED)]
        assert contract.build(read('{"name": "Rhine"}', contract, terms=TERMS).value).name == "Rhine"


@pytest.mark.parametrize(
    ("note", "meant"), [("x_from", "x-from"), ("from", "x-from"), ("x-grouding", "x-grounding")]
)
def test_misspelt_mark_of_a_field_is_refused(note: str, meant: str) -> None:
    @dataclass
    class River:
        name: str = field(metadata={note: "text"})

    class Model(BaseModel):
        rivers: list[River]

    for type in (River, list[River], Model):
        with pytest.raises(ContractError, match=f"/name/{note}: unknown keyword, did you mean '{meant}'?"):
            Contract.of(type)


def test_other_metadata_of_a_field_is_ignored() -> None:
    @dataclass
    class River:
        name: str = field(metadata={"unit": 1, "source": complex, 3: "x", "x-from": None, "json": object()})

    assert Contract.of(River).sources is None


def test_key_that_may_be_null_can_be_marked() -> None:
    @dataclass
    class River:
        mouth: str | None = field(default=None, metadata={"x-from": "text"})

    contract = Contract.of(River)
    assert reasons('{"mouth": "Nile"}', contract) == [("/mouth", Reason.UNGROUNDED)]
    assert reasons('{"mouth": null}', contract) == []


def test_marks_are_in_the_fingerprint_and_not_in_the_schema() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "x-from": "text"}}}
    unmarked = {"type": "object", "properties": {"a": {"type": "string"}}}
    strict = {
        "type": "object",
        "properties": {"a": {"type": "string", "x-from": "text", "x-grounding": "strict"}},
    }
    assert of(schema).schema == unmarked
    assert len({of(one).fingerprint for one in (schema, unmarked, strict)}) == 3


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ({"x-from": 3}, "/x-from: `x-from` names no term (found 3"),
        ({"x-from": []}, "names no term"),
        ({"x-from": ["text", ""]}, "names no term"),
        ({"x-from": "text", "x-grounding": "no"}, "expected refuse, strict or mark"),
        ({"x-grounding": "mark"}, "`x-grounding` without `x-from` has no effect"),
        ({"not": {"x-from": "text"}}, "/not/x-from: `x-from` has no effect here"),
        ({"patternProperties": {"a": {"x-from": "text"}}}, "`x-from` has no effect here"),
        ({"type": "object", "x-from": "text"}, "`x-from` applies to strings and numbers only"),
        ({"properties": {"a": {"type": "boolean", "x-from": "text"}}}, "/properties/a/x-from"),
        ({"x-form": "text"}, "did you mean 'x-from'?"),
    ],
)
def test_invalid_mark_is_a_contract_error(schema: dict[str, Any], says: str) -> None:
    with pytest.raises(ContractError) as caught:
        of(schema)
    assert says in str(caught.value)


def test_mark_with_an_unknown_term_is_a_prompt_error() -> None:
    entry = {
        "dialect": "jinja",
        "prompt": "{{ passage }}",
        "response-type": "json",
        "schema": {"x-from": "text"},
    }
    with pytest.raises(PromptError, match=r"/schema: .*found text, expected passage|text.*passage"):
        PromptDefinition.from_entry("p", entry)
    assert PromptDefinition.from_entry("p", {**entry, "terms": {"text": "x"}}).contract.sources
