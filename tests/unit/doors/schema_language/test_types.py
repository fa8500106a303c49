"""Types and schemas of the language in Python, and workflows that are written by hand (seed 5)."""

from __future__ import annotations

import json
import sys
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

import pytest
from pydantic import AnyUrl, BaseModel, ValidationError, create_model, field_validator

from tests.support.asking import Script
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.doors.schema_language import (
    DSL_TYPE_MAP,
    MAX_SCHEMA_RETRIES,
    EscalationSpec,
    JSONParseError,
    PromptSpec,
    SchemaDef,
    SchemaValidationError,
    Workflow,
    schema_to_pydantic,
    type_expr_to_python_type,
)
from trustgraph_prompt.errors import ConfigError, LanguageError, PromptError, StructuredOutputInvalid
from trustgraph_prompt.language import parse
from trustgraph_prompt.language.nodes import Name, Optional, SchemaField, TypeExpr
from trustgraph_prompt.llm import ScriptedAnswer


def schemas(text: str) -> dict[str, SchemaDef]:
    return {schema.name: schema for schema in parse(text).schemas}


def model(text: str) -> type[BaseModel]:
    """The model of the last schema of a text."""
    *others, last = schemas(text).values()
    return schema_to_pydantic(last, others)


def type_of(text: str) -> TypeExpr:
    return schemas(f"schema A:\n    a: {text}\n")["A"].fields[0].type


def circle(length: int) -> str:
    return "".join(f"schema S{n}:\n    next: S{(n + 1) % length}?\n" for n in range(length))


