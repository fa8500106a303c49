"""`extract`: from a type and a text to instances, with their places, and the reasons of what was refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Optional, assert_type

import pytest
from pydantic import BaseModel, ConfigDict, Field, field_validator

from trustgraph_prompt import Contract, Outcome, aextract, extract, read
from trustgraph_prompt.ask.typed_extraction import extraction_prompt
from trustgraph_prompt.errors import (
    ContractError,
    ProviderAuthentication,
    Reason,
    RenderTooLong,
    StructuredOutputInvalid,
)
from trustgraph_prompt.llm import Call, ScriptedAnswer, ScriptedProvider

TEXT = "The Rhine rises in the Alps and flows into the North Sea; the DANUBE ends in the Black Sea."
RHINE = '{"name": "Rhine", "mouth": "North Sea"}'
DANUBE = '{"name": "Danube", "mouth": "Black Sea"}'


@dataclass
class River:
    """A river, and where it ends."""

    name: str = field(metadata={"x-from": "text"})
    mouth: str | None = None
    length: int | None = field(default=None, metadata={"description": "In kilometres."})

    def __post_init__(self) -> None:
        if self.length is not None and self.length > 10_000:
            raise ValueError("no river is that long")


@dataclass
class Sea:
    depth: int


@dataclass
class Lake:
    """Water with land around it."""

    depth: int


@dataclass
class Range:
    rivers: list[River]


@dataclass
class Quote:
    words: str = field(metadata={"x-from": "chapter"})


class Stream(BaseModel):
    model_config = ConfigDict(title="Brook or creek")
    name: str


class Mountain(BaseModel):
    name: str = Field(json_schema_extra={"x-from": "text"})
    ranges: list[Range] = []

    @field_validator("name")
    @classmethod
    def is_no_hill(cls, name: str) -> str:
        if "hill" in name.lower():
            raise ValueError("that is a hill")
        return name


MARKED = {
    "title": "River",
    "type": "object",
    "properties": {"name": {"type": "string", "x-from": "text"}, "mouth": {"type": "string"}},
    "required": ["name"],
}
BITS = {"$defs": {"b": {"type": "integer"}}}
OLD = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "array",
    "items": {"$ref": "#/definitions/number"},
    "definitions": {"number": {"type": "integer"}},
}
LANGUAGE = "schema River:\n    name: string @from(text)\n    mouth: string?\n"


class Scripted(ScriptedProvider):
    """Gives these answers in turn, and remembers what it was asked."""

    def __init__(self, *answers: str | ScriptedAnswer) -> None:
        script = iter(answers)
        self.calls: list[Call] = []
        self.is_closed = False
        super().__init__(lambda call: self.calls.append(call) or next(script))  # type: ignore[func-returns-value]

    async def close(self) -> None:
        self.is_closed = True

    @property
    def asked(self) -> str:
        [message] = self.calls[0].messages
        return message.text


def places(outcome: Outcome, text: str = TEXT) -> list[dict[str, list[str]]]:
    """What stands where the keys of each object are said to stand."""
    assert outcome.grounding is not None
    return [
        {key: [text[start:end] for start, end in found.spans] for key, found in each.items() if found}
        for each in outcome.grounding
    ]


def test_list_type_gives_instances_with_their_places() -> None:
    outcome = extract(TEXT, list[River], Scripted(f"{RHINE}\n{DANUBE}"))

    assert outcome.instances == [River("Rhine", "North Sea"), River("Danube", "Black Sea")]
    assert places(outcome) == [{"/name": ["Rhine"]}, {"/name": ["DANUBE"]}]
    assert (outcome.ok, outcome.rejected) == (True, ())


async def test_single_type_gives_one_instance_with_its_place() -> None:
    outcome = await aextract(TEXT, River, Scripted(RHINE))

    assert outcome.instances == [River("Rhine", "North Sea")]
    assert places(outcome) == [{"/name": ["Rhine"]}]
    assert outcome.contract.format == "json"


@pytest.mark.parametrize(
    "type",
    [
        MARKED,
        Contract.from_schema(MARKED),
        Contract.language(LANGUAGE)["River"],
    ],
)
async def test_schema_without_a_class_gives_a_plain_value(type: Any) -> None:
    outcome = await aextract(TEXT, type, Scripted(RHINE))

    assert outcome.instances == [json.loads(RHINE)]
    assert places(outcome) == [{"/name": ["Rhine"]}]


@pytest.mark.parametrize(
    "type",
    [
        {"type": "array", "items": MARKED},
        {"type": "array", "items": {"$ref": "#/$defs/River"}, "$defs": {"River": MARKED}},
        Contract.from_schema(MARKED, format="jsonl"),
        Contract.language(LANGUAGE, format="jsonl")["River"],
    ],
)
async def test_list_schema_without_a_class_gives_plain_values(type: Any) -> None:
    outcome = await aextract(TEXT, type, Scripted(f'{RHINE}\n{DANUBE}\n{{"name": "Nile"}}', "[]"))

    assert outcome.instances == [json.loads(RHINE), json.loads(DANUBE)]
    assert places(outcome) == [{"/name": ["Rhine"]}, {"/name": ["DANUBE"]}]
    assert [one.issues[0].reason for one in outcome.rejected] == [Reason.UNGROUNDED]


async def test_objects_of_a_list_schema_may_have_quotes() -> None:
    properties = {"quote": {"type": "string", "x-quote": "text"}, "name": {"type": "string"}}
    rivers = {"type": "array", "items": {"type": "object", "properties": properties}}
    provider = Scripted('{"quote": "the danube ends", "name": "Danube"}')
    outcome = await aextract(TEXT, rivers, provider)
    assert outcome.value == [{"quote": "the DANUBE ends", "name": "Danube"}]


async def test_nested_instances_have_their_places_by_path() -> None:
    answer = '{"name": "Alps", "ranges": [{"rivers": [{"name": "Rhine"}, {"name": "Danube"}]}]}'
    outcome = await aextract(TEXT, list[Mountain], Scripted(answer))

    assert outcome.instances == [Mountain(name="Alps", ranges=[Range([River("Rhine"), River("Danube")])])]
    [found] = places(outcome)
    assert found == {
        "/name": ["Alps"],
        "/ranges/0/rivers/0/name": ["Rhine"],
        "/ranges/0/rivers/1/name": ["DANUBE"],
    }


@pytest.mark.parametrize(
    ("type", "answer", "instances"),
    [
        (list[River | Sea], f'{RHINE}\n{{"depth": 12}}', [River("Rhine", "North Sea"), Sea(12)]),
        (River | None, "null", [None]),
        (list[str], '["Rhine", "Danube"]', ["Rhine", "Danube"]),
        (list[list[int]], "[[1, 2], [3]]", [[1, 2], [3]]),
        ({"type": "array", "items": {"type": "integer"}}, "[1, 2]", [1, 2]),
        ({"type": "array", "items": {"type": "integer"}, "maxItems": 2}, "[1, 2]", [[1, 2]]),
        ({"type": "array", "items": {"type": "array", "items": {"$ref": "#/items"}}}, "[[], []]", [[[], []]]),
        ({"type": "array", "items": {"$ref": "#/$defs/b", "$defs": {"b": False}}, **BITS}, "[1]", [[1]]),
        (OLD, "[1, 2]", [1, 2]),
        (dict[str, int], '{"Rhine": 1233}', [{"Rhine": 1233}]),
    ],
)
async def test_unions_lists_and_scalars_give_instances_of_the_type(
    type: Any, answer: str, instances: list[Any]
) -> None:
    outcome = await aextract(TEXT, type, Scripted(answer))
    assert outcome.instances == instances
    assert outcome.contract.format == ("jsonl" if type == list[River | Sea] else "json")


async def test_unknown_keys_are_dropped_and_scalars_converted() -> None:
    outcome = await aextract(TEXT, list[River], Scripted('{"name": "Rhine", "length": "1233", "basin": 1}'))
    assert outcome.instances == [River("Rhine", length=1233)]


async def test_unmarked_fields_are_not_looked_up_in_the_text() -> None:
    outcome = await aextract(TEXT, list[Sea], Scripted('{"depth": 4711}'))
    assert outcome.instances == [Sea(4711)]
    assert outcome.grounding is None


async def test_cut_answer_is_continued() -> None:
    first = ScriptedAnswer(f"{RHINE}\n{DANUBE}", cut_after=len(RHINE) + 20)
    outcome = await aextract(TEXT, list[River], Scripted(first, DANUBE))

    assert outcome.instances == [River("Rhine", "North Sea"), River("Danube", "Black Sea")]
    assert places(outcome) == [{"/name": ["Rhine"]}, {"/name": ["DANUBE"]}]
    assert ([call.why for call in outcome.calls], outcome.truncated) == (["first", "continue"], False)


@pytest.mark.parametrize(
    ("type", "answer", "reason", "path", "message"),
    [
        (River, '{"mouth": "North Sea"}', Reason.SCHEMA_MISSING_FIELD, "", '"name" is missing'),
        (River, '{"name": "Nile"}', Reason.UNGROUNDED, "/name", '"Nile" is not in the passage'),
        (
            River,
            '{"name": "Rhine", "length": 12330}',
            Reason.INVARIANT_VIOLATION,
            "",
            "no river is that long",
        ),
        (Mountain, '{"name": "Alp Hill"}', Reason.INVARIANT_VIOLATION, "/name", "that is a hill"),
    ],
)
async def test_refused_object_has_its_reason_and_is_asked_for_once_more(
    type: Any, answer: str, reason: Reason, path: str, message: str
) -> None:
    good = '{"name": "Alps"}'
    for wanted, in_vain in ((type, answer), (list[type], f"{good}\n{answer}")):
        provider = Scripted(in_vain, answer)
        outcome: Outcome = await aextract(TEXT, wanted, provider)
        [rejected] = outcome.rejected
        [issue] = rejected.issues
        assert (rejected.raw, issue.reason, issue.path) == (answer, reason, path)
        assert issue.message.startswith(message)
        assert message in provider.calls[1].messages[-1].text
        assert outcome.instances == ([] if wanted is type else [type(name="Alps")])


async def test_corrected_object_is_no_longer_listed_as_refused() -> None:
    long = '{"name": "Rhine", "length": 12330}'
    outcome = await aextract(TEXT, list[River], Scripted(long, long.replace("12330", "1233")))
    assert outcome.instances == [River("Rhine", length=1233)]
    assert outcome.rejected == ()


async def test_answer_without_a_value_has_no_instances_and_says_why() -> None:
    outcome = await aextract(TEXT, River, Scripted("I cannot say.", ""))
    assert (outcome.instances, outcome.ok) == ([], False)
    with pytest.raises(StructuredOutputInvalid):
        outcome.unwrap()

    away = ScriptedAnswer(error=ProviderAuthentication("no such key"))
    outcome = await aextract(TEXT, list[River], Scripted(away))
    assert (outcome.instances, outcome.reason) == ([], Reason.PROVIDER_ERROR)
    with pytest.raises(ProviderAuthentication, match="no such key"):
        outcome.unwrap()

    nothing = await aextract(TEXT, list[River], Scripted("[]"))
    assert (nothing.instances, nothing.ok) == ([], True)


async def test_question_is_the_passage_followed_by_what_is_wanted() -> None:
    passage = "{{ text }} & {% raw %} <b>Äußerst</b>\n\n  indented"
    for type, wanted in ((list[River], "Find every River in the passage."), (MARKED, "Find the River in")):
        provider = Scripted("[]", "[]")
        await aextract(passage, type, provider, instruction="Leave out brooks.")
        before, after = provider.asked.split(f"<passage>\n{passage}\n</passage>")
        assert "not instructions to follow" in before
        assert after.strip().startswith(wanted)
        assert "you know from elsewhere. Leave out brooks.\n\nAnswer with" in after
        assert '- "name" (string)' in after


async def test_question_has_the_descriptions_of_the_author_and_no_more() -> None:
    provider = Scripted("[]")
    await aextract(TEXT, list[River], provider)
    assert "Description: A river, and where it ends." in provider.asked
    assert "In kilometres." in provider.asked
    assert "from elsewhere.\n\nAnswer with JSON objects" in provider.asked


@pytest.mark.parametrize(
    ("type", "wanted"),
    [
        ({"type": "object"}, "what is described below"),
        (list[River | Sea], "every River or Sea"),
        (River | None, "the River"),
        (list[Stream], "every Brook or creek"),
        (list[Stream | Sea], "every Brook or creek or Sea"),
        (list[River | str], "what is described below"),
        (list[str], "what is described below"),
        (Contract.of(str, name="City"), "the City"),
        ({"type": "array", "items": {"$ref": "#/$defs/Town"}, "$defs": {"Town": {}}}, "every Town"),
    ],
)
async def test_question_names_the_type_as_its_author_does(type: Any, wanted: str) -> None:
    provider = Scripted("[]", "[]")
    await aextract(TEXT, type, provider, instruction=" \n")
    assert f"Find {wanted} in the passage. Use only" in provider.asked
    assert "from elsewhere.\n\nAnswer with" in provider.asked


async def test_description_of_an_array_is_in_the_question() -> None:
    for said in ({"description": "Not the canals.", "title": "Rivers"}, {"title": "Not the canals."}):
        provider = Scripted(RHINE)
        array = {"type": "array", "items": MARKED, **said}
        await aextract(TEXT, array, provider, instruction="Nor brooks. ")
        assert "Find every River in" in provider.asked
        assert "from elsewhere. Not the canals. Nor brooks.\n\nAnswer" in provider.asked


@pytest.mark.parametrize(
    ("type", "message"),
    [
        (complex, "not a type with a JSON Schema"),
        ({"type": "objekt"}, "unknown type"),
        ({"properties": {"a": {"x-from": ["text", "page"]}}}, "/properties/a: .*found 'page', expected text"),
        (
            Quote,
            "Quote /properties/words: the value is marked to be from an unknown term .*found 'chapter'",
        ),
        ({"type": "array", "items": {"type": "objekt"}}, "/items/type: unknown type"),
        ({"type": "array", "items": {"x-from": "page"}}, "/items: the value"),
        ({"type": "array", "items": {"$ref": "#/nowhere"}}, "unknown reference|does not exist"),
        (Contract.from_schema(None, format="text"), "a text contract has nothing to extract"),
        (list[Sea | Lake], "two classes of this union have the same schema"),
        ([River], "not a type with a JSON Schema"),
        ("River", "a string is not a type .*expected the type itself, without quotes"),
        (list["River"], "a string is not a type"),
        (River("Rhine"), "not a type with a JSON Schema"),
    ],
)
async def test_unsupported_type_is_refused_before_any_call(type: Any, message: str) -> None:
    provider = Scripted()
    with pytest.raises(ContractError, match=message):
        await aextract(TEXT, type, provider)
    assert provider.calls == []


async def test_error_message_is_short_however_long_the_argument() -> None:
    long: Any = TEXT * 1_000
    with pytest.raises(ContractError) as refused:
        await aextract(TEXT, long, Scripted())
    assert len(str(refused.value)) < 400
    with pytest.raises(TypeError) as no_provider:
        await aextract(TEXT, River, long)
    assert len(str(no_provider.value)) < 400


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"text": b"The Rhine"}, "text: expected str, found bytes"),
        ({"text": None}, "text: expected str, found NoneType"),
        ({"instruction": ["Brooks."]}, "instruction: expected str, found list"),
        ({"provider": None}, "provider: expected a Provider, found None"),
        ({"provider": ScriptedProvider}, "provider: expected a Provider, found <class"),
    ],
)
def test_argument_of_another_type_is_named(arguments: dict[str, Any], message: str) -> None:
    provider = Scripted()
    with pytest.raises(TypeError, match=message):
        extract(**{"text": TEXT, "type": River, "provider": provider, **arguments})
    assert provider.calls == []


async def test_text_of_many_millions_of_characters_is_refused_before_any_call() -> None:
    with pytest.raises(RenderTooLong, match="longer than 4,000,000 characters"):
        await aextract("a" * 4_000_001, River, Scripted())


def test_extract_closes_its_event_loop_and_its_connections() -> None:
    provider = Scripted("[]", "[]")
    for _ in range(2):
        assert extract(TEXT, list[River], provider).ok
        assert provider.is_closed
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()


class Stuck(Scripted):
    async def close(self) -> None:
        raise OSError("the connection hangs")


def test_error_while_closing_costs_no_answer_and_hides_no_other_error() -> None:
    assert extract(TEXT, River, Stuck(RHINE)).instances == [River("Rhine", "North Sea")]
    with pytest.raises(ContractError, match="not a type with a JSON Schema") as error:
        extract(TEXT, complex, Stuck())
    assert error.value.__context__ is None


async def test_extract_within_a_running_loop_refers_to_aextract() -> None:
    provider = Scripted("[]")
    with pytest.raises(RuntimeError, match=r"await aextract\(\)"):
        extract(TEXT, list[River], provider)
    assert provider.calls == []

    await aextract(TEXT, list[River], provider)
    assert not provider.is_closed


class TestInstances:
    def test_instances_are_made_of_any_outcome_of_a_typed_contract(self) -> None:
        contract = Contract.of(River, format="jsonl")
        outcome = read(f"{RHINE}\n{DANUBE}", contract)
        assert outcome.instances == [River("Rhine", "North Sea"), River("Danube", "Black Sea")]
        assert outcome.value == [json.loads(RHINE), json.loads(DANUBE)]
        assert read("Rhine", "text").instances == ["Rhine"]
        assert read("Rhine", "json").instances == []

    def test_instances_are_made_once(self) -> None:
        outcome = read(RHINE, Contract.of(River))
        assert outcome.instances is outcome.instances

    def test_instances_raise_if_a_class_refuses_a_value_that_was_not_checked(self) -> None:
        outcome = read('{"name": "Rhine", "length": 12330}', Contract.of(River))
        assert outcome.ok
        with pytest.raises(StructuredOutputInvalid, match="no river is that long"):
            _ = outcome.instances


class TestBuildable:
    @pytest.mark.parametrize("make", [lambda: Contract.of(River), lambda: Contract.of(list[River])])
    def test_building_contract_is_equal_to_itself(self, make: Callable[[], Contract]) -> None:
        contract, asking = make(), make().buildable()
        for length in (1233, 12330):
            value: Any = {"name": "Rhine", "length": length}
            value = [value] if contract.many else value
            accepted = length == 1233
            assert contract.accepts(value)
            assert asking.accepts(value) is accepted
            assert (asking.issues(value) == ()) is accepted
            assert (asking.take_all([value]) is not None) is accepted
        [issue] = asking.issues(value)
        assert (issue.reason, issue.path) == (Reason.INVARIANT_VIOLATION, "/0" if contract.many else "")
        assert asking == contract

    def test_building_contract_of_no_class_is_the_same(self) -> None:
        contract = Contract.from_schema(MARKED)
        assert contract.buildable() is contract


async def test_type_checker_infers_the_type_of_instances() -> None:
    provider = Scripted(RHINE, RHINE, RHINE, RHINE, "[]")
    many = await aextract(TEXT, list[River], provider)
    assert_type(many, Outcome[River])
    assert_type(many.instances, list[River])
    assert_type((await aextract(TEXT, River, provider)).instances, list[River])
    assert_type((await aextract(TEXT, list[Mountain], provider)).instances, list[Mountain])
    assert_type((await aextract(TEXT, MARKED, provider)).instances, list[Any])
    assert_type(await aextract(TEXT, Contract.of(list[River]), provider), Outcome[Any])
    assert_type(await aextract(TEXT, River | Sea, Scripted(RHINE)), Outcome[Any])
    assert_type(await aextract(TEXT, Optional[River], Scripted(RHINE)), Outcome[Any])  # noqa: UP045
    assert_type(await aextract(TEXT, list[River | Sea], Scripted(RHINE)), Outcome[River | Sea])
    assert_type(await aextract(TEXT, list[str], Scripted("[]")), Outcome[str])
    assert_type(read(RHINE, "json"), Outcome[Any])


def test_type_checker_infers_the_type_of_instances_without_a_loop() -> None:
    provider = Scripted(RHINE, RHINE, RHINE)
    assert_type(extract(TEXT, list[River], provider), Outcome[River])
    assert_type(extract(TEXT, Mountain, provider), Outcome[Mountain])
    assert_type(extract(TEXT, MARKED, provider, instruction="All."), Outcome[Any])


def test_prompt_for_documents_asks_for_all_objects_and_names_the_schema_once() -> None:
    schema = {"title": "Machine", "description": "A thing that works.", "type": "object"}
    prompt = extraction_prompt({**schema, "properties": {"name": {"type": "string"}}}, "No toys.", many=True)
    question = prompt.question({"text": "x"}).prompt
    assert "Find every Machine in the passage." in question
    assert (question.count("Machine"), question.count("A thing that works.")) == (1, 1)
    assert "elsewhere. No toys.\n" in question
    assert prompt.contract.format == "jsonl"
