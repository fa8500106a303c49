"""Keys that are quotes of the text: where they may stand, what they become, and what they are no part of."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel, Field

from trustgraph_prompt.contract import Contract, Limits
from trustgraph_prompt.contract.rule_in_source import broken_rule
from trustgraph_prompt.errors import ContractError, LanguageError, PromptError, Reason
from trustgraph_prompt.grounding import MatchKind
from trustgraph_prompt.prompts import PromptDefinition
from trustgraph_prompt.reader import Outcome, StreamReader, read

TERMS = {"text": "The Rhine rises\nin the Alps. The Danube is long.", "title": "Of Rivers"}
FACT = """
schema Fact:
    quote: string @quote(text, title)
    subject: string @from(text)
    says: string
"""
CONTRACT = Contract.language(FACT, format="jsonl")["Fact"]
QUOTE = {"type": "string", "x-quote": "text"}
NO_TERMS: list[Any] = ["", [], [1], 7, None, {}]


def line(quote: object, subject: str = "Rhine", says: str = "rises") -> str:
    return json.dumps({"quote": quote, "subject": subject, "says": says}, ensure_ascii=False) + "\n"


def streamed(answer: str, contract: Contract) -> tuple[list[Any], Outcome]:
    reader = StreamReader(contract, TERMS)
    came = [value for character in answer for value in reader.feed(character)]
    return came, reader.close()


def schema_of(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **more}


def union_of(*properties: dict[str, Any]) -> dict[str, Any]:
    return {"oneOf": [schema_of(each) for each in properties]}


@pytest.mark.parametrize(
    ("quote", "words"),
    [
        ("The Rhine rises in the Alps.", "The Rhine rises in the Alps."),
        ("the RHINE rises", "The Rhine rises"),
        ("The Rhine … the Danube", "The Rhine … The Danube"),
        ("of rivers", "Of Rivers"),
    ],
)
def test_quote_becomes_the_words_of_its_term(quote: str, words: str) -> None:
    outcome = read(line(quote), CONTRACT, terms=TERMS)
    assert outcome.value == [{"quote": words, "subject": "Rhine", "says": "rises"}]
    assert list(outcome.value[0]) == ["quote", "subject", "says"]


def test_grounding_has_the_stretches_of_a_quote_first() -> None:
    [found] = read(line("the rhine … the Danube"), CONTRACT, terms=TERMS).grounding or ()
    assert list(found) == ["/quote", "/subject"]
    quote = found["/quote"]
    assert quote is not None
    assert (quote.term, quote.kind, quote.score) == ("text", MatchKind.EXACT, 1.0)
    assert quote.spans == ((0, 9), (29, 39))


def test_refused_quote_says_what_to_copy() -> None:
    outcome = read(line("The Rhine flows"), CONTRACT, terms=TERMS)
    assert outcome.reason is Reason.UNGROUNDED
    [issue] = outcome.rejected[0].issues
    assert str(issue) == '/quote: "The Rhine flows" is not in the passage word for word'
    assert issue.for_model == f"{issue}; copy the words of the passage that say it, two sentences at most"
    assert broken_rule(issue.keyword, CONTRACT).text == (  # type: ignore[union-attr]
        '{"type": "string", "x-quote": ["text", "title"]}'
    )


@pytest.mark.parametrize("quote", ["x" * 10_000, "The Rhine rises in the Alps. " * 400])
def test_quote_of_ten_thousand_characters_is_refused_as_too_long(quote: str) -> None:
    outcome = read(line(quote) + line("The Rhine"), CONTRACT, terms=TERMS | {"text": quote + " The Rhine"})
    assert [value["quote"] for value in outcome.value] == ["The Rhine"]
    [issue] = outcome.rejected[0].issues
    assert str(issue) == f"/quote: the quote has {len(quote):,} characters, more than two sentences"


@pytest.mark.parametrize("quote", ["", " ", "…"])
def test_quote_without_a_word_is_refused(quote: str) -> None:
    assert read(line(quote), CONTRACT, terms=TERMS).reason is Reason.UNGROUNDED


@pytest.mark.parametrize("terms", [None, {}, {"text": ["a", "list"]}])
def test_quote_stays_as_written_without_a_text(terms: dict[str, Any] | None) -> None:
    outcome = read(line("anything"), CONTRACT, terms=terms)
    assert [value["quote"] for value in outcome.value] == ["anything"]


def test_stream_and_whole_answer_have_the_same_quotes() -> None:
    answer = line("the rhine") + line("not there") + line("IN THE ALPS") + line("The Danube is long.")
    whole = read(answer, CONTRACT, terms=TERMS)
    came, outcome = streamed(answer, CONTRACT)
    assert [value["quote"] for value in whole.value] == ["The Rhine", "in the Alps", "The Danube is long."]
    assert came == outcome.value == whole.value
    assert outcome.grounding == whole.grounding


def test_single_value_and_members_of_a_list_have_the_words_of_the_text() -> None:
    schema = schema_of({"quote": QUOTE})
    one = Contract.from_schema(schema)
    many = Contract.from_schema(schema, many=True)
    assert read('{"quote": "the rhine"}', one, terms=TERMS).value == {"quote": "The Rhine"}
    outcome = read('[{"quote": "the rhine"}, {"quote": "the danube"}]', many, terms=TERMS)
    assert outcome.value == [{"quote": "The Rhine"}, {"quote": "The Danube"}]
    assert read('[{"quote": "the rhine"}, {"quote": "x"}]', many, terms=TERMS).explain() == (
        '/1/quote: "x" is not in the passage word for word'
    )


def test_repaired_value_has_the_words_of_the_text() -> None:
    contract = Contract.from_schema(schema_of({"quote": QUOTE}), format="jsonl", repair=True)
    outcome = read("{quote: 'the rhine',}", contract, terms=TERMS)
    assert outcome.value == [{"quote": "The Rhine"}]
    assert outcome.repaired


def test_schema_judges_the_words_of_the_text() -> None:
    schema = schema_of({"quote": {**QUOTE, "maxLength": 15}})
    contract = Contract.from_schema(schema, format="jsonl", extra="forbid")
    terms = {"text": "The Rhine -- rises"}
    outcome = read('{"quote": "the rhine rises"}', contract, terms=terms)
    assert outcome.reason is Reason.SCHEMA_VALUE_ERROR
    assert read('{"quote": "the rhine"}', contract, terms=terms).value == [{"quote": "The Rhine"}]


def test_accepted_value_is_accepted_again_as_it_is() -> None:
    outcome = read(line("the rhine rises"), CONTRACT, terms=TERMS)
    contract = CONTRACT.with_terms(TERMS)
    assert contract.take_all(outcome.value) == outcome.value


def test_quotes_are_paid_for_by_their_characters() -> None:
    contract = Contract.from_schema(schema_of({"quote": QUOTE}), format="jsonl", limits=Limits(steps=20_000))
    answer = '{"quote": "The Rhine"}\n' * 20
    came, outcome = streamed(answer, contract)
    assert 0 < len(outcome.value) < 20
    assert came == outcome.value
    assert [issue.reason for issue in outcome.issues] == [Reason.EFFORT_SPENT]


def test_quotes_of_a_union_and_of_versions_are_known_by_their_name() -> None:
    branches = (
        {"type": {"const": "a"}, "quote": QUOTE},
        {"type": {"const": "b"}, "name": {"type": "string"}},
    )
    union = Contract.from_schema(union_of(*branches), format="jsonl")
    assert union.quote_keys == ("quote",)
    answer = '{"type": "a", "quote": "the rhine"}\n{"type": "b", "quote": "no"}\n{"type": "b"}'
    outcome = read(answer, union, terms=TERMS)
    assert outcome.value == [{"type": "a", "quote": "The Rhine"}, {"type": "b"}]
    versions = Contract.from_schema(None, versions={"1.0": schema_of({}), "1.1": schema_of({"quote": QUOTE})})
    outcome = read('{"schema_version": "1.1", "quote": "the rhine"}', versions, terms=TERMS)
    assert outcome.value == {"schema_version": "1.1", "quote": "The Rhine"}


@dataclass
class ADataclass:
    quote: str = field(metadata={"x-quote": "text"})
    said: str | None = field(default=None, metadata={"x-quote": "text"})


class AModel(BaseModel):
    quote: str = Field(json_schema_extra={"x-quote": "text"})
    said: str | None = Field(None, json_schema_extra={"x-quote": "text"})


@pytest.mark.parametrize("type", [ADataclass, AModel])
def test_field_of_a_class_is_a_quote(type: type) -> None:
    contract = Contract.of(type, format="jsonl")
    assert contract.quote_keys == ("quote", "said")
    outcome = read('{"quote": "the rhine", "said": null}', contract, terms=TERMS)
    assert outcome.instances == [type(quote="The Rhine", said=None)]


def test_quote_may_be_null_or_missing_where_the_schema_says_so() -> None:
    contract = Contract.language("schema A:\n    quote: string? @quote(text)\n", format="jsonl")["A"]
    outcome = read('{"quote": null}\n{}\n{"quote": "no"}\n{"quote": "the rhine"}', contract, terms=TERMS)
    assert outcome.value == [{"quote": None}, {}, {"quote": "The Rhine"}]
    assert outcome.grounding is not None
    assert list(map(list, outcome.grounding)) == [[], [], ["/quote"]]


@pytest.mark.parametrize(
    ("schema", "path", "expected"),
    [
        (schema_of({"a": {"type": "array", "items": QUOTE}}), "/properties/a/items/x-quote", "a key of"),
        (schema_of({"a": schema_of({"b": QUOTE})}), "/properties/a/properties/b/x-quote", "a key of"),
        ({"additionalProperties": QUOTE}, "/additionalProperties/x-quote", "a key of"),
        (schema_of({}, **QUOTE), "/x-quote", "a key of"),
        (schema_of({"a": {"$ref": "#/$defs/q"}}, **{"$defs": {"q": QUOTE}}), "/$defs/q/x-quote", "a key of"),
        ({"allOf": [schema_of({"a": QUOTE}), {}]}, "/allOf/0/properties/a/x-quote", "a key of"),
        (schema_of({"a": {**QUOTE, "type": "integer"}}), "/properties/a/x-quote", "beside the type string"),
        (
            schema_of({"a": {**QUOTE, "type": ["string", "integer"]}}),
            "/properties/a/x-quote",
            "the type string",
        ),
        (schema_of({"a": {"x-quote": "text"}}), "/properties/a/x-quote", "beside the type string"),
        (schema_of({"a": {**QUOTE, "x-from": "text"}}), "/properties/a/x-quote", "only `x-quote`"),
        (schema_of({"a": {**QUOTE, "x-grounding": "mark"}}), "/properties/a/x-quote", "only `x-quote`"),
        *(
            (schema_of({"a": {**QUOTE, "x-quote": no_terms}}), "/properties/a/x-quote", "the name of a term")
            for no_terms in NO_TERMS
        ),
        (union_of({"a": QUOTE}, {"a": {"type": "string"}}), "/oneOf/0/properties/a/x-quote", "the same"),
        (
            union_of({"a": QUOTE}, {"a": {**QUOTE, "x-quote": "title"}}),
            "/oneOf/1/properties/a/x-quote",
            "the same",
        ),
    ],
)
def test_quote_at_another_place_is_refused_with_its_path(
    schema: dict[str, Any], path: str, expected: str
) -> None:
    with pytest.raises(ContractError) as error:
        Contract.from_schema(schema)
    assert error.value.path == path
    assert expected in (error.value.expected or "")


@pytest.mark.parametrize(
    ("source", "where"),
    [
        ("schema A:\n    a: (string @quote(text))[]\n", "line 2, column 5"),
        ("schema B:\n    b: string @quote(text)\n\nschema A:\n    a: B\n", "line 2, column 15"),
        ("schema A:\n    a: int @quote(text)\n", "line 2, column 12"),
        ("schema A:\n    a: string @quote\n", "line 2, column 15"),
        ("schema A:\n    a: string @qoute(text)\n", "line 2, column 15"),
        ("schema A:\n    a: string @quote(text) @from(text)\n", "line 2, column 15"),
    ],
)
def test_quote_at_another_place_of_a_text_is_refused_with_its_line(source: str, where: str) -> None:
    with pytest.raises(LanguageError) as error:
        Contract.language(source)["A"]
    assert error.value.where == where


@pytest.mark.parametrize("keyword", ["x-quot", "x_quote", "X-Quotes"])
def test_misspelt_keyword_is_named(keyword: str) -> None:
    with pytest.raises(ContractError, match="did you mean 'x-quote'"):
        Contract.from_schema(schema_of({"a": {"type": "string", keyword: "text"}}))


def test_prompt_needs_the_term_of_its_quotes() -> None:
    entry = {"dialect": "jinja", "prompt": "{{ passage }}", "response-type": "jsonl"}
    with pytest.raises(PromptError) as error:
        PromptDefinition.from_entry("p", {**entry, "schema": schema_of({"quote": QUOTE})})
    assert (error.value.path, error.value.found) == ("/schema", "text")


def test_fingerprint_says_which_keys_are_quotes_of_what() -> None:
    plain = schema_of({"a": {"type": "string"}})
    marked = [plain, *(schema_of({"a": {"type": "string", "x-quote": terms}}) for terms in ("t", ["t", "u"]))]
    looked_up = schema_of({"a": {"type": "string", "x-from": "t"}})
    prints = [Contract.from_schema(schema).fingerprint for schema in (*marked, looked_up)]
    assert len(set(prints)) == 4


def test_objects_are_the_same_whatever_their_quotes() -> None:
    one, other = json.loads(line("The Rhine")), json.loads(line("the Alps"))
    assert CONTRACT.identity(one) == CONTRACT.identity(other) != CONTRACT.identity({**one, "says": "ends"})
    assert CONTRACT.without_quotes(one) == {"subject": "Rhine", "says": "rises"}
    plain = Contract.from_schema(schema_of({}))
    assert plain.quote_keys == ()
    assert plain.without_quotes(one) is one
    assert plain.identity(one) != plain.identity(other)


def test_texts_of_quotes_are_given_to_rules() -> None:
    contract = CONTRACT.with_terms(TERMS)
    terms = contract._terms
    assert terms is not None
    found = [(passage.text, spans) for passage, spans in terms.passages_of(json.loads(line("the rhine")))]
    assert found == [(TERMS["text"], ((0, 9),))]
    assert [*terms.passages_of({"says": "x"})] == [] == [*terms.passages_of(7)]


def test_value_of_another_type_is_left_to_the_schema() -> None:
    outcome = read(line(7) + line(["The Rhine"]), CONTRACT, terms=TERMS)
    reasons = [issue.reason for rejected in outcome.rejected for issue in rejected.issues]
    assert reasons == [Reason.SCHEMA_TYPE_ERROR] * 2
