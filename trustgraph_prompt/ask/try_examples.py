"""Checks the examples of prompts: answers are read as the prompt reads them, without a model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from trustgraph_prompt.errors import PromptError, Reason, RenderError, excerpt, raise_first
from trustgraph_prompt.json_text.pointer import pointer
from trustgraph_prompt.prompts import Example, PromptDefinition, PromptSet
from trustgraph_prompt.reader import Outcome, read

_MAX_SHOWN = 120  # characters of a value in a message


_Difference = tuple[str, str, Any, str]
"""The path in an example that says otherwise, its first part being the clause; message, found, expected."""


def try_example(prompt: PromptDefinition, example: Example) -> None:
    """Read the answer of an example as the prompt does, and render its question if it has terms.

    Raises `PromptError` for the first difference from what the example says, with its position; the error's
    `others` are the rest.
    """
    raise_first(
        PromptError(
            f"{example}: {message}",
            where=example.places.of(path),
            path=path if "/".join(path.split("/")[:2]) in example.places.parts else "",
            found=found,
            expected=expected,
        )
        for path, message, found, expected in (*_of_question(prompt, example), *_of_answer(prompt, example))
    )


def try_examples(prompts: PromptSet, examples: Iterable[Example]) -> list[PromptError]:
    """The errors of the examples of these prompts, in order; examples of other prompts are skipped."""
    wrong: list[PromptError] = []
    for example in examples:
        try:
            if example.prompt in prompts.prompts:
                try_example(prompts.prompts[example.prompt], example)
        except PromptError as error:
            wrong.append(error)
    return wrong


def _of_question(prompt: PromptDefinition, example: Example) -> Iterator[_Difference]:
    if example.terms is None or example.show:  # of a shown one, only its passage is rendered
        return
    if missing := prompt.missing(example.terms):
        yield "/terms", "terms are missing", sorted(example.terms), ", ".join(missing)
        return
    try:
        prompt.question(example.terms)
    except RenderError as error:
        yield "/terms", "the question cannot be rendered", str(error), "terms that can be rendered"


def _of_answer(prompt: PromptDefinition, example: Example) -> Iterator[_Difference]:
    outcome = read(example.answer, prompt.contract, finish_reason=example.finish_reason)
    if outcome.reason is not example.reason:
        yield _of_reason(outcome, example)
        return
    if example.reads is not None or outcome.ok:
        yield from islice(_differences(outcome.value, example.reads, ("reads",)), 1)
    refused = len(outcome.rejected)
    if example.refuses not in (None, refused):
        found = f"{refused}: {outcome.explain(1)}" if refused else 0
        yield "/refuses", "the number of rejected objects differs", found, str(example.refuses)
    if example.truncated not in (None, bool(outcome.truncated)):
        expected = str(example.truncated).lower()
        yield "/truncated", "whether the answer is truncated", bool(outcome.truncated), expected
    if example.stage not in (None, stage := outcome.stage.name.lower()):
        yield "/stage", "the reading stage differs", stage, str(example.stage)


def _of_reason(outcome: Outcome, example: Example) -> _Difference:
    found = outcome.reason.value if outcome.ok else f"{outcome.reason.value}: {outcome.explain(1)}"
    if example.reason is Reason.SUCCESS:
        expected = f"a valid answer, or `reason: {outcome.reason.value}`"
        return "/reads", "the answer is rejected", found, expected
    message = "the answer is accepted" if outcome.ok else "the answer is rejected for another reason"
    return "/reason", message, found, example.reason.value


def _differences(read: Any, expected: Any, path: tuple[str | int, ...]) -> Iterator[_Difference]:
    """Where two JSON values differ; 1 and 1.0 are one number."""
    if isinstance(read, dict) and isinstance(expected, dict):
        for key in expected:
            if key in read:
                yield from _differences(read[key], expected[key], (*path, key))
            else:
                yield pointer((*path, key)), "this is missing", list(read), _shown(expected[key])
        for key in read:
            if key not in expected:
                yield pointer((*path, key)), "this was not expected", read[key], "no such key"
    elif isinstance(read, list) and isinstance(expected, list):
        for index, (item, expected_item) in enumerate(zip(read, expected, strict=False)):
            yield from _differences(item, expected_item, (*path, index))
        if len(read) != len(expected):
            at = min(len(read), len(expected))
            more = len(read) > at
            message = "this was not expected" if more else "this is missing"
            ended = f"{len(expected)} in all" if more else _shown(expected[at])
            found = read[at] if more else f"{len(read)} in all"
            yield pointer((*path, at)), message, found, ended
    elif isinstance(read, bool) is not isinstance(expected, bool) or read != expected:
        yield pointer(path), "the value differs", read, _shown(expected)


def _shown(value: Any) -> str:
    return excerpt(json.dumps(value, ensure_ascii=False), _MAX_SHOWN)
