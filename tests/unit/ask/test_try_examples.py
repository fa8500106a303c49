"""Examples of prompts, tried: what must be read of an answer is read, or it is said what is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from trustgraph_prompt.ask import try_example, try_examples
from trustgraph_prompt.errors import PromptError, Reason
from trustgraph_prompt.prompts import Example, PromptDefinition, files

ITEMS = """\
schema Item:
    name: string
    size: int
prompt items expecting Item[] as jsonl: "Of {{ text }}"
"""
ITEM = ITEMS.replace("Item[] as jsonl", "Item")
LIST = ITEMS.replace("[] as jsonl", "[]")
TEXT = 'prompt items: "Of {{ text }}"\n'
STRAY = '{"name": "a", "size": 1}'
CUT = '{"name": "a", "size": 1}\\n{"name": "b", "si'


def tried(folder: Path, prompt: str, *clauses: str) -> list[str]:
    """What is wrong with an example, by the line after that on which it begins."""
    file = folder / "x.prompt"
    file.write_text(prompt + "    example:\n" + "".join(f"        {clause}\n" for clause in clauses))
    read = files.read(file)
    wrong = try_examples(read.build(), read.examples)
    first = prompt.count("\n") + 1
    told = []
    for error in (one for main in wrong for one in (main, *main.others)):
        place, _, message = str(error).removeprefix(f"{file}:").partition(": items: an example: ")
        line, column, *path = place.replace(" ", ":").split(":")
        told.append(" ".join([f"{int(line) - first}:{column}", *path, message]))
    return told


@pytest.mark.parametrize(
    ("prompt", "clauses"),
    [
        (ITEMS, [f"answer: '{STRAY}'", "reads: [{size: 1.0, name: a}]"]),
        (ITEMS, ["answer: '[]'", "reads: []"]),
        (ITEMS, [f"answer: '{CUT}'", "reads: [{name: a, size: 1}]", "truncated: true"]),
        (
            ITEMS,
            [f"answer: '{STRAY}'", "reads: [{name: a, size: 1}]", "truncated: true", "finish-reason: length"],
        ),
        (ITEMS, [f"answer: '{STRAY} {{\"name\": 1}}'", "reads: [{name: a, size: 1}]", "refuses: 1"]),
        (ITEMS, ["answer: 'I cannot.'", "reason: extraction_failed"]),
        (ITEM, [f"answer: 'Yes: {STRAY}'", "reads: {name: a, size: 1}", "stage: extracted"]),
        (ITEM, ['answer: \'{"name": 1, "size": 1}\'', "reason: schema_type_error"]),
        (LIST, [f"answer: '[{STRAY}]'", "reads: [{name: a, size: 1}]"]),
        (LIST, ["answer: '[{}]'", "reason: schema_missing_field", "refuses: 1"]),
        (TEXT, ["answer: Well.", "reads: Well.", "terms: {text: it}"]),
    ],
)
def test_example_that_holds_has_no_finding(tmp_path: Path, prompt: str, clauses: list[str]) -> None:
    assert tried(tmp_path, prompt, *[clause.replace("Well.", '"Well."') for clause in clauses]) == []


@pytest.mark.parametrize(
    ("prompt", "clauses", "told"),
    [
        (
            ITEMS,
            [f"answer: '{STRAY}'", "reads: [{name: b, size: 1}]"],
            ["2:24 /reads/0/name the value differs (found 'a', expected \"b\")"],
        ),
        (
            ITEMS,
            [f"answer: '{STRAY}'", "reads: [{name: a}]"],
            ["2:17 /reads/0/size this was not expected (found 1, expected no such key)"],
        ),
        (
            ITEMS,
            [f"answer: '{STRAY}'", "reads: [{name: a, size: 1, more: true}]"],
            ["2:42 /reads/0/more this is missing (found ['name', 'size'], expected true)"],
        ),
        (
            ITEMS,
            [f"answer: '{STRAY}'", "reads: []"],
            ["2:16 /reads/0 this was not expected (found {'name': 'a', 'size': 1}, expected 0 in all)"],
        ),
        (
            ITEMS,
            ["answer: '[]'", "reads: [{name: a, size: 1}]"],
            ['2:17 /reads/0 this is missing (found \'0 in all\', expected {"name": "a", "size": 1})'],
        ),
        (
            ITEMS,
            [f"answer: '{STRAY}'", "reads: [{name: a, size: true}]"],
            ["2:33 /reads/0/size the value differs (found 1, expected true)"],
        ),
        (
            ITEMS,
            [f"answer: '{CUT}'", "reads: [{name: a, size: 1}]"],
            ["0:5 whether the answer is truncated (found True, expected false)"],
        ),
        (
            ITEMS,
            [f"answer: '{STRAY}'", "reads: [{name: a, size: 1}]", "refuses: 2", "stage: repaired"],
            [
                "3:18 /refuses the number of rejected objects differs (found 0, expected 2)",
                "4:16 /stage the reading stage differs (found 'direct', expected repaired)",
            ],
        ),
        (
            ITEM,
            ["answer: '{}'", "reads: {}"],
            ['2:16 /reads the answer is rejected (found \'schema_missing_field: "name" is missing'],
        ),
        (
            ITEM,
            [f"answer: '{STRAY}'", "reason: truncated"],
            ["2:17 /reason the answer is accepted (found 'success', expected truncated)"],
        ),
        (
            ITEM,
            ["answer: 'no'", "reason: truncated"],
            ["2:17 /reason the answer is rejected for another reason (found 'extraction_failed"],
        ),
        (
            TEXT,
            ['answer: "a"', 'reads: "a"', "terms: {txt: it}"],
            ["3:16 /terms terms are missing (found ['txt'], expected text)"],
        ),
    ],
)
def test_example_that_does_not_hold_names_line_path_and_difference(
    tmp_path: Path, prompt: str, clauses: list[str], told: list[str]
) -> None:
    found = tried(tmp_path, prompt, *clauses)
    assert len(found) == len(told)
    for one, beginning in zip(found, told, strict=True):
        assert one.startswith(beginning)


def test_example_whose_terms_cannot_be_rendered_says_so(tmp_path: Path) -> None:
    prompt = 'prompt items: "{% for a in text %}{{ text|join }}{% endfor %}"\n'
    [told] = tried(tmp_path, prompt, 'answer: "a"', 'reads: "a"', f'terms: {{text: "{"x" * 5000}"}}')
    assert "the question cannot be rendered" in told


def test_example_may_be_made_without_a_file() -> None:
    entry = {"dialect": "jinja", "prompt": "x", "response-type": "json"}
    prompt = PromptDefinition.from_entry("p", entry)
    try_example(prompt, Example("p", "[1, 2]", reads=[1, 2]))
    try_example(prompt, Example("p", "[1, ", reason=Reason.TRUNCATED))
    with pytest.raises(PromptError, match="p: an example: the value differs") as raised:
        try_example(prompt, Example("p", "[1, 2]", reads=[1, 3]))
    assert raised.value.where is None


def test_example_with_a_large_answer_is_tried_in_bounded_time(tmp_path: Path) -> None:
    lines = "".join(f'        {{"name": "a", "size": {n}}}\n' for n in range(10_000))
    file = tmp_path / "x.prompt"
    file.write_text(
        f'{ITEMS}    example "long":\n        answer: """\n{lines}        """\n        reads: []\n', "utf-8"
    )
    read = files.read(file)
    [error] = try_examples(read.build(), read.examples)
    assert "expected 0 in all" in str(error)
    assert len(str(error)) < 1_000
