"""Contracts from dataclasses: their schema, what becomes of values, what cannot be described."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field, make_dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, ClassVar, Generic, Literal, Optional, TypeVar, Union
from uuid import UUID

import pydantic
import pytest
from annotated_types import Gt, Interval, Len, MinLen, Predicate

from trustgraph_prompt import Contract, read
from trustgraph_prompt.contract import Limits
from trustgraph_prompt.errors import ContractError, Issue, Reason, StructuredOutputInvalid
from trustgraph_prompt.llm.openai.strict_schema import is_strict

T = TypeVar("T")


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Grade(IntEnum):
    GOOD = 1
    BAD = 2


@dataclass
class Summary:
    title: str
    gist: str
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Cited:
    """Where something was read."""

    kind: Literal["cited"]
    page: int = field(metadata={"description": "Counted from 1."})

    def __post_init__(self) -> None:
        if self.page < 1:
            raise ValueError("pages are counted from 1")


@dataclass(frozen=True, slots=True)
class Heard:
    kind: Literal["heard"]
    who: str


@dataclass
class Node:
    name: str
    children: list[Node] = field(default_factory=list)


@dataclass
class Link:
    next: Link | None = None


@dataclass
class Everything:
    flag: bool
    count: int
    ratio: float
    word: str
    nothing: None
    anything: Any
    moment: datetime
    day: date
    clock: time
    key: UUID
    price: Decimal
    content: bytes
    colour: Colour
    grade: Grade
    size: Literal["s", "m", 3]
    source: Cited | Heard | int
    words: list[str]
    rows: list[list[float]]
    pair: tuple[int, str]
    days: tuple[date, ...]
    tags: set[str]
    more: frozenset[Grade]
    sequence: Sequence[Colour]
    ages: dict[str, int]
    sources: Mapping[str, Cited]
    loose: dict  # type: ignore[type-arg]
    optional: Optional[Heard]  # noqa: UP045
    union: Union[int, str, None]  # noqa: UP007


EVERYTHING: dict[str, Any] = {
    "flag": True,
    "count": 3.0,
    "ratio": 2,
    "word": "w",
    "nothing": None,
    "anything": {"a": [1]},
    "moment": "2026-11-21T09:30:00Z",
    "day": "2026-11-21",
    "clock": "09:30:00Z",
    "key": "12345678-1234-5678-1234-567812345678",
    "price": "12.50",
    "content": "Tm90IHRoaXM=",
    "colour": "blue",
    "grade": 2,
    "size": 3,
    "source": {"kind": "heard", "who": "a bird"},
    "words": ["a"],
    "rows": [[1, 2.5], []],
    "pair": [1, "one"],
    "days": ["2026-01-01"],
    "tags": ["a", "b"],
    "more": [1],
    "sequence": ["red"],
    "ages": {"Ada": 36},
    "sources": {"a": {"kind": "cited", "page": 3}},
    "loose": {"x": 1},
    "optional": None,
    "union": "x",
}


def refusal(contract: Contract, value: Any) -> tuple[Issue, ...]:
    """What is wrong with a value that the schema accepts."""
    assert contract.accepts(value)
    with pytest.raises(StructuredOutputInvalid) as error:
        contract.build(value)
    return error.value.issues


def test_schema_of_a_dataclass_is_an_object_of_its_fields_in_their_order() -> None:
    contract = Contract.of(Summary)
    assert contract.schema == {
        "title": "Summary",
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "gist": {"type": "string"},
            "url": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        },
        "required": ["title", "gist"],
        "additionalProperties": False,
    }
    assert isinstance(contract.schema, dict)
    assert list(contract.schema["properties"]) == ["title", "gist", "url"]
    assert (contract.name, contract.format, contract.many) == ("Summary", "json", False)


def test_accepted_object_becomes_an_instance() -> None:
    outcome = read('{"title": "T", "gist": "G"}', contract := Contract.of(Summary))
    assert contract.build(outcome.unwrap()) == Summary("T", "G")


def test_list_type_asks_for_many_and_becomes_a_list_of_instances() -> None:
    contract = Contract.of(list[Summary])
    assert contract.many
    assert contract.schema == Contract.of(Summary).schema
    outcome = read('[{"title": "T", "gist": "G"}, {"title": "U", "gist": "H"}]', contract)
    assert contract.build(outcome.unwrap()) == [Summary("T", "G"), Summary("U", "H")]


@pytest.mark.parametrize("type", [Summary, list[Summary]])
def test_each_object_of_a_jsonl_answer_becomes_an_instance(type: Any) -> None:
    contract = Contract.of(type, format="jsonl")
    outcome = read('{"title": "T", "gist": "G"}\n{"title": 1}\n', contract)
    assert [contract.build(value) for value in outcome.objects] == [Summary("T", "G")]
    assert len(outcome.rejected) == 1


@pytest.mark.parametrize("type", [Summary, list[Summary]])
@pytest.mark.parametrize("format", ["json", "jsonl"])
@pytest.mark.parametrize("text", ['{"title": "T", "gist": "G"}', '[{"title": "T", "gist": "G"}]'])
def test_value_that_was_read_can_be_built(type: Any, format: Any, text: str) -> None:
    outcome = read(text, contract := Contract.of(type, format=format))
    if outcome.ok:
        summary = Summary("T", "G")
        assert contract.build(outcome.value) == ([summary] if contract.many else summary)
    else:
        assert (format, contract.many) == ("json", text.startswith("{"))


def test_refused_object_of_a_list_is_named_by_its_place() -> None:
    contract = Contract.of(Cited, format="jsonl")
    with pytest.raises(StructuredOutputInvalid) as caught:
        contract.build([{"kind": "cited", "page": 1}, {"kind": "cited", "page": 0}])
    assert [issue.path for issue in caught.value.issues] == ["/1"]


def test_contract_without_a_type_builds_the_plain_value() -> None:
    value = {"a": 1}
    assert Contract.from_schema({"type": "object"}).build(value) is value


def test_every_type_of_field_is_accepted_and_built() -> None:
    contract = Contract.of(Everything)
    assert contract.issues(EVERYTHING) == ()
    built = contract.build(EVERYTHING)
    assert built == Everything(
        flag=True,
        count=3,
        ratio=2.0,
        word="w",
        nothing=None,
        anything={"a": [1]},
        moment=datetime(2026, 11, 21, 9, 30, tzinfo=UTC),
        day=date(2026, 11, 21),
        clock=time(9, 30, tzinfo=UTC),
        key=UUID("12345678-1234-5678-1234-567812345678"),
        price=Decimal("12.50"),
        content=b"Not this",
        colour=Colour.BLUE,
        grade=Grade.BAD,
        size=3,
        source=Heard("heard", "a bird"),
        words=["a"],
        rows=[[1.0, 2.5], []],
        pair=(1, "one"),
        days=(date(2026, 1, 1),),
        tags={"a", "b"},
        more=frozenset({Grade.GOOD}),
        sequence=[Colour.RED],
        ages={"Ada": 36},
        sources={"a": Cited("cited", 3)},
        loose={"x": 1},
        optional=None,
        union="x",
    )
    assert (type(built.count), type(built.ratio), str(built.price)) == (int, float, "12.50")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("flag", 1),
        ("count", True),
        ("count", 1.5),
        ("ratio", "1"),
        ("word", 1),
        ("nothing", 0),
        ("moment", "yesterday"),
        ("day", "2026-02-30"),
        ("clock", "25:00:00Z"),
        ("key", "no-uuid"),
        ("price", "12,50"),
        ("price", "NaN"),
        ("colour", "RED"),
        ("grade", True),
        ("size", "l"),
        ("source", {"kind": "seen", "who": "a bird"}),
        ("words", "a"),
        ("pair", [1]),
        ("pair", [1, "one", 2]),
        ("pair", ["one", 1]),
        ("days", [1]),
        ("tags", ["a", "a"]),
        ("ages", {"Ada": "36"}),
        ("optional", 1),
        ("union", 1.5),
        ("unknown", 1),
    ],
)
def test_value_of_another_type_is_refused_where_it_stands(field: str, value: object) -> None:
    issues = Contract.of(Everything).issues({**EVERYTHING, field: value})
    assert issues
    assert all(issue.path.startswith(f"/{field}") or field == "unknown" for issue in issues)


@pytest.mark.parametrize(
    ("annotation", "says", "good", "bad"),
    [
        (Annotated[int, Gt(5)], {"exclusiveMinimum": 5}, 6, 5),
        (Annotated[float, Interval(ge=0, lt=1)], {"minimum": 0, "exclusiveMaximum": 1}, 0, 1),
        (Annotated[int, pydantic.Field(le=5, multiple_of=2)], {"maximum": 5, "multipleOf": 2}, 4, 3),
        (Annotated[str, Len(1, 2)], {"minLength": 1, "maxLength": 2}, "a", "abc"),
        (Annotated[str, pydantic.Field(pattern="^a", description="D")], {"pattern": "^a"}, "ab", "b"),
        (Annotated[tuple[int, ...], MinLen(2)], {"minItems": 2}, [1, 2], [1]),
        (Annotated[dict[str, int], MinLen(1)], {"minProperties": 1}, {"a": 1}, {}),
        (tuple[()], {"maxItems": 0}, [], [1]),
    ],
)
def test_bounds_in_annotations_are_in_the_schema(
    annotation: Any, says: dict[str, Any], good: object, bad: object
) -> None:
    contract = Contract.of(list[make_dataclass("Bounded", [("x", annotation)])])  # type: ignore[misc]
    assert isinstance(contract.schema, dict)
    assert says.items() <= contract.schema["properties"]["x"].items()
    assert contract.accepts([{"x": good}])
    assert not contract.accepts([{"x": bad}])


@pytest.mark.parametrize(
    ("annotation", "metadata", "good", "bad"),
    [
        (int, {"ge": 0}, 0, -1),
        (int, {"gt": 0, "le": 9}, 9, 0),
        (float, {"exclusiveMaximum": 1}, 0.5, 1),
        (Annotated[int, Gt(0)], {"le": 9}, 9, 10),
        (str, {"min_length": 1, "unit": "m", 1: 2}, "a", ""),
        (str, {"format": "email"}, "a@example.org", "a"),
        (list[int], {"max_length": 1}, [1], [1, 2]),
        (list[int], {"uniqueItems": True}, [1], [1, 1]),
    ],
)
def test_bounds_in_the_metadata_of_a_field_hold(
    annotation: Any, metadata: dict[Any, Any], good: object, bad: object
) -> None:
    contract = Contract.of(make_dataclass("Bounded", [("x", annotation, field(metadata=metadata))]))
    assert contract.accepts({"x": good})
    assert not contract.accepts({"x": bad})


def test_other_annotations_and_metadata_are_no_bounds() -> None:
    noted, plain = (make_dataclass("A", [("x", one)]) for one in (Annotated[int, "in metres"], int))
    assert Contract.of(noted).schema == Contract.of(plain).schema
    unit = make_dataclass("A", [("x", int, field(metadata={"unit": "m", "ge": None}))])
    assert Contract.of(unit).schema == Contract.of(plain).schema


def test_literal_is_built_as_it_is_written() -> None:
    contract = Contract.of(make_dataclass("A", [("x", Literal[1]), ("y", Literal[True, 0])]))
    built = contract.build(read('{"x": 1.0, "y": 0.0}', contract).unwrap())
    assert (repr(built.x), repr(built.y)) == ("1", "0")
    assert contract.build({"x": 1, "y": True}).y is True


def test_matching_branch_of_a_union_is_built() -> None:
    contract = Contract.of(list[Cited | Heard | int])
    value = [{"kind": "cited", "page": 1}, 7, {"kind": "heard", "who": "x"}]
    assert contract.build(value) == [Cited("cited", 1), 7, Heard("heard", "x")]


@dataclass
class Person:
    """Somebody."""

    name: str = field(metadata={"description": "As on the passport."})


@dataclass
class Place:
    name: str


@dataclass
class Town:
    name: str
    people: list[Person | Place | None]


@pytest.mark.parametrize(("type", "where"), [(list[Person | Place], "Person"), (Town, "Town.people: ")])
def test_union_with_two_classes_of_one_schema_is_refused(type: object, where: str) -> None:
    with pytest.raises(ContractError, match=r"have the same schema \(found \['Person', 'Place'\]") as error:
        Contract.of(type)
    assert where in str(error.value)
    assert Contract.of(Person | Cited | Heard | str | int).build("x") == "x"


def test_literal_field_is_the_discriminator_of_a_union_of_dataclasses() -> None:
    contract = Contract.of(list[Cited | Heard], format="jsonl")
    assert contract.discriminator == "kind"
    (issue,) = contract.issues({"kind": "heard", "who": 1})
    assert issue.path == "/who"


def test_dataclass_may_refer_to_itself() -> None:
    contract = Contract.of(Node)
    assert isinstance(contract.schema, dict)
    assert contract.schema["type"] == "object"
    value = {"name": "a", "children": [{"name": "b", "children": []}, {"name": "c"}]}
    assert contract.build(value) == Node("a", [Node("b"), Node("c")])
    (issue,) = contract.issues({"name": "a", "children": [{"name": "b", "children": [{"name": 1}]}]})
    assert issue.path == "/children/0/children/0/name"


def chain(length: int) -> dict[str, Any]:
    """A value that is nested `length` levels deep."""
    value: dict[str, Any] = {}
    for _ in range(length - 1):
        value = {"next": value}
    return value


def test_value_at_the_limit_of_depth_is_built() -> None:
    contract = Contract.of(Link)
    assert contract.accepts(chain(200))
    built = contract.build(chain(200))
    for _ in range(199):
        built = built.next
    assert built == Link()


def test_value_nested_too_deep_for_instances_is_refused() -> None:
    (issue,) = refusal(Contract.of(Link, limits=Limits(depth=1_000)), chain(900))
    assert issue.reason is Reason.SCHEMA_VALUE_ERROR


def test_each_class_is_defined_once_and_the_root_only_if_it_is_recursive() -> None:
    def definitions(type: Any) -> list[str]:
        schema = Contract.of(type).schema
        assert isinstance(schema, dict)
        return list(schema.get("$defs", {}))

    assert definitions(Summary) == []
    assert definitions(Node) == ["Node"]
    assert definitions(Everything) == ["Cited", "Colour", "Grade", "Heard"]


def test_two_classes_of_one_name_have_two_definitions() -> None:
    other = make_dataclass("Heard", [("what", str)])
    both = make_dataclass("Both", [("first", Heard), ("second", other)])
    contract = Contract.of(both)
    built = contract.build({"first": {"kind": "heard", "who": "x"}, "second": {"what": "y"}})
    assert (built.first, built.second) == (Heard("heard", "x"), other("y"))


def test_descriptions_and_docstrings_are_in_the_schema() -> None:
    schema = Contract.of(Cited).schema
    assert isinstance(schema, dict)
    assert schema["description"] == "Where something was read."
    assert schema["properties"]["page"] == {"type": "integer", "description": "Counted from 1."}


def test_class_variables_and_computed_fields_are_not_in_the_schema() -> None:
    @dataclass
    class Computed:
        constant: ClassVar[int] = 7
        words: str
        _: KW_ONLY
        unit: Colour = Colour.RED
        length: int = field(init=False)

        def __post_init__(self) -> None:
            self.length = len(self.words)

    contract = Contract.of(Computed)
    assert isinstance(contract.schema, dict)
    assert list(contract.schema["properties"]) == ["words", "unit"]
    assert contract.schema["properties"]["unit"]["default"] == "red"
    assert contract.build({"words": "four"}).length == 4


def test_class_local_to_a_function_may_refer_to_itself() -> None:
    @dataclass
    class Local:
        next: Local | None = None

    assert Contract.of(Local).build({"next": {"next": None}}) == Local(Local())


def test_errors_raised_by_a_class_are_issues_with_their_places() -> None:
    contract = Contract.of(list[Everything])
    wrong = {"kind": "cited", "page": 0}
    value = [EVERYTHING, {**EVERYTHING, "source": wrong, "sources": {"a/b": wrong}}]
    assert refusal(contract, value) == (
        Issue(Reason.INVARIANT_VIOLATION, "pages are counted from 1", "/1/source"),
        Issue(Reason.INVARIANT_VIOLATION, "pages are counted from 1", "/1/sources/a~1b"),
    )


def test_issues_raised_by_classes_are_bounded() -> None:
    contract = Contract.of(make_dataclass("Shelf", [("books", dict[str, list[Cited]])]))
    wrong = [{"kind": "cited", "page": 0}] * 10_000
    with pytest.raises(StructuredOutputInvalid) as error:
        contract.build({"books": {"a" * 100_000: wrong, "b": wrong}})
    assert len(error.value.issues) == 20
    assert len(str(error.value)) < 10_000


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("no"), "no"),
        (AssertionError(), "AssertionError"),
        (KeyError("no"), "KeyError: 'no'"),
        (ZeroDivisionError("no"), "ZeroDivisionError: no"),
    ],
)
def test_any_exception_of_a_class_is_an_invariant_violation(error: Exception, message: str) -> None:
    @dataclass
    class Moody:
        x: int

        def __post_init__(self) -> None:
            raise error

    contract = Contract.of(Moody)
    (issue,) = refusal(contract, {"x": 1})
    assert issue.reason is Reason.INVARIANT_VIOLATION
    assert issue.message == message
    with pytest.raises(StructuredOutputInvalid) as refused:
        contract.build({"x": 1})
    assert refused.value.response_schema == contract.schema
    assert refused.value.__cause__ is error


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        (datetime, "2016-12-31T23:59:60Z", 'expected a time, found "2016-12-31T23:59:60Z"'),
        (date, "0000-01-01", 'expected a date, found "0000-01-01"'),
        (float, 10**400, "expected a number that a float holds, found a huge integer"),
        (set[tuple[list[int], ...]], [[[1]]], "unhashable"),
    ],
)
def test_value_that_python_cannot_hold_is_refused(annotation: Any, value: object, message: str) -> None:
    (issue,) = refusal(Contract.of(make_dataclass("Held", [("x", annotation)])), {"x": value})
    assert (issue.reason, issue.path) == (Reason.SCHEMA_VALUE_ERROR, "/x")
    assert message in issue.message


def test_options_of_a_type_are_those_of_a_schema() -> None:
    contract = Contract.of(Summary, name="sum", extra="ignore", coerce=True, invariants=["title != gist"])
    value, accepted = contract.take({"title": "T", "gist": "G", "url": "null", "more": 1})
    assert accepted
    assert contract.build(value) == Summary("T", "G", None)
    assert contract.name == "sum"
    assert not contract.accepts({"title": "T", "gist": "T"})
    assert Contract.of(Summary, repair=True).repair


def test_extra_keys_and_coercion_apply_to_nested_objects() -> None:
    contract = Contract.of(list[Everything], extra="ignore", coerce=True)
    text = {"count": "3", "ratio": "2", "flag": "TRUE", "grade": "2", "optional": "none", "more": ["1"]}
    source = {"kind": "cited", "page": "7", "chapter": 2}
    value, accepted = contract.take([{**EVERYTHING, **text, "source": source, "unknown": 1}])
    assert accepted
    (built,) = contract.build(value)
    assert (built.count, built.flag, built.grade) == (3, True, Grade.BAD)
    assert (built.optional, built.more, built.source) == (None, {Grade.GOOD}, Cited("cited", 7))


def test_dataclass_without_defaults_is_strict() -> None:
    @dataclass
    class Strict:
        heard: Heard | None
        colours: list[Colour]
        price: Decimal
        moment: datetime

    schema = Contract.of(Strict).schema
    assert isinstance(schema, dict)
    assert is_strict(schema)


def test_equal_types_have_one_fingerprint_and_different_ones_two() -> None:
    assert Contract.of(Summary).fingerprint == Contract.of(Summary).fingerprint
    assert Contract.of(Summary).fingerprint == Contract.from_schema(Contract.of(Summary).schema).fingerprint
    assert Contract.of(Summary).fingerprint != Contract.of(Node).fingerprint
    assert Contract.of(Summary).fingerprint != Contract.of(list[Summary]).fingerprint


@dataclass
class Box(Generic[T]):
    content: T


@dataclass
class Unresolved:
    known: int
    gone: Nowhere  # type: ignore[name-defined]  # noqa: F821


@dataclass
class Wanting:
    x: int
    y: InitVar[int]


@pytest.mark.parametrize(
    ("type", "where", "found"),
    [
        (complex, "complex", "complex"),
        ("Summary", "Summary", "Summary"),
        (make_dataclass("A", [("x", bytearray)]), "A.x", "bytearray"),
        (make_dataclass("A", [("x", list[dict[str, complex]])]), "A.x", "complex"),
        (make_dataclass("A", [("x", dict[int, str])]), "A.x", "dict[int, str]"),
        (make_dataclass("A", [("x", Literal[b"a"])]), "A.x", "b'a'"),
        (make_dataclass("A", [("x", Enum("E", {"A": (1, 2)}))]), "E", "(1, 2)"),
        (make_dataclass("A", [("x", make_dataclass("B", [("y", object()), ("z", type)]))]), "B.y", "object"),
        *(
            (make_dataclass("A", [("x", annotation)]), "A.x", found)
            for annotation, found in (
                (Annotated[date, Gt(date(2020, 1, 1))], "gt does not apply to this type"),
                (Annotated[Decimal, Gt(5)], "gt does not apply"),
                (Annotated[int | None, Gt(5)], "gt does not apply"),
                (Annotated[int, MinLen(5)], "min_length does not apply"),
                (Annotated[int, Gt(5), Gt(3)], "gt is given twice"),
                (Annotated[int, Predicate(bool)], "func does not apply"),
                (list[Annotated[int, pydantic.Field(gt=5, alias="y")]], "alias does not apply"),
                (Annotated[int, [5]], "[5]"),
            )
        ),
        *(
            (make_dataclass("A", [("x", annotation, field(metadata=metadata))]), "A.x", found)
            for annotation, metadata, found in (
                (int | None, {"ge": 0}, "ge does not apply to this type"),
                (Decimal, {"max_digits": 5}, "max_digits does not apply"),
                (Summary, {"min_length": 1}, "min_length does not apply"),
                (Annotated[int, Gt(5)], {"exclusiveMinimum": 3}, "exclusiveMinimum is given twice"),
                (str, {"enum": ["a"]}, "enum does not apply"),
            )
        ),
        (
            make_dataclass("A", [("x", int, pydantic.Field(gt=5))]),
            "A.x",
            "Pydantic's Field is not a valid default",
        ),
        (Box, "Box.content", "~T"),
        (Box[int], "Box", "Box[int]"),
        (Unresolved, "Unresolved", "Nowhere"),
        (Wanting, "Wanting", "'x'"),
    ],
)
def test_type_without_a_json_schema_is_refused_by_name(type: Any, where: str, found: str) -> None:
    with pytest.raises(ContractError) as error:
        Contract.of(type)
    assert error.value.where == where
    assert found in str(error.value)
    assert "expected" in str(error.value)


def test_contract_of_a_dataclass_does_not_import_pydantic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "trustgraph_prompt.contract.types.pydantic_models", raising=False)
    monkeypatch.setitem(sys.modules, "pydantic", None)
    assert Contract.of(Node).build({"name": "a"}) == Node("a")
