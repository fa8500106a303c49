"""Contracts from Pydantic models: their own schema, their own validators."""

from __future__ import annotations

import dataclasses
import json
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, ClassVar, Generic, Literal, Self, TypeVar
from uuid import UUID

import pydantic
import pytest
from annotated_types import Gt, Len
from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    NaiveDatetime,
    field_validator,
    model_validator,
)

from trustgraph_prompt import Contract, read
from trustgraph_prompt.errors import ContractError, Issue, Reason, StructuredOutputInvalid

T = TypeVar("T")


class Unit(Enum):
    METRE = "m"


class Length(BaseModel):
    """How long something is."""

    number: Decimal = Field(description="In units.")
    unit: Unit = Unit.METRE


class Thing(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: str = Field(min_length=2, alias="thing-name")
    length: Length | None = None
    seen: datetime | None = None
    pair: tuple[int, str] = (0, "")


class Tree(BaseModel):
    name: str
    parts: list[Tree] = []


class Shown(BaseModel):
    shown: int
    total: int

    @field_validator("shown")
    @classmethod
    def not_three(cls, value: int) -> int:
        if value == 3:
            raise ValueError("three is never shown")
        if value == 4:
            raise RuntimeError("four breaks")
        return value

    @model_validator(mode="after")
    def total_is_enough(self) -> Self:
        if self.total < self.shown:
            raise ValueError("shows more than there is")
        return self


class Page(BaseModel):
    parts: list[Shown | Tree]


def refusal(contract: Contract, value: Any) -> tuple[Issue, ...]:
    """What is wrong with a value that the schema accepts."""
    assert contract.accepts(value)
    with pytest.raises(StructuredOutputInvalid) as error:
        contract.build(value)
    return error.value.issues


def test_schema_of_a_model_has_no_generated_titles_of_fields() -> None:
    assert Contract.of(Length).schema == {
        "title": "Length",
        "description": "How long something is.",
        "type": "object",
        "properties": {
            "number": {
                "type": ["number", "string"],
                "pattern": "^[+-]?[0-9]+(\\.[0-9]+)?([eE][+-]?[0-9]{1,3})?$",
                "description": "In units.",
            },
            "unit": {"$ref": "#/$defs/Unit", "default": "m"},
        },
        "required": ["number"],
        "$defs": {"Unit": {"type": "string", "enum": ["m"]}},
    }


def test_accepted_object_becomes_a_model() -> None:
    contract = Contract.of(Thing)
    value = '"length": {"number": "1.50"}, "seen": "2026-11-21T09:00:00Z", "pair": [1, "a"]'
    text = f'{{"thing-name": "rod", {value}}}'
    thing = contract.build(read(text, contract).unwrap())
    assert isinstance(thing, Thing)
    assert (thing.name, thing.pair) == ("rod", (1, "a"))
    assert thing.length == Length(number=Decimal("1.50"))
    assert contract.name == "Thing"


def test_list_of_models_asks_for_many() -> None:
    contract = Contract.of(list[Length])
    assert contract.build([{"number": 1}]) == [Length(number=Decimal(1))]


def test_model_that_refers_to_itself_is_an_object_at_the_root() -> None:
    contract = Contract.of(Tree)
    assert isinstance(contract.schema, dict)
    assert contract.schema["type"] == "object"
    assert list(contract.schema["$defs"]) == ["Tree"]
    assert contract.build({"name": "a", "parts": [{"name": "b"}]}) == Tree(name="a", parts=[Tree(name="b")])


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"thing-name": "x"}, "/thing-name"),
        ({"name": "rod"}, ""),
        ({"thing-name": "rod", "more": 1}, ""),
        ({"thing-name": "rod", "length": {"number": "long"}}, "/length/number"),
    ],
)
def test_constraints_of_a_model_decide_the_verdict(value: object, path: str) -> None:
    assert path in {issue.path for issue in Contract.of(Thing).issues(value)}


