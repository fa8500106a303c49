r"""LaTeX commands whose backslash a model did not escape: `"\frac"` is valid JSON with a form feed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.steps import steps
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.reader import Stage, StreamReader, read

SCHEMA = {"type": "object", "properties": {"term": {"type": "string"}}, "required": ["term"]}
TERMS = Contract.from_schema(SCHEMA, format="jsonl")
GROUNDED = Contract.from_schema(
    {**SCHEMA, "properties": {"term": {"type": "string", "x-from": "text"}}}, format="jsonl"
)


def written(string: str) -> str:
    """An object with a string as a model wrote it, escapes and all."""
    return f'{{"term": "{string}"}}'


def found(string: str, contract: Contract = TERMS, **more: Any) -> str:
    [value] = read(written(string), contract, **more).value
    return str(value["term"])


@pytest.mark.parametrize(
    ("string", "meant"),
    [
        (r"$\frac{a}{b}$", r"$\frac{a}{b}$"),
        (r"\frac12 and \beta_1", r"\frac12 and \beta_1"),
        (r"\begin{matrix}\bar{x}\\end", r"\begin{matrix}\bar{x}\end"),
        (r"\forall x: \flat", r"\forall x: \flat"),
        (r"see\footnote{no}", r"see\footnote{no}"),
        (r"\u000crac \u0008eta", r"\frac \beta"),
        (r"$\theta \times \tau$", r"$\theta \times \tau$"),
        (r"\\(\nabla \ne \nu\\)", r"\(\nabla \ne \nu\)"),
        (r"\\[\rho \rightarrow \right)\\]", r"\[\rho \rightarrow \right)\]"),
        (r"$$a \neq b$$ and $\text{c}$", r"$$a \neq b$$ and $\text{c}$"),
        (r"$5 for $\tan x$", r"$5 for $\tan x$"),
    ],
)
def test_backslash_of_a_command_is_restored(string: str, meant: str) -> None:
    assert found(string) == meant


@pytest.mark.parametrize(
    "string",
    [
        r"\fra \betamax \bloom",
        r"\f rac",
        r"\n",
        r"pane\ne vino",
        r"a\theta",
        r"$x$\ne vino$y$",
        r"$x$ or\nu or $y$",
        r"costs $5\nto $6",
        r"costs $5\ne vino $6",
        r"$ 5\nu 6$",
        r"from $5\nto 6$7",
        r"\\$x \ne y\\$",
        r"$x\nunder",
        r"\\(x \ne y",
        r"\\(x \ne y$",
    ],
)
def test_text_that_is_no_command_stays_unchanged(string: str) -> None:
    outcome = read(written(string), TERMS)
    assert (outcome.value, outcome.stage) == ([json.loads(written(string))], Stage.DIRECT)


def test_escaped_backslash_is_no_repair() -> None:
    outcome = read(written(r"$\\frac{a}{b} \\ne \\beta$"), TERMS)
    assert (outcome.value, outcome.stage) == ([{"term": r"$\frac{a}{b} \ne \beta$"}], Stage.DIRECT)


@pytest.mark.parametrize("contract", [TERMS, GROUNDED], ids=["no key looked up", "a key looked up"])
def test_characters_that_the_passage_has_stay_unchanged(contract: Contract) -> None:
    page = "the end of a page\x0crac is a word, $a\nu$ and b"
    assert found(r"page\frac", contract, terms={"text": page}) == "page\x0crac"
    assert found(r"$a\nu$", contract, terms={"text": page}) == "$a\nu$"
    other = "it says $\\frac{a}{b}$\nunder it, \x0cracing, page"
    assert found(r"$\frac{a}{b}$", contract, terms={"text": other}) == r"$\frac{a}{b}$"
    assert found(r"page $\nu$", contract, terms={"nested": [{"text": other}], "text": other}) == r"page $\nu$"


@pytest.mark.parametrize("contract", [TERMS, GROUNDED], ids=["no key looked up", "a key looked up"])
def test_characters_that_the_terms_of_the_contract_have_stay_unchanged(contract: Contract) -> None:
    with_terms = contract.with_terms({"text": "the end of a page\x0crac is a word"})
    assert found(r"page\frac", with_terms) == "page\x0crac"
    assert found(r"page\frac", with_terms, terms={"text": r"page\frac"}) == r"page\frac"


def test_restored_command_is_looked_up_in_the_passage() -> None:
    terms = {"text": r"The ratio $\frac{a}{b}$ is fixed."}
    outcome = read(written(r"$\frac{a}{b}$"), GROUNDED, terms=terms)
    assert outcome.grounding is not None
    start = terms["text"].index("$")
    match = outcome.grounding[0]["/term"]
    assert match is not None
    assert (match.score, match.spans) == (1.0, ((start, start + 13),))


def test_restored_command_is_reported_as_a_repair_with_its_place() -> None:
    text = f'{written("a")}\n{{"n": [1, "\\beta"], "term": "$\\frac1x$"}}'
    outcome = read(text, TERMS)
    [repaired] = outcome.repaired
    assert (outcome.stage, repaired.index, repaired.start) == (Stage.REPAIRED, 1, text.index("\n") + 1)
    assert [(text[edit.offset :][:7], edit.what) for edit in repaired.edits] == [
        ('"\\beta"', "a command without its backslash"),
        ('"$\\frac', "a command without its backslash"),
    ]


@pytest.mark.parametrize("size", [1, 2, 7, 1_000])
def test_command_is_restored_in_a_stream_as_it_comes(size: int) -> None:
    strings = ["plain", r"$\frac{1}{2}$", r"$\left\\{x}\theta{y}$", r"$ }", r"}\nu$}$", "plain"]
    text = "\n".join(map(written, strings))
    reader = StreamReader(TERMS)
    given = [value for at in range(0, len(text), size) for value in reader.feed(text[at : at + size])]
    outcome = reader.close()
    assert given == outcome.value
    assert outcome == read(text, TERMS)
    assert given[1] == {"term": r"$\frac{1}{2}$"}


@pytest.mark.parametrize(
    "text",
    [
        r'{"term": "$\frac{a}{b}$"}',
        'So: ```json\n{"term": "$\\frac{a}{b}$"}\n```',
        r'{"term": "$\frac{a}{b}$",}',
        r"{'term': '$\frac{a}{b}$'}",
    ],
)
@pytest.mark.parametrize("format", ["json", "jsonl"])
def test_command_is_restored_in_broken_json_too(text: str, format: Any) -> None:
    outcome = read(text, Contract.from_schema(SCHEMA, format=format, repair=True))
    [value] = outcome.objects
    assert (value, outcome.stage) == ({"term": r"$\frac{a}{b}$"}, Stage.REPAIRED)
    assert "a command without its backslash" in [edit.what for edit in outcome.repaired[0].edits]


def test_command_is_restored_in_each_string_of_a_json_value() -> None:
    text = '{"a": [{"b": "\\beta"}, "\\flat", 1, null], "c": "x"}'
    assert read(text, "json").value == {"a": [{"b": r"\beta"}, r"\flat", 1, None], "c": "x"}
    assert read(r'"\frac"', "json").value == r"\frac"
    listed = Contract.from_schema(
        {"properties": {"a": {"items": {"type": "string"}, "type": "array"}}}, coerce=True
    )
    outcome = read(r'{"a": "[\"x\"]", "b": "\beta"}', listed)
    assert (outcome.value, len(outcome.repaired[0].edits)) == ({"a": ["x"], "b": r"\beta"}, 2)


@pytest.mark.parametrize("token", ["$", r"$\nu", r"\\(", r"\\(\ne\\)", r"\frac", r"\fracx", r"\\[\n\\)"])
def test_any_string_takes_linear_time(token: str) -> None:
    def taken(times: int) -> int:
        return steps(lambda: read(written(token * times), TERMS))

    assert taken(3_000) < 3.5 * taken(1_000) + 500
