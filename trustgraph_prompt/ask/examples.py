"""The examples of prompts, tried: no model is asked, the answers are there already."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from trustgraph_prompt.contract.pointer import pointer
from trustgraph_prompt.errors import PromptError, RenderError, excerpt
from trustgraph_prompt.prompts import Example, PromptDefinition, PromptSet
from trustgraph_prompt.reader import Outcome, Stage, read

_MAX_SHOWN = 120  # characters of a value in a message


class _Difference(NamedTuple):
    """Something that is other than an example says, and under which of its clauses that stands."""

    path: str
    message: str
    found: Any
    expected: str


def try_example(prompt: PromptDefinition, example: Example) -> None:
    """Read the answer of an example as the prompt does, and write its question where it has terms.

    Raises `PromptError` for what is other than the example says, with the place where it says so; what else
    is, are its `others`.
    """
    errors = [
        PromptError(
            f"{example}: {found.message}",
            where=example.places.of(found.path),
            path=found.path,
            found=found.found,
            expected=found.expected,
        )
        for found in (*_of_question(prompt, example), *_of_answer(prompt, example))
    ]
    if errors:
        first, *others = errors
        first.others = tuple(others)
        raise first


def try_examples(prompts: PromptSet, examples: Iterable[Example]) -> list[PromptError]:
    """What is wrong with examples of these prompts, in their order; those of other prompts are left out."""
    wrong: list[PromptError] = []
    for example in examples:
        try:
            if example.prompt in prompts.prompts:
                try_example(prompts.prompts[example.prompt], example)
        except PromptError as error:
            wrong.append(error)
    return wrong


def _of_question(prompt: PromptDefinition, example: Example) -> Iterator[_Difference]:
    if example.terms is None:
        return
    if missing := prompt.missing(example.terms):
        yield _Difference("/terms", "terms are missing", sorted(example.terms), ", ".join(missing))
        return
    try:
        prompt.question(example.terms)
    except RenderError as error:
        yield _Difference("/terms", "the question cannot be written", str(error), "terms that do")


def _of_answer(prompt: PromptDefinition, example: Example) -> Iterator[_Difference]:
    outcome = read(example.answer, prompt.contract, finish_reason=example.finish_reason)
    if outcome.reason is not example.reason:
        found = outcome.reason.value if outcome.ok else f"{outcome.reason.value}: {outcome.explain(1)}"
        yield _Difference("/reason", "the answer is not judged so", found, example.reason.value)
    elif example.reads is not None or outcome.ok:
        yield from _first(_differences(outcome.value, example.reads, ("reads",)))
    yield from _of_reading(outcome, example)


def _of_reading(outcome: Outcome, example: Example) -> Iterator[_Difference]:
    """How it was read, as far as the example speaks of it."""
    refused = len(outcome.rejected)
    if example.refuses not in (None, refused):
        told = f"{refused}: {outcome.explain(1)}" if refused else "0"
        yield _Difference("/refuses", "another number of objects is refused", told, str(example.refuses))
    if example.truncated not in (None, bool(outcome.truncated)):
        expected = (
            "an answer that is cut off" if example.truncated else "a whole answer, or `truncated: true`"
        )
        found = "cut off" if outcome.truncated else "not known to be cut off"
        yield _Difference("/truncated", "the end of the answer", found, expected)
    if example.stage is not None and outcome.stage is not Stage[example.stage.upper()]:
        yield _Difference(
            "/stage", "it takes more or less to read it", outcome.stage.name.lower(), example.stage
        )


def _first(differences: Iterator[_Difference]) -> Iterator[_Difference]:
    first = next(differences, None)
    if first is not None:
        yield first


def _differences(read: Any, expected: Any, path: tuple[str | int, ...]) -> Iterator[_Difference]:
    """Where two JSON values differ; 1 and 1.0 are one number."""
    if isinstance(read, dict) and isinstance(expected, dict):
        for key in expected:
            if key in read:
                yield from _differences(read[key], expected[key], (*path, key))
            else:
                yield _Difference(
                    pointer((*path, key)), "this was not read", list(read), _shown(expected[key])
                )
        for key in read:
            if key not in expected:
                yield _Difference(pointer((*path, key)), "this was read, too", read[key], "no such key")
    elif isinstance(read, list) and isinstance(expected, list):
        for index, (one, other) in enumerate(zip(read, expected, strict=False)):
            yield from _differences(one, other, (*path, index))
        if len(read) != len(expected):
            at = min(len(read), len(expected))
            more = len(read) > at
            message = "this was read, too" if more else "this was not read"
            ended = f"{len(expected)} in all" if more else _shown(expected[at])
            found = read[at] if more else f"{len(read)} in all"
            yield _Difference(pointer((*path, at)), message, found, ended)
    elif isinstance(read, bool) is not isinstance(expected, bool) or read != expected:
        yield _Difference(pointer(path), "something else was read", read, _shown(expected))


def _shown(value: Any) -> str:
    return excerpt(json.dumps(value, ensure_ascii=False), _MAX_SHOWN)
