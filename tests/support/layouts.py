"""Every layout in which models write many objects, as text that says where each object stands."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

# A text in parts, each with whether it is an object of the answer.
Parts = Iterator[tuple[str, bool]]
Layout = Callable[[Iterable[Any]], Parts]

THINKING = ["think", "thinking", "thought", "thoughts", "reasoning", "reflection", "scratchpad", "analysis"]
NOTATIONS = {  # what opens and what closes the thinking of other models
    "gpt-oss": ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    "gpt-oss with a schema": (
        "<|channel|>analysis<|message|>",
        "<|channel|>final <|constrain|>json<|message|>",
    ),
    "gpt-oss calling": (
        "<|channel|>commentary to=f <|constrain|>json<|message|>",
        "<|call|><|channel|>final<|message|>",
    ),
    "Magistral": ("[THINK]", "[/THINK]"),
    "Gemma 4": ("<|channel>thought\n", "<channel|>"),
    "Command A": ("<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>"),
    "Seed": ("<seed:think>", "</seed:think>"),
    "MiniMax": ("<mm:think>", "</mm:think>"),
    "Kimi": ("◁think▷", "◁/think▷"),
    "OpenThinker": ("<|begin_of_thought|>", "<|end_of_thought|>\n\n<|begin_of_solution|>"),
}
WRAPPERS = [
    "answer",
    "data",
    "entries",
    "items",
    "list",
    "objects",
    "output",
    "records",
    "response",
    "result",
    "results",
    "values",
    "Items",
    "of no known name",
    'größe \\"\\u00e9',
]


@dataclass(frozen=True)
class Answer:
    """The text of an answer, its objects, and where each of them begins and ends."""

    text: str
    objects: list[Any]
    spans: list[tuple[int, int]]

    def complete_at(self, cut: int) -> list[Any]:
        """The objects that have ended there."""
        return [value for value, (_, end) in zip(self.objects, self.spans, strict=True) if end <= cut]

    def is_within_object(self, cut: int) -> bool:
        return any(start < cut < end for start, end in self.spans)


def answer(layout: str, objects: list[Any]) -> Answer:
    text, spans = "", []
    for part, is_object in LAYOUTS[layout](objects):
        if is_object:
            spans.append((len(text), len(text) + len(part)))
        text += part
    return Answer(text, objects, spans)


def _said(value: Any, index: int, indent: int | str | None = None, margin: str = "") -> str:
    return json.dumps(value, indent=indent, ensure_ascii=index % 2 == 0).replace("\n", f"\n{margin}")


def _listed(
    start: str, separator: str, end: str, indent: int | str | None = None, margin: str = ""
) -> Layout:
    """One text around all objects."""

    def parts(objects: Iterable[Any]) -> Parts:
        yield start, False
        for index, value in enumerate(objects):
            if index:
                yield separator, False
            yield _said(value, index, indent, margin), True
        yield end, False

    return parts


def _each(before: str, behind: str, indent: int | str | None = None, margin: str = "") -> Layout:
    """A text around each object, in which `{n}` is its number."""

    def parts(objects: Iterable[Any]) -> Parts:
        for index, value in enumerate(objects):
            yield before.replace("{n}", str(index + 1)), False
            yield _said(value, index, indent, margin), True
            yield behind, False

    return parts


def _pairs(objects: Iterable[Any]) -> Parts:
    """Two objects in each fence, of which every other holds an array."""
    values = list(objects)
    for index in range(0, len(values), 2):
        start, separator, end = ("[", ", ", "]") if index % 4 else ("", "\n", "")
        yield from _listed(f"Part {index}:\n```json\n{start}", separator, f"{end}\n```\n\n")(
            values[index : index + 2]
        )


DRAFT = 'Perhaps {"id": 0, "a": {"id": -1}} or [{"id": 0}, or {"id": {"?": \n```json\n{"id": 0}\n```\n'

LAYOUTS: dict[str, Layout] = {
    "lines": _listed("", "\n", ""),
    "lines to the end": _listed("", "\n", "\n"),
    "crlf": _listed("", "\r\n", "\r\n"),
    "blank lines": _listed("\n\n", "\n \n\n", "\n\n"),
    "indented lines": _listed("   ", "\n\t", "\n"),
    "pretty": _listed("", "\n", "\n", indent=2),
    "pretty with tabs": _listed("", "\n\n", "\n", indent="\t"),
    "pretty without indent": _listed("", "\n", "\n", indent=0),
    "pretty crlf": _listed("", "\r\n", "\r\n", indent=2, margin="\r"),
    "array": _listed("[", ", ", "]"),
    "tight array": _listed("[", ",", "]"),
    "array of lines": _listed("[\n  ", ",\n  ", "\n]"),
    "pretty array": _listed("[\n", ",\n", "\n]", indent=4),
    "indented pretty array": _listed("[\n  ", ",\n  ", "\n]\n", indent=2, margin="  "),
    "arrays": _each("[", "]\n"),
    "array in prose": _listed("Here you are: [", ", ", "], which is all."),
    **{f"wrapper {name}": _listed(f'{{"{name}": [', ", ", "]}") for name in WRAPPERS},
    "pretty wrapper": _listed('{\n  "found": [\n    ', ",\n    ", "\n  ]\n}\n", indent=2, margin="    "),
    "pretty wrapper in a fence": _listed(
        '```json\n{\n  "items": [\n', ",\n", "\n  ]\n}\n```\n", indent=2, margin="    "
    ),
    "wrappers": _each('{"items": [', "]}\n"),
    "joined": _listed("", "", ""),
    "several on a line": _listed("", " ", "\n"),
    "commas": _listed("", ",\n", ","),
    "commas on a line": _listed("", ", ", ""),
    "commas in front": _listed("", "\n, ", "\n"),
    "semicolons": _listed("", ";\n", ";\n"),
    "numbered": _each("{n}. ", "\n"),
    "numbered with brackets": _each("{n}) ", "\n\n"),
    "numbered pretty": _each("{n}. ", "\n", indent=2, margin="   "),
    "numbered headlines": _each("### {n}. Object\n\n", "\n\n", indent=2),
    "bold headlines": _each("**Object {n}:** ", "\n"),
    "bullets": _each("- ", "\n"),
    "stars": _each("* ", "\n"),
    "nested bullets": _each("- object {n}\n    - ", "\n"),
    "pretty bullets": _each("- ", "\n", indent=2, margin="  "),
    "inline code": _each("- `", "`\n"),
    "fence": _listed("Here:\n```json\n", "\n", "\n```\nDone."),
    "fence without tag": _listed("```\n", "\n", "\n```"),
    "fence on one line": _listed("```json ", " ", " ```"),
    "unclosed fence": _listed("```jsonl\n", "\n", ""),
    "unclosed fence of an array": _listed("```json\n[", ",\n", "]"),
    "fence crlf": _listed("```json\r\n", "\r\n", "\r\n```\r\n"),
    "tildes": _listed("~~~json\n", "\n", "\n~~~\n"),
    "four backticks": _listed("````json\n", "\n", "\n````\n"),
    "fence in a fence": _listed("````markdown\n```json\n", "\n", "\n```\n````\n"),
    "fenced array": _listed("```json\n[\n", ",\n", "\n]\n```", indent=2),
    "fences": _each("Next:\n```json\n", "\n```\n"),
    "pretty fences": _each("```JSON\n", "\n```\n\n", indent=2),
    "fences of two": _pairs,
    "fences in a list": _each("- first:\n  ```json\n  ", "\n  ```\n", indent=2, margin="  "),
    "fences in a numbered list": _each(
        "{n}. **One** of [1]:\n\n    ```json\n    ", "\n    ```\n\n", indent=2, margin="    "
    ),
    "prose": _listed("It's {so}: ", " and ", '. That\'s "all" [1].'),
    "prose with an apostrophe": _each("Here's object {n} (it's [one], isn't it?): ", " - that's it.\n"),
    "prose with mathematics": _each("On [0, 1) holds $\\frac{a}{b}$, {x : x > 0} too: ", ".\n"),
    "prose of lines": _each("The next one is number {n}:\n\n", "\n\nIt was found in the text.\n"),
    "quoted": _each("> ", "\n"),
    "quoted bullets": _each("> - ", "\n>\n"),
    "table": _each("| {n} | ", " |\n"),
    "whole table": _listed("| object |\n|---|\n| ", " |\n| ", " |\n"),
    "assignments": _each("object_{n} = ", ";\n"),
    "calls": _each("emit(", ")\n"),
    "events": _each("data: ", "\n\n"),
    "record separators": _each("\x1e", "\n"),
    "log lines": _each("[2026-11-21 08:00:0{n}] ", "\n"),
    "html": _listed("<answer>\n", "\n", "\n</answer>"),
    "elements": _each("<li>", "</li>\n"),
    "bom": _listed("\ufeff", "\n", ""),
    "bom and fence": _listed("\ufeff```json\n", "\n", "\n```\n"),
    **{f"{tag} before lines": _listed(f"<{tag}>{DRAFT}</{tag}>\n", "\n", "\n") for tag in THINKING},
    **{
        f"thinking of {model}": _listed(f"{opens}{DRAFT} or ```{{{closes}\n", "\n", "\n")
        for model, (opens, closes) in NOTATIONS.items()
    },
    "two wrappers": _listed('{"result": {"entities": [', ", ", "]}}"),
    "four wrappers": _listed('{"a": {\n"b":{"c" : { "d": [', ",\n", ']}}, "status": {"ok": true}}}'),
    "THINK before an array": _listed(f"<THINK>\n{DRAFT}\n</THINK>\n\n[", ",\n", "]"),
    "thinking on a line": _listed('<think>or {"id": 0}?</think>', "\n", ""),
    "thinking before a fence": _listed(f"<think>{DRAFT}</think>\n```json\n", "\n", "\n```\n"),
    "thinking between": _each('<think>{"id": 0}, {\n</think>\n', "\n"),
    "empty thinking": _listed("<think>\n\n</think>\n\n", "\n", "\n"),
    "thinking after thinking": _listed(
        f"<think>{DRAFT}</think>\n<reflection>{DRAFT}</reflection>\n", "\n", "\n"
    ),
}