@pytest.mark.parametrize(
    ("value", "path", "message"),
    [
        ({"shown": 5, "total": 1}, "", "shows more than there is"),
        ({"shown": 3, "total": 9}, "/shown", "three is never shown"),
        ({"shown": 4, "total": 9}, "", "RuntimeError: four breaks"),
    ],
)
def test_errors_of_validators_are_issues_with_their_places(value: object, path: str, message: str) -> None:
    expected = Issue(Reason.INVARIANT_VIOLATION, message, path)
    assert refusal(Contract.of(Shown), value) == (expected,)


def test_issue_within_a_union_has_its_path_in_the_value() -> None:
    value = {"parts": [{"name": "a"}, {"shown": 3, "total": 9, "name": "b", "parts": [1]}]}
    contract = Contract.of(Page)
    issues = refusal(contract, value)
    assert Issue(Reason.INVARIANT_VIOLATION, "three is never shown", "/parts/1/shown") in issues


def test_value_that_a_model_cannot_hold_is_refused() -> None:
    (issue,) = refusal(Contract.of(Thing), {"thing-name": "rod", "seen": "0000-01-01T00:00:00Z"})
    assert (issue.reason, issue.path) == (Reason.SCHEMA_VALUE_ERROR, "/seen")


class Priced(BaseModel):
    price: Decimal = Field(gt=0, le=Decimal("99.5"), max_digits=3)


@pytest.mark.parametrize("price", ["-5", "0", "99.6"])
def test_bounds_of_a_decimal_are_in_the_schema(price: str) -> None:
    outcome = read(f'{{"price": {price}}}', Contract.of(Priced))
    assert [issue.path for issue in outcome.issues] == ["/price"]


@pytest.mark.parametrize(
    ("price", "message"),
    [("-5", "greater than 0"), ("100", "less than or equal to 99.5"), ("1.234", "no more than 3 digits")],
)
def test_bounds_of_a_decimal_that_a_schema_cannot_say_hold_when_it_is_built(price: str, message: str) -> None:
    (issue,) = refusal(Contract.of(Priced), {"price": price})
    assert message in issue.message
    assert (issue.reason, issue.path) == (Reason.SCHEMA_VALUE_ERROR, "/price")


def test_lone_surrogate_is_built_as_the_replacement_character() -> None:
    contract = Contract.of(Tree)
    value = read(r'{"name": "a \ud83d", "parts": []}', contract).unwrap()
    assert contract.build(value) == Tree(name="a \ufffd")


def test_models_and_dataclasses_may_contain_each_other() -> None:
    @dataclasses.dataclass
    class Wall:
        height: Length
        again: Length | None = None

    contract = Contract.of(Wall)
    assert isinstance(contract.schema, dict)
    assert list(contract.schema["$defs"]) == ["Length", "Unit"]
    assert contract.build({"height": {"number": 2}}) == Wall(Length(number=Decimal(2)))
    assert refusal(
        Contract.of(dataclasses.make_dataclass("Both", [("shown", Shown)])),
        {"shown": {"shown": 3, "total": 9}},
    ) == (Issue(Reason.INVARIANT_VIOLATION, "three is never shown", "/shown/shown"),)


def test_dataclass_within_a_model_has_the_same_schema_as_alone() -> None:
    @dataclasses.dataclass
    class Door:
        """A way in."""

        width: int = dataclasses.field(metadata={"description": "In centimetres."})

    class House(BaseModel):
        front: Door

    contract = Contract.of(dataclasses.make_dataclass("Street", [("house", House), ("gate", Door)]))
    assert contract.build({"house": {"front": {"width": 90}}, "gate": {"width": 300}}).gate == Door(300)
    assert not contract.accepts({"house": {"front": {"width": 90, "height": 1}}, "gate": {"width": 300}})


NAIVE = "2026-11-28T09:30:00"