class TestTypes:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("string", str),
            ("int", int),
            ("float", float),
            ("bool", bool),
            ("any", Any),
            ("bytes", bytes),
            ("date", date),
            ("time", time),
            ("datetime", datetime),
            ("uuid", UUID),
            ("decimal", Decimal),
            ("list[string]", list[str]),
            ("string[][]", list[list[str]]),
            ("map[int[]]", dict[str, list[int]]),
            ("float?", float | None),
            ("string?[]", list[str | None]),
            ("string[]?", list[str] | None),
            ("string | int", str | int),
            ('"a" | "b"', Literal["a", "b"]),
            ('("a" | string | 1)?', Literal["a", 1] | str | None),
        ],
    )
    def test_each_type_has_its_python_annotation(self, text: str, expected: Any) -> None:
        assert type_expr_to_python_type(type_of(text)) == expected

    def test_unknown_name_is_no_type(self) -> None:
        with pytest.raises(LanguageError, match="unknown type"):
            type_expr_to_python_type(Name("strng"))

    def test_argument_that_is_no_type_expression_is_refused(self) -> None:
        with pytest.raises(LanguageError, match="not a type"):
            type_expr_to_python_type("string")  # type: ignore[arg-type]

    def test_type_added_to_the_map_is_known(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(DSL_TYPE_MAP, "url", AnyUrl)
        assert type_expr_to_python_type(Name("url")) is AnyUrl
        workflow = Workflow.load('schema A:\n    home: url\nprompt p expecting A: "?"\n', Script())
        assert workflow.schemas["A"](home="http://x/").model_dump() == {"home": AnyUrl("http://x/")}


class TestModels:
    def test_example_of_the_seed_makes_its_models(self) -> None:
        made = model(
            "schema CodeReviewResult:\n"
            "    approved: bool\n    severity: string\n    issues: list[string]\n    confidence: float?"
        )
        by_hand = create_model(
            "CodeReviewResult",
            approved=(bool, ...),
            severity=(str, ...),
            issues=(list[str], ...),
            confidence=(float | None, None),
        )
        assert made.model_json_schema() == by_hand.model_json_schema()

    def test_schemas_may_be_nested_in_any_order_and_in_circles(self) -> None:
        kind = model("schema B:\n    back: A?\nschema A:\n    items: B[]\n    by: map[A]\n")
        value = {"items": [{"back": None}, {"back": {"items": [], "by": {}}}], "by": {}}
        assert kind.model_validate(value).model_dump() == value

    def test_fields_are_inherited_in_their_order_and_may_be_replaced(self) -> None:
        kind = model(
            "schema A:\n    x: int\n    y: int\nschema B:\n    z: int\n"
            "schema C extends A, B:\n    y: string\n    w: int"
        )
        assert list(kind.model_fields) == ["x", "y", "z", "w"]
        assert kind.model_fields["y"].annotation is str

    @pytest.mark.parametrize(
        ("field", "good", "bad"),
        [
            ("int @min(1) @max(3)", 3, 4),
            ("float @above(0) @below(1)", 0.5, 1),
            ("int @multiple(5)", 10, 11),
            ("int @min(0.5) @max(2.5)", 1, 0),
            ("int | float @above(-0.5) @below(0.5)", 0, 1),
            ("int @multiple(1.5)", 3, 1),
            ("string @length(2, 3)", "ab", "a"),
            ("string @length(2)", "ab", "abc"),
            ('string @pattern("^[a-z]+$")', "ab", "AB"),
            ("string[] @length(1, any) @unique", ["a", "b"], ["a", "a"]),
            ("map[int] @length(1, 2)", {"a": 1}, {}),
            ("int? @min(1)", None, 0),
            ("(int | string) @min(1)", "a", 0),
            ('"a" | "b"', "b", "c"),
            ("1 | true", True, False),
            ("string | int", 1, []),
            ("(string @length(1, 2))[]", ["ab"], ["abc"]),
            ("map[int @min(0)]?", {"b": 0}, {"b": -1}),
            ("(string @length(1)) | (int @min(1))", 1, 0),
            ("bytes", "aGk=", 1),
        ],
    )
    def test_constraints_and_kinds_hold_in_a_model(self, field: str, good: Any, bad: Any) -> None:
        kind = model(f"schema A:\n    a: {field}\n")
        kind.model_validate({"a": good})
        with pytest.raises(ValidationError):
            kind.model_validate({"a": bad})

    def test_model_of_a_closed_schema_refuses_other_keys(self) -> None:
        closed = model("schema A closed:\n    a: int\n")
        with pytest.raises(ValidationError, match="not permitted"):
            closed.model_validate({"a": 1, "b": 2})
        assert closed.model_json_schema()["additionalProperties"] is False
        assert model("schema A:\n    a: int\n").model_validate({"a": 1, "b": 2}).model_extra is None

    def test_field_that_may_be_missing_and_not_null_is_left_out_where_missing(self) -> None:
        text = "schema A:\n    a?: string @length(1)\n    class?: int\n    any?: any\n    b: int\n"
        kind = model(text)
        missing: Any = kind.model_validate({"b": 1})
        assert missing.a is None
        assert missing.model_dump_json() == '{"b":1}'
        assert missing.model_dump(by_alias=False) == {"b": 1}
        whole = {"a": "x", "class": 2, "any": None, "b": 1}
        assert kind.model_validate(whole).model_dump() == whole
        for value in ({"a": None}, {"a": ""}, {"class": None}):
            with pytest.raises(ValidationError):
                kind.model_validate({"b": 1, **value})
        assert Contract.of(kind).fingerprint == Contract.language(text)["A"].fingerprint

    def test_bytes_are_base64_in_json(self) -> None:
        kind = model("schema A:\n    a: bytes\n")
        made: Any = kind.model_validate_json('{"a": "aGk="}')
        assert made.a == b"hi"
        assert made.model_dump_json() == '{"a":"aGk="}'

    def test_defaults_of_a_model_have_the_type_of_their_field(self) -> None:
        made: Any = model('schema A:\n    a: datetime = "2026-01-01T00:00:00Z"\n    b: int[] = [1]\n')()
        assert made.a == datetime(2026, 1, 1, tzinfo=UTC)
        assert made.b == [1]

    def test_descriptions_are_in_the_schema_of_a_model(self) -> None:
        schema = model('schema A:\n    "An A."\n    a: int "Its a."\n').model_json_schema()
        assert (schema["description"], schema["properties"]["a"]["description"]) == ("An A.", "Its a.")
        listed = model('schema A:\n    a: (int @min(1) "One.")[] "All."\n').model_json_schema()
        assert listed["properties"]["a"]["items"] == {"type": "integer", "minimum": 1, "description": "One."}

    def test_names_that_are_no_python_identifiers_are_aliases(self) -> None:
        names = ["object-entity", "class", "_a", "model_config", "model_dump", "json", "object_entity", "1st"]
        text = "".join(f'    "{name}": int\n' for name in names)
        kind = model(f"schema A-1:\n{text}")
        value = {name: number for number, name in enumerate(names)}
        assert kind.model_validate(value).model_dump() == value
        assert list(kind.model_json_schema()["properties"]) == names

    def test_schema_whose_base_or_reference_is_missing_is_an_error(self) -> None:
        text = "schema A:\n    x: int\nschema B extends A:\n    a: A\n"
        with pytest.raises(LanguageError, match="A"):
            schema_to_pydantic(schemas(text)["B"])

    def test_schemas_that_refer_to_each_other_are_made_once(self) -> None:
        workflow = Workflow.load(circle(20), Script())
        assert len(workflow.schemas) == 20
        assert workflow.schemas["S0"] is workflow.schemas["S0"]

    async def test_hundred_schemas_in_a_circle_can_be_asked_for(self) -> None:
        script = Script(ScriptedAnswer('{"next": {}}'))
        workflow = Workflow.load(circle(100) + 'prompt p expecting S0: "?"\n', script)
        assert await workflow.call_llm("p") == {"next": {"next": None}}

    def test_circle_of_schemas_too_long_for_pydantic_is_a_config_error(self) -> None:
        first, *others = (
            SchemaDef(f"S{n}", (SchemaField("next", Optional(Name(f"S{(n + 1) % 500}"))),))
            for n in range(500)
        )
        with pytest.raises(ConfigError, match="Pydantic cannot make models of these schemas"):
            schema_to_pydantic(first, others)

    async def test_workflow_needs_pydantic_only_for_its_models(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "pydantic", None)
        script = Script(ScriptedAnswer('{"n": 1}'))
        workflow = Workflow.load('schema A:\n    n: int\nprompt p expecting A: "?"\n', script)
        assert await workflow.call_llm("p") == {"n": 1}
        with pytest.raises(ConfigError, match="need the extra `pydantic`"):
            workflow.output_schema("p")

    @pytest.mark.parametrize("text", ['(int "A count.")[]', "(string @length(1, 20))[]"])
    def test_only_types_with_constraints_or_descriptions_need_pydantic(
        self, text: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "pydantic", None)
        assert type_expr_to_python_type(type_of("int[]")) == list[int]
        with pytest.raises(ConfigError, match="need the extra `pydantic`: pip install"):
            type_expr_to_python_type(type_of(text))

    def test_output_schema_is_the_type_that_a_prompt_expects(self) -> None:
        workflow = Workflow.load(
            'schema A:\n    a: int\nprompt one expecting A: "?"\nprompt many expecting A[]: "?"\n'
            'prompt maybe expecting A?: "?"\nprompt text: "?"\n',
            Script(),
        )
        kind = workflow.schemas["A"]
        assert workflow.output_schema("one") is kind
        assert workflow.output_schema("many") == list[kind]  # type: ignore[valid-type]
        assert workflow.output_schema("maybe") == kind | None
        assert workflow.output_schema("text") is None

    @pytest.mark.parametrize(
        "fields",
        [
            "a: int @min(1)",
            'a: string @length(1, 3) @pattern("x")',
            'a: string @format("email") "Where to write to."',
            "a: float @above(0) @multiple(0.5)",
            'a: "x" | "y" = "x"',
            "a: 1 | 2",
            "a: string | int",
            "a: (string | int)?",
            "a: string[] @unique @length(1, any)",
            "a: map[bytes[]]",
            "a: A[]?",
            "object-entity: bool",
            *(f"a: {name}" for name in DSL_TYPE_MAP if name != "null"),
        ],
    )
    def test_model_has_the_same_contract_as_the_text(self, fields: str) -> None:
        text = f"schema B:\n    next: C?\nschema C:\n    of: B | C\nschema A extends B:\n    {fields}\n"
        options: Any = {"extra": "ignore", "coerce": True, "fences": "one"}
        of_text, of_model = Contract.language(text, **options)["A"], Contract.of(model(text), **options)
        assert of_text.fingerprint == of_model.fingerprint
        assert of_text.instructions() == of_model.instructions()

    @pytest.mark.parametrize(
        "value",
        [{"a": 1, "b": "x"}, {"a": "7"}, {"a": 0}, {"a": 1, "b": None}, {"a": 1, "b": 2}, {}, [], {"a": 1.5}],
    )
    def test_contracts_of_text_and_model_give_the_same_verdict(self, value: Any) -> None:
        text = "schema A:\n    a: int @min(1)\n    b: string?\n"
        kind = model(text)
        options: Any = {"extra": "ignore", "coerce": True}
        of_text = Contract.language(text, **options)["A"].accepts(value)
        assert of_text is Contract.of(kind, **options).accepts(value)


class Review(BaseModel):
    approved: bool
    score: float | None = None


class ByHand(Workflow):
    """As the seed's compiler writes it."""

    _schemas = {"Review": Review}  # noqa: RUF012
    _prompts = {  # noqa: RUF012
        "review": PromptSpec(body=lambda ctx: f"Review {ctx['code']}.", schema="Review"),
        "reviews": PromptSpec(body=lambda ctx: "Review all.", schema="Review[]", model="gemma"),
        "talk": PromptSpec(body=lambda ctx: "Talk.", escalation=EscalationSpec("contains", "help")),
    }


class TestByHand:
    async def test_handwritten_workflow_asks_and_answers_as_one_of_a_text(self) -> None:
        script = Script(ScriptedAnswer("{}"), ScriptedAnswer('{"approved": "true", "more": 1}'))
        assert await ByHand(script).call_llm("review", code="x") == {"approved": True, "score": None}
        assert script.calls[0].messages[0].text.startswith("Review x.\n\nIMPORTANT: You MUST respond with")
        assert script.calls[1].messages[2].text.startswith("Error: Schema validation failed for 'Review': ")

    async def test_error_of_a_list_names_the_element_and_the_schema(self) -> None:
        script = Script(ScriptedAnswer('[{"approved": true}, {"approved": "perhaps"}]'))
        with pytest.raises(SchemaValidationError, match=r"'Review\[\]': /1/approved") as raised:
            await ByHand(script).call_llm("reviews")
        assert len(script.calls) == MAX_SCHEMA_RETRIES
        assert script.calls[0].config.model == "gemma"
        assert raised.value.errors[0].startswith("/1/approved")

    async def test_error_of_a_validator_is_a_schema_validation_error(self) -> None:
        class Even(BaseModel):
            n: int

            @field_validator("n")
            @classmethod
            def even(cls, n: int) -> int:
                if n % 2:
                    raise ValueError("not even")
                return n

        class Numbers(Workflow):
            _schemas = {"Even": Even}  # noqa: RUF012
            _prompts = {"p": PromptSpec(body=str, schema="Even[]")}  # noqa: RUF012

        with pytest.raises(SchemaValidationError, match=r"'Even\[\]': /1/n: not even") as raised:
            await Numbers(Script(ScriptedAnswer('[{"n":2}, {"n":3}]'))).call_llm("p")
        assert raised.value.raw_response == '[{"n":2}, {"n":3}]'
        assert raised.value.outcome is not None
        assert raised.value.usage == raised.value.outcome.calls[0].usage

    async def test_handwritten_workflow_escalates_texts(self) -> None:
        workflow = ByHand(Script(ScriptedAnswer("I need help.")), on_escalation=lambda event: event.why)
        assert await workflow.call_llm("talk") == "condition"

    def test_output_schema_of_a_handwritten_workflow_is_its_model(self) -> None:
        workflow = ByHand(Script())
        assert workflow.schemas["Review"] is workflow.output_schema("review") is Review
        assert workflow.output_schema("reviews") == list[Review]

    def test_handwritten_workflow_with_a_missing_schema_is_an_error_at_once(self) -> None:
        class Wrong(Workflow):
            _schemas = {"Review": Review}  # noqa: RUF012
            _prompts = {"p": PromptSpec(body=str, schema="Reviews")}  # noqa: RUF012

        with pytest.raises(PromptError, match="prompt p: unknown schema, did you mean"):
            Wrong(Script())


def test_exceptions_of_the_seed_can_be_made_as_it_makes_them() -> None:
    parse_error = JSONParseError(raw_response="x", parse_error="no JSON")
    assert (parse_error.raw_response, parse_error.parse_error) == ("x", "no JSON")
    assert str(parse_error) == "Failed to parse JSON from response: no JSON"
    cause = StructuredOutputInvalid("no JSON", output_content="the whole answer")
    assert JSONParseError("x", "no JSON", cause=cause).output_content == "the whole answer"
    invalid = SchemaValidationError(schema_name="M", errors=["a", "b"], raw_response="{}")
    assert (invalid.schema_name, invalid.errors, invalid.raw_response) == ("M", ["a", "b"], "{}")
    assert str(invalid) == "Schema validation failed for 'M': a; b"
    for error in (parse_error, invalid):
        assert isinstance(error, StructuredOutputInvalid)
        assert error.output_content == error.raw_response
        assert json.dumps(error.error_message)
