"""Texts made to do harm are refused in little time, and lark is loaded for nobody who reads none."""

# ruff: noqa: E501  (tables)

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.errors import LanguageError
from trustgraph_prompt.language import format, parse

MB = 1024 * 1024
SECONDS = 30.0
"""What a text may take at most on a machine that has much else to do; none takes more than four alone."""


def hostile() -> dict[str, str]:
    return {
        "words": "schema " * (MB // 7),
        "one word": "a" * MB,
        "one name": f"schema {'a' * (MB - 20)}",
        "brackets": "schema A:\n  a: any = " + "[" * 10_000,
        "parentheses": "schema A:\n  a: " + "(" * 10_000,
        "maps": "schema A:\n  a: " + "map[" * 10_000,
        "lists of lists": "schema A:\n  a: int" + "[]" * 10_000,
        "optional": "schema A:\n  a: int" + "?" * 20_000,
        "fields": "schema A:\n" + "".join(f" f{n}:int\n" for n in range(100_000))[: MB - 20],
        "some fields": "schema A:\n" + "".join(f" f{n}:int\n" for n in range(10_000)),
        "unknown types": "schema A:\n" + "".join(f" f{n}:x{n}\n" for n in range(10_000)),
        "schemas": "".join(f"schema A{n}:\n a:int\n" for n in range(5_000)),
        "a line of bases": "schema A0:\n a:int\n" + "".join(f"schema A{n} extends A{n - 1}:\n" for n in range(1, 99)),
        "a circle of bases": "".join(f"schema A{n} extends A{(n + 1) % 99}:\n a:int\n" for n in range(99)),
        "constraints": "schema A:\n a: int " + "@min(1) " * 9_000,
        "digits": "schema A:\n a: " + "9" * (MB - 20),
        "NULs": "\0" * MB,
        "returns": "\r" * MB,
        "quotes": '"' * MB,
        "single quotes": "'\n" * (MB // 2),
        "backslashes": 'prompt x: "' + "\\" * (MB - 20),
        "an open text": 'prompt x: """' + "a\n" * (MB // 2 - 10),
        "indentation": "schema A:\n" + "".join(" " * n + "a: int\n" for n in range(1, 1_400)),
        "tabs and spaces": "schema A:\n" + "\ta: int\n        b: int\n" * 1_000,
        "errors": "".join(f"schema A{n} b\n" for n in range(4_000)),
        "the same key": "prompt x: 'a'\n" + "".join(f" a: {n}\n" for n in range(10_000)),
        "a half character": "schema A:\n a: '\ud800'",
        "too much": " " * (MB + 1),
    }  # fmt: skip


@pytest.mark.parametrize("name", hostile())
def test_hostile_texts_are_refused_soon(name: str) -> None:
    started = time.process_time()
    with pytest.raises(LanguageError) as caught:
        parse(hostile()[name])
    assert time.process_time() - started < SECONDS
    assert len(str(caught.value)) < 1_000


@pytest.mark.parametrize(
    "text",
    [
        "\n" * MB,
        "\r\n" * (MB // 2),
        "#\n" * (MB // 2),
        'prompt x: """' + "a\n" * (MB // 2 - 10) + '"""',
        "schema A:\n a: " + " | ".join(f"'{n}'" for n in range(20_000)),
        "prompt x: 'a'\n a: " + "{b:" * 9 + "[" + "1," * 15_000 + "]" + "}" * 9,
        "schema A:\n"
        + "".join(f" a{n}: int\n" for n in range(990))
        + "".join(f"schema B{n} extends A:\n b: B{n + 1}\n" for n in range(98))
        + "schema B98:\n b: int",
    ],
    ids=["lines", "CRLF", "comments", "a text", "a union", "a value", "schemas that hold each other"],
)
def test_large_texts_that_are_right_are_read_and_formatted_soon(text: str) -> None:
    started = time.process_time()
    assert parse(format(text)) == parse(text)
    assert time.process_time() - started < 2 * SECONDS


def test_bases_that_multiply_are_counted_once() -> None:
    pairs = (
        f"schema A{n} extends A{n - 1}, B{n - 1}:\n a{n}:int\nschema B{n} extends A{n - 1}, B{n - 1}:\n b{n}:int\n"
        for n in range(1, 40)
    )
    contracts = Contract.language("schema A0:\n a0:int\nschema B0:\n b0:int\n" + "".join(pairs))
    schema = contracts["A39"].schema
    assert isinstance(schema, dict)
    assert len(schema["properties"]) == 79


def test_lark_is_imported_when_a_text_is_read_and_not_before() -> None:
    program = (
        "import sys; from trustgraph_prompt import Contract; import trustgraph_prompt.language as language;"
        "before = 'lark' in sys.modules; Contract.language('schema A:\\n  a: int');"
        "print(before, 'lark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