@pytest.mark.parametrize(
    ("annotation", "takes", "refuses"),
    [
        (
            NaiveDatetime,
            [NAIVE, "2026-11-28T09:30", "2026-11-28T09:30:00.25", "2026-11-28 09:30"],
            [f"{NAIVE}Z", f"{NAIVE}+02:00"],
        ),
        (AwareDatetime, [f"{NAIVE}Z", f"{NAIVE}+02:00"], [NAIVE]),
        (datetime, [f"{NAIVE}Z"], ["9:30"]),
        (Annotated[NaiveDatetime, Field(gt=datetime(2000, 1, 1))], [NAIVE], [f"{NAIVE}Z"]),
        (time, ["09:30:00Z"], ["9 h"]),
        (date, ["2026-11-28"], [NAIVE]),
        (timedelta, ["P1D"], ["a day"]),
    ],
)
def test_time_accepted_by_the_schema_can_be_built(
    annotation: Any, takes: list[str], refuses: list[str]
) -> None:
    contract = Contract.of(pydantic.create_model("Event", at=(annotation | None, ...)))
    for text in takes:
        assert contract.accepts({"at": text})
        assert contract.build({"at": text}).at is not None
    assert [text for text in refuses if contract.accepts({"at": text})] == []


def test_naive_time_can_be_built_in_a_dataclass() -> None:
    contract = Contract.of(dataclasses.make_dataclass("Event", [("at", NaiveDatetime)]))
    assert contract.accepts({"at": NAIVE})
    assert contract.build({"at": NAIVE}).at == datetime.fromisoformat(NAIVE)


@pytest.mark.parametrize(
    ("annotation", "kind", "wrong", "message"),
    [
        (
            NaiveDatetime,
            "string, a date and time in the form YYYY-MM-DDThh:mm:ss, without Z or an offset",
            f"{NAIVE}Z",
            "expected a date and time in the form YYYY-MM-DDThh:mm:ss, without Z or an offset, found",
        ),
        (Decimal, "number or string, a decimal number", "12,50", 'expected a decimal number, found "12,50"'),
        (bytes, "string, bytes in base64", "?", 'expected bytes in base64, found "?"'),
    ],
)
def test_patterns_of_times_are_described_in_words(
    annotation: Any, kind: str, wrong: str, message: str
) -> None:
    contract = Contract.of(dataclasses.make_dataclass("Event", [("at", annotation)]))
    assert f'- "at" ({kind})' in contract.instructions()
    [issue] = contract.issues({"at": wrong})
    assert issue.message.startswith(message)


class Kind(Enum):
    RIVER = "river"


class Basin(BaseModel):
    name: str


@dataclasses.dataclass
class River:
    from_text = True

    name: str
    length: int | None
    born: date
    tags: list[str]
    note: str = dataclasses.field(metadata={"x-from": "text", "x-grounding": "mark"})
    kind: Literal["river"] | None
    form: Kind
    open: bool
    id: UUID
    basin: Basin | None
    pairs: tuple[str, int]


class RiverModel(BaseModel):
    from_text: ClassVar[bool] = True

    name: str
    length: int | None
    born: date
    tags: list[str]
    note: str = Field(json_schema_extra={"x-from": "text", "x-grounding": "mark"})
    kind: Literal["river"] | None
    form: Kind
    open: bool
    id: UUID
    basin: Basin | None
    pairs: tuple[str, int]


@pydantic.dataclasses.dataclass
class RiverDataclass:
    from_text: ClassVar[bool] = True

    name: str
    length: int | None
    born: date
    tags: list[str]
    note: str = dataclasses.field(metadata={"x-from": "text", "x-grounding": "mark"})
    kind: Literal["river"] | None
    form: Kind
    open: bool
    id: UUID
    basin: Basin | None
    pairs: tuple[str, int]


@pytest.mark.parametrize("cls", [River, RiverModel, RiverDataclass])
def test_class_may_mark_all_of_its_fields_as_from_the_text(cls: type) -> None:
    sources = Contract.of(cls).sources
    assert sources is not None
    assert sources.said == [
        [f"/properties/{name}", [["text"], "mark" if name == "note" else "refuse"]]
        for name in ("born", "length", "name", "note", "tags")
    ]


