"""Answers and declarations that are meant to break `Prompt[T]`: an error of ours, in bounded time."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.hostile_texts import FEW
from tests.support.steps import is_linear
from trustgraph_prompt import MarkdownSection, Prompt, Reason, parse_structured_output
from trustgraph_prompt.doors import OutputParseError, PromptValidationError, RenderedPrompt


@dataclass
class Thing:
    n: int
    name: str = ""


@dataclass
class Tree:
    name: str
    children: list[Tree] = field(default_factory=list)


def rendered(declared: Any) -> RenderedPrompt[Any]:
    result: RenderedPrompt[Any] = Prompt[declared](ns="tests", key="k").render()
    return result


ONE = rendered(Thing)
MANY = rendered(list[Thing])


def refusal(text: str, prompt: RenderedPrompt[Any] = ONE) -> OutputParseError:
    with pytest.raises(OutputParseError) as refused:
        parse_structured_output(text, prompt)
    return refused.value


@pytest.mark.parametrize(
    "text",
    [
        "[" * 20_000,
        '{"n": ' * 20_000,
        '{"n": ' * 20_000 + "1" + "}" * 20_000,
        '{"n": 1, "name": ' + "[" * 20_000 + "]" * 20_000 + "}",
        "```json\n" + '{"n": ' * 20_000 + "1" + "}" * 20_000 + "\n```",
    ],
)
def test_answer_nested_without_end_is_refused(text: str) -> None:
    assert refusal(text).dataclass_type is Thing


def test_tree_is_built_up_to_the_allowed_depth_and_refused_beyond() -> None:
    def tree(levels: int) -> str:
        return '{"name": "x", "children": [' * levels + '{"name": "x"}' + "]}" * levels

    prompt = rendered(Tree)
    built = parse_structured_output(tree(90), prompt)
    for _ in range(90):
        [built] = built.children
    assert built == Tree("x")
    assert refusal(tree(5_000), prompt).dataclass_type is Tree


@pytest.mark.parametrize("digits", [5_000, 1_000_000])
@pytest.mark.parametrize(
    "text", ['{{"n": {0}}}', '{{"n": "{0}"}}', "```json\n{0}\n```", 'So: {{"n": -{0}}}', '{{"n": {0}.5}}']
)
def test_huge_number_is_refused(text: str, digits: int) -> None:
    assert refusal(text.format("7" * digits)).dataclass_type is Thing


def test_integer_of_any_size_that_python_reads_keeps_its_digits() -> None:
    number = int("7" * 4_000)
    for text in (f'{{"n": {number}}}', f'{{"n": "{number}"}}'):
        assert parse_structured_output(text, ONE) == Thing(number)


@pytest.mark.parametrize(
    "error", [RuntimeError("no"), KeyError("no"), RecursionError("no"), OverflowError("no")]
)
def test_any_exception_of_the_class_is_a_refusal_with_its_cause(error: Exception) -> None:
    @dataclass
    class Moody:
        n: int

        def __post_init__(self) -> None:
            if self.n > 1:
                raise error

    refused = refusal('[{"n": 1}, {"n": 2}]', rendered(list[Moody]))
    assert refused.dataclass_type is Moody
    assert refused.output_content == '[{"n": 1}, {"n": 2}]'
    if not isinstance(error, RecursionError):
        assert (refused.index, refused.path) == (1, "/1")
        assert refused.issues[0].reason is Reason.INVARIANT_VIOLATION
        assert "no" in refused.message


def test_unresolvable_annotation_is_refused_when_the_prompt_is_made() -> None:
    @dataclass
    class Leaf:
        n: int

    @dataclass
    class Branch:
        leaf: Leaf  # a name that is local to this function

    with pytest.raises(PromptValidationError, match="Leaf") as refused:
        Prompt[Branch](ns="tests", key="k")
    assert refused.value.dataclass_type is Branch


@pytest.mark.parametrize("token", FEW.values(), ids=FEW.keys())
def test_long_answer_of_one_token_is_read_in_linear_time(token: str) -> None:
    def parse(size: int) -> None:
        for text in ((token * size)[:size], f"```json\n{(token * size)[:size]}"):
            with pytest.raises(OutputParseError):
                parse_structured_output(text, ONE)

    assert is_linear(parse, 500)


@pytest.mark.parametrize("unit", ['{"a": ', '{"a": 1} ', "```json\n{} ```\n", "[1] "])
def test_many_values_of_other_kinds_are_skipped_in_linear_time(unit: str) -> None:
    def parse(count: int) -> None:
        refusal(unit * count)

    assert is_linear(parse, 500)


def test_only_the_first_of_very_many_issues_are_listed() -> None:
    text = json.dumps([{"n": "x" * 1_000}] * 5_000)
    error = refusal(text, MANY)
    assert len(error.issues) == 20
    assert len(error.message) < 10_000
    assert error.output_content == text


def test_messages_about_keys_of_any_length_are_short() -> None:
    error = refusal(json.dumps({"n": 1, "x" * 1_000_000: 1, "a\nb\x00\ud800": 2}))
    assert len(error.message) < 2_000
    assert "\n" not in error.message


def test_names_of_python_attributes_are_ordinary_keys() -> None:
    for name in ("__class__", "__init__", "self", "cls", "__dict__"):
        assert name in refusal(json.dumps({"n": 1, name: 2})).message


def test_template_of_dollars_is_split_in_linear_time() -> None:
    def split(count: int) -> None:
        section = MarkdownSection[Thing](title="T", template="$$${n} " * count)
        made = Prompt(ns="tests", key="k", sections=[section])
        assert made.render(Thing(1)).text.count("$1") == count

    assert is_linear(split, 500)
