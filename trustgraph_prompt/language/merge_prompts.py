"""Declarations of one prompt in several places of a file, taken together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from trustgraph_prompt.json_text.pointer import pointer, steps
from trustgraph_prompt.language.nodes import File, Position, PromptDef
from trustgraph_prompt.language.problem import Problem
from trustgraph_prompt.language.write import spell_type


def merged(file: File, lost: Collection[str] = ()) -> tuple[File, list[Problem]]:
    """The file with one prompt of each name, in the order of their first declarations, and what is wrong.

    The last text that is not empty counts, and the last condition of escalation; examples add up. The model,
    what is expected and the other settings may stand in any declaration, and in several if they say the same.
    Prompts in `lost` have declarations that could not be read, and perhaps their text there.
    """
    problems: list[Problem] = []
    prompts: dict[str, PromptDef] = {}
    places: dict[str, list[Position | None]] = {}
    for declared in file.prompts:
        name = declared.name
        places.setdefault(name, []).append(declared.at)
        prompts[name] = _both(prompts[name], declared, problems) if name in prompts else declared
    problems += [
        _without_text(prompt, places[name])
        for name, prompt in prompts.items()
        if not prompt.text.strip() and name not in lost
    ]
    return replace(file, prompts=tuple(prompts.values())), problems


def _without_text(prompt: PromptDef, places: list[Position | None]) -> Problem:
    lines = ", ".join(str(at.line) for at in places[1:] if at is not None)
    message = f"the prompt {prompt.name} has no text" + (f", here or in line {lines}" if lines else "")
    return Problem(message, prompt.at, "nothing", 'text: """…""", or a text after the colon')


def _both(first: PromptDef, then: PromptDef, problems: list[Problem]) -> PromptDef:
    """What two declarations of a prompt say together."""

    def differs(how: str, at: Position | None, found: Any, there: Position | None, expected: Any) -> None:
        line = "" if there is None else f" in line {there.line}"
        problems.append(
            Problem(f"the prompt {first.name} {how}{line}", at, found, f"{expected!r} or nothing")
        )

    if None not in (first.model, then.model) and first.model != then.model:
        differs("names a different model", then.model_at, then.model, first.model_at, first.model)
    if first.expecting is not None and then.expecting is not None and _expected(first) != _expected(then):
        at, there = then.expecting.at, first.expecting.at
        differs("expects a different type", at, _expected(then), there, _expected(first))

    def another(path: str, found: Any, expected: Any) -> None:
        differs(
            f"has a different value for {'/'.join(steps(path))}",
            then.places.get(path),
            found,
            first.places.get(path),
            expected,
        )

    named = first if then.model is None else then
    expecting = first if then.expecting is None else then
    spoken = then if then.text.strip() else first
    places = {**then.places, **first.places}
    if "/text" in spoken.places:
        places["/text"] = spoken.places["/text"]
    return replace(
        first,
        text=spoken.text,
        model=named.model,
        model_at=named.model_at,
        expecting=expecting.expecting,
        layout=expecting.layout,
        settings=_filled(first.settings, then.settings, another),
        escalation=then.escalation or first.escalation,
        examples=first.examples + then.examples,
        places=places,
    )


def _expected(prompt: PromptDef) -> str:
    assert prompt.expecting is not None
    return spell_type(prompt.expecting) + (" as jsonl" if prompt.layout == "jsonl" else "")


def _filled(
    first: Mapping[str, Any],
    then: Mapping[str, Any],
    differs: Callable[[str, Any, Any], None],
    path: str = "",
) -> dict[str, Any]:
    """The settings of both, those of an object one by one; `differs` is told of each that has two values."""
    both = dict(first)
    for key, value in then.items():
        at = path + pointer([key])
        former = both.setdefault(key, value)
        if isinstance(former, Mapping) and isinstance(value, Mapping):
            both[key] = _filled(former, value, differs, at)
        elif _as_json(former) != _as_json(value):
            differs(at, value, former)
    return both


def _as_json(value: Any) -> Any:
    """A value as JSON compares it: 1 is 1.0, and not true."""
    if isinstance(value, list):
        return [_as_json(one) for one in value]
    if isinstance(value, Mapping):
        return {key: _as_json(one) for key, one in value.items()}
    return (isinstance(value, bool), value)