def test_field_called_from_text_is_no_mark() -> None:
    plain = dataclasses.make_dataclass("Plain", [("name", str), ("from_text", bool)])
    model = pydantic.create_model("Model", name=(str, ...), from_text=(bool, False))
    assert Contract.of(plain).sources is Contract.of(model).sources is None


@pytest.mark.parametrize("name", ["from_text", "form_text", "fromText"])
def test_mark_that_is_a_field_is_refused(name: str) -> None:
    plain = dataclasses.make_dataclass("Plain", [("name", str), (name, bool, True)])
    model: type = pydantic.create_model("Model", name=(str, ...), **{name: (bool, True)})  # type: ignore[call-overload]
    for cls in (plain, pydantic.dataclasses.dataclass(plain), model):
        with pytest.raises(
            ContractError, match=f"{name}: does not mark .*{name}: bool = True.*`from_text = True`"
        ):
            Contract.of(cls)


def test_misspelt_mark_of_a_class_is_refused() -> None:
    @dataclasses.dataclass
    class Plain:
        form_text = True
        name: str

    class Model(BaseModel):
        form_text: ClassVar[bool] = True
        name: str

    for cls in (Plain, Model):
        with pytest.raises(ContractError, match=r"form_text: does not mark .*misspelt"):
            Contract.of(cls)


def test_other_true_attributes_of_a_class_are_no_marks() -> None:
    @dataclasses.dataclass
    class Plain:
        from_afar = True
        name: str
        has_text: bool = True
        from_context: bool = True

    assert Contract.of(Plain).sources is None


@pytest.mark.parametrize(
    "annotation",
    [
        *(bool, int, float, str, None, Any, datetime, date, UUID, Decimal, Unit, Length),
        *(Literal["a"], Literal["a", 1, None], int | None, int | str | None),
        *(Annotated[int, Gt(1)], Annotated[str, Field(max_length=2)], Annotated[list[int], Len(1, 3)]),
        *(list, list[Unit], set[str], dict, dict[str, list[int]]),
        *(tuple, tuple[()], tuple[int, str], tuple[int, ...]),
    ],
)
def test_equal_field_has_the_same_schema_in_a_dataclass_and_a_model(annotation: Any) -> None:
    plain = dataclasses.make_dataclass("Holder", [("x", annotation)])
    strict = ConfigDict(extra="forbid")
    model = pydantic.create_model("Holder", __config__=strict, x=(annotation, ...))
    one, other = Contract.of(plain), Contract.of(model)
    assert json.dumps(one.schema) == json.dumps(other.schema)
    assert one.fingerprint == other.fingerprint


def test_two_classes_of_one_name_in_one_schema_are_refused() -> None:
    class Unit(BaseModel):
        other: int

    holder = dataclasses.make_dataclass("Holder", [("unit", Unit), ("length", Length)])
    with pytest.raises(ContractError, match="two classes have the name Unit"):
        Contract.of(holder)


def test_pydantic_dataclass_is_validated_by_pydantic() -> None:
    @pydantic.dataclasses.dataclass
    class Short:
        word: str = Field(max_length=3)

    contract = Contract.of(Short)
    assert not contract.accepts({"word": "long"})
    assert contract.build({"word": "abc"}) == Short(word="abc")


class Wrapped(BaseModel, Generic[T]):
    content: T
    kind: Literal["wrapped"] = "wrapped"


def test_generic_model_with_its_types_is_a_model() -> None:
    contract = Contract.of(list[Wrapped[int]])
    assert contract.build([{"content": 1}]) == [Wrapped[int](content=1)]


class Unresolved(BaseModel):
    gone: Nowhere  # type: ignore[name-defined]  # noqa: F821


class Opaque(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    thing: object_of_ours


class object_of_ours:  # noqa: N801
    pass


@pytest.mark.parametrize("model", [Unresolved, Opaque])
def test_model_without_json_schema_is_refused_by_name(model: type[BaseModel]) -> None:
    with pytest.raises(ContractError) as error:
        Contract.of(model)
    assert error.value.where == model.__name__
