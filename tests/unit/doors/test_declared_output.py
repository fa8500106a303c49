"""Answers to prompts in sections as instances of what was declared; and the refusals."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, Optional
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, field_validator

from trustgraph_prompt import Prompt, Reason, StructuredOutputInvalid, parse_structured_output
from trustgraph_prompt.doors import OutputParseError, RenderedPrompt, StructuredOutputConfig


@dataclass
class Summary:
    title: str
    gist: str
    url: str | None = None


@dataclass
class SearchResult:
    title: str
    url: str
    score: float


class Colour(Enum):
    RED = "red"
    FIRST = 1


@dataclass
class Cat:
    kind: Literal["cat"]
    lives: int


@dataclass
class Dog:
    kind: Literal["dog"]
    name: str


@dataclass
class Home:
    street: str
    number: int


@dataclass
class Everything:
    count: int = 0
    ratio: float = 0.0
    flag: bool = False
    text: str = ""
    maybe_count: Optional[int] = 0  # noqa: UP045
    maybe_text: str | None = ""
    maybe_flag: bool | None = False
    home: Home | None = None
    homes: list[Home] = field(default_factory=list)
    grid: list[list[int]] = field(default_factory=list)
    either: int | str = 0
    pet: Cat | Dog | None = None
    pets: list[Cat | Dog] = field(default_factory=list)
    colour: Colour = Colour.RED
    choice: Literal["a", 2] = "a"
    price: Decimal = Decimal(0)
    moment: datetime | None = None
    day: date | None = None
    id: UUID | None = None
    counts: dict[str, int] = field(default_factory=dict)
    pair: tuple[int, str] = (0, "")
    internal: int = field(default=7, init=False)


def rendered(declared: Any, **settings: Any) -> RenderedPrompt[Any]:
    result: RenderedPrompt[Any] = Prompt[declared](ns="tests", key="k", **settings).render()
    return result


ONE = rendered(Summary)
MANY = rendered(list[Summary])
ALL = rendered(Everything)

CHALK = '{"title": "Chalk", "gist": "a soft rock"}'
FLINT = '{"title": "Flint", "gist": "a hard one"}'


def refusal(text: Any, prompt: RenderedPrompt[Any]) -> OutputParseError:
    with pytest.raises(OutputParseError) as refused:
        parse_structured_output(text, prompt)
    return refused.value


@pytest.mark.parametrize(
    "text",
    [
        CHALK,
        f"\ufeff  {CHALK}\r\n",
        f"```json\n{CHALK}\n```",
        f"```JSON\r\n{CHALK}\r\n```",
        f"Sure:\n```json\n{CHALK}\n```\nAnything else?",
        f"```\n{CHALK}\n```",
        f"[oops]{CHALK}",
        f"As [1] and {{this}} say: {CHALK}",
        f"{CHALK} or {FLINT}",
        f"<think>{FLINT}</think>{CHALK}",
        '{"title": "Flint", "title": "Chalk", "gist": "a soft rock", "url": "null"}',
    ],
)
def test_object_is_found_wherever_the_answer_has_it(text: str) -> None:
    assert parse_structured_output(text, ONE) == Summary("Chalk", "a soft rock")


@pytest.mark.parametrize(
    "text",
    [f"[{CHALK}, {FLINT}]", f'{{"items": [{CHALK}, {FLINT}]}}', f"```json\n[{CHALK},\n{FLINT}]\n```"],
)
def test_list_is_an_array_or_the_items_of_an_object(text: str) -> None:
    assert parse_structured_output(text, MANY) == [
        Summary("Chalk", "a soft rock"),
        Summary("Flint", "a hard one"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        f"Where there is nothing I would write []. There is: [{CHALK}]",
        f"- [x] read\n- [ ] write\n[{CHALK}]",
        f'{{"items": []}} or {{"items": [{CHALK}]}}',
        f"[{CHALK}] and not []",
    ],
)
def test_filled_list_goes_before_an_empty_one(text: str) -> None:
    assert parse_structured_output(text, MANY) == [Summary("Chalk", "a soft rock")]


@pytest.mark.parametrize("text", ["[]", '{"items": []}', "```json\n[]\n```", "Nothing: []", "[] or [ ]"])
def test_list_may_be_empty(text: str) -> None:
    assert parse_structured_output(text, MANY) == []


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("count", "123", 123),
        ("count", " -7 ", -7),
        ("count", 3.0, 3),
        ("count", 10**30, 10**30),
        ("ratio", "3.14", 3.14),
        ("ratio", 3, 3.0),
        ("flag", "TRUE", True),
        ("flag", "false", False),
        ("text", "null", "null"),
        ("text", "5", "5"),
        ("maybe_count", "None", None),
        ("maybe_count", "5", 5),
        ("maybe_text", "null", None),
        ("maybe_flag", "NULL", None),
        ("maybe_flag", "True", True),
        ("home", {"street": "A", "number": "5"}, Home("A", 5)),
        ("home", "none", None),
        ("homes", [{"street": "A", "number": 5}], [Home("A", 5)]),
        ("grid", [["1"], [], [2, 3]], [[1], [], [2, 3]]),
        ("either", "5", "5"),
        ("either", 5, 5),
        ("pet", {"kind": "cat", "lives": "9"}, Cat("cat", 9)),
        (
            "pets",
            [{"kind": "dog", "name": "5"}, {"kind": "cat", "lives": 1}],
            [Dog("dog", "5"), Cat("cat", 1)],
        ),
        ("colour", "red", Colour.RED),
        ("colour", "1", Colour.FIRST),
        ("choice", "2", 2),
        ("price", "1.10", Decimal("1.10")),
        ("price", 5, Decimal(5)),
        ("moment", "2024-05-01T10:00:00Z", datetime(2024, 5, 1, 10, tzinfo=UTC)),
        ("day", "2024-02-29", date(2024, 2, 29)),
        ("id", "12345678-1234-5678-1234-567812345678", UUID("12345678-1234-5678-1234-567812345678")),
        ("counts", {"a": "1"}, {"a": 1}),
        ("pair", ["1", "x"], (1, "x")),
    ],
)
def test_field_is_built_with_its_declared_type(name: str, value: Any, expected: Any) -> None:
    built = parse_structured_output(json.dumps({name: value}), ALL)
    assert built == Everything(**{name: expected})
    assert type(getattr(built, name)) is type(expected)


@pytest.mark.parametrize(
    ("name", "value", "path"),
    [
        ("count", 3.9, "/count"),
        ("count", "3.0", "/count"),
        ("count", True, "/count"),
        ("count", "1_000", "/count"),
        ("count", "٣", "/count"),
        ("count", "", "/count"),
        ("count", None, "/count"),
        ("count", "null", "/count"),
        ("ratio", "nan", "/ratio"),
        ("ratio", True, "/ratio"),
        ("flag", 1, "/flag"),
        ("flag", "yes", "/flag"),
        ("text", 5, "/text"),
        ("text", {"a": 1}, "/text"),
        ("maybe_count", "", "/maybe_count"),
        ("home", {"street": "A"}, "/home"),
        ("home", {"street": "A", "number": 5, "flat": 2}, "/home"),
        ("homes", [{"street": "A", "number": 5}, {"street": "B", "number": "x"}], "/homes/1/number"),
        ("homes", {"street": "A", "number": 5}, "/homes"),
        ("grid", [[1], ["x"]], "/grid/1/0"),
        ("grid", "5", "/grid"),
        ("pet", {"kind": "dog", "lives": 9}, "/pet"),
        ("pet", {"kind": "cow"}, "/pet/kind"),
        ("colour", "RED", "/colour"),
        ("choice", "b", "/choice"),
        ("price", "cheap", "/price"),
        ("moment", "2024-05-01", "/moment"),
        ("day", "2024-02-30", "/day"),
        ("id", "me", "/id"),
        ("counts", {"a/b": "x"}, "/counts/a~1b"),
        ("internal", 5, ""),
    ],
)
def test_value_that_cannot_be_converted_without_loss_is_refused(name: str, value: Any, path: str) -> None:
    error = refusal(json.dumps({name: value}), ALL)
    assert error.path == path
    assert error.dataclass_type is Everything
    assert error.message.startswith(f"{path}: " if path else "unexpected")


class TestRefusal:
    def test_prompt_without_declared_output_is_refused_before_reading(self) -> None:
        plain: Any = Prompt(ns="tests", key="plain").render()
        error = refusal("no JSON", plain)
        assert error.message == "Prompt does not declare structured output."
        assert error.dataclass_type is None
        assert error.output_content == "no JSON"

    @pytest.mark.parametrize("container", ["", "list", None, 5])
    def test_unknown_container_is_refused_before_reading(self, container: Any) -> None:
        assert ONE.structured_output is not None
        corrupted = replace(ONE, structured_output=replace(ONE.structured_output, container=container))
        error = refusal(CHALK, corrupted)
        assert error.message.startswith("Unknown output container declared")
        assert error.dataclass_type is Summary

    def test_type_that_no_prompt_would_declare_is_a_parse_error_too(self) -> None:
        corrupted: RenderedPrompt[Any] = RenderedPrompt("", StructuredOutputConfig(complex, "object"))
        assert "complex" in refusal("5", corrupted).message

    @pytest.mark.parametrize("text", [None, 5, b"{}", {"title": "t"}])
    def test_answer_that_is_no_text_is_refused(self, text: Any) -> None:
        assert refusal(text, ONE).message == f"expected the text of an answer, found {type(text).__name__}"

    def test_refusal_has_all_issues_and_the_answer(self) -> None:
        text = 'So: {"title": 5, "url": "x", "more": 1}'
        error = refusal(text, ONE)
        assert {(issue.reason, issue.path) for issue in error.issues} == {
            (Reason.SCHEMA_MISSING_FIELD, ""),
            (Reason.SCHEMA_TYPE_ERROR, "/title"),
            (Reason.SCHEMA_EXTRA_FIELD, ""),
        }
        assert error.output_content == text
        assert error.index is None
        assert isinstance(error, StructuredOutputInvalid)
        assert error.outcome is not None
        assert isinstance(error.response_schema, dict)

    @pytest.mark.parametrize(
        "text", ["", "   ", "I cannot say.", "{title: Chalk}", '{"title": "Chalk"', "[[[[", "{}" * 30_000]
    )
    def test_answer_without_an_object_is_refused(self, text: str) -> None:
        error = refusal(text, ONE)
        assert (error.dataclass_type, error.output_content) == (Summary, text)

    @pytest.mark.parametrize("text", [f"[{CHALK}]", "42", '"Chalk"', "null", f'{{"items": [{CHALK}]}}'])
    def test_other_container_than_an_object_is_refused(self, text: str) -> None:
        assert refusal(text, ONE).issues

    @pytest.mark.parametrize(
        "text", [CHALK, "42", f'{{"results": [{CHALK}]}}', f"{CHALK}\n{FLINT}", f"[[{CHALK}]]"]
    )
    def test_other_container_than_an_array_is_refused(self, text: str) -> None:
        assert refusal(text, MANY).issues

    @pytest.mark.parametrize(
        ("text", "index", "path"),
        [
            (f"[{CHALK}, 5]", 1, "/1"),
            (f"[{CHALK}, {CHALK}, []]", 2, "/2"),
            (f'{{"items": [{CHALK}, null]}}', 1, "/items/1"),
            (f'[{CHALK}, {{"title": 5, "gist": "g"}}]', 1, "/1/title"),
            (f'{{"items": [{{"title": "t"}}, {CHALK}]}}', 0, "/items/0"),
        ],
    )
    def test_refusal_of_an_element_has_its_index(self, text: str, index: int, path: str) -> None:
        error = refusal(text, MANY)
        assert (error.index, error.path, error.dataclass_type) == (index, path, Summary)
        assert f"/{index}" in error.message

    def test_refusal_of_an_object_has_no_index_whatever_its_fields_are_called(self) -> None:
        @dataclass
        class Listing:
            items: list[int]

        error = refusal('{"items": [1, "x"]}', rendered(Listing))
        assert (error.index, error.path) == (None, "/items/1")

    def test_refusal_of_a_missing_value_names_the_field(self) -> None:
        error = refusal('{"title": "t"}', ONE)
        assert "gist" in error.message
        assert error.issues[0].reason is Reason.SCHEMA_MISSING_FIELD


class TestExtraKeys:
    TEXT = CHALK.replace("}", ', "more": {"a": 1}}')

    def test_extra_keys_are_refused(self) -> None:
        error = refusal(self.TEXT, ONE)
        assert "more" in error.message
        assert error.issues[0].reason is Reason.SCHEMA_EXTRA_FIELD

    def test_extra_keys_are_ignored_on_request_also_in_nested_objects(self) -> None:
        allowing = rendered(Summary, allow_extra_keys=True)
        assert parse_structured_output(self.TEXT, allowing) == Summary("Chalk", "a soft rock")
        within = rendered(Everything, allow_extra_keys=True)
        text = '{"homes": [{"street": "A", "number": 5, "flat": 2}]}'
        assert parse_structured_output(text, within).homes == [Home("A", 5)]
        beside = f'{{"total": 1, "items": [{self.TEXT}]}}'
        assert len(parse_structured_output(beside, rendered(list[Summary], allow_extra_keys=True))) == 1
        assert refusal(beside, MANY).dataclass_type is Summary


class Report(BaseModel):
    model_config = ConfigDict(extra="allow")

    title: str
    pages: int = 1
    home: Home | None = None

    @field_validator("pages")
    @classmethod
    def some(cls, pages: int) -> int:
        if pages < 1:
            raise ValueError("a report has pages")
        return pages


class TestModel:
    PROMPT = rendered(Report)

    def test_pydantic_model_is_built_with_converted_values(self) -> None:
        text = '```json\n{"title": "T", "pages": "12", "home": {"street": "A", "number": 5}}\n```'
        assert parse_structured_output(text, self.PROMPT) == Report(title="T", pages=12, home=Home("A", 5))

    @pytest.mark.parametrize("pages", [True, 3.9, "3.0", None, "x"])
    def test_pydantic_model_refuses_lossy_conversions(self, pages: Any) -> None:
        assert refusal(json.dumps({"title": "T", "pages": pages}), self.PROMPT).path == "/pages"

    def test_pydantic_model_is_as_strict_about_extra_keys_as_the_prompt(self) -> None:
        text = '{"title": "T", "more": 1}'
        assert refusal(text, self.PROMPT).issues[0].reason is Reason.SCHEMA_EXTRA_FIELD
        assert parse_structured_output(text, rendered(Report, allow_extra_keys=True)) == Report(title="T")

    def test_refusal_has_the_message_of_a_validator(self) -> None:
        error = refusal('[{"title": "T"}, {"title": "T", "pages": 0}]', rendered(list[Report]))
        assert (error.index, error.path, error.message) == (1, "/1/pages", "/1/pages: a report has pages")
        assert error.output_content.endswith('"pages": 0}]')
