"""Hostile text with repair allowed: still read in linear time, with bounded effort."""

from __future__ import annotations

import pytest

from tests.support.steps import is_linear
from trustgraph_prompt.contract import Contract, Format
from trustgraph_prompt.errors import Reason
from trustgraph_prompt.reader import read

LONG = 300
CONTRACTS = {format: Contract.from_schema(None, format=format, repair=True) for format in ("json", "jsonl")}
STARTS = ["", "{", "{'", '{"a":[{"b":"']
TOKENS = [
    "[",
    "{",
    '"',
    "'",
    "`",
    "“",
    "\\",
    "}",
    "]",
    "(",
    ",",
    ":",
    ";",
    "=",
    "-",
    "#",
    "+",
    "\n",
    " ",
    "\u00a0",
    "a",
    "1",
    "a ",
    "a: ",
    "x,",
    "a=b, ",
    '{"a":',
    '{"',
    "{x",
    "[x",
    "{a}",
    "[a,",
    "[1,",
    "{'a':",
    "'a': 'b', ",
    '"a" ',
    '"a",',
    '"a',
    '"a"x',
    '"a"]',
    '"a":',
    '"x" + ',
    '+"',
    ', b: "',
    "\"x, b: 'y, ",
    '\n"a": ',
    '"a\\"b"',
    '""',
    '""a"":',
    "//",
    "/*",
    "...",
    "```\n",
    '\\"',
    "\\u",
    "&quot;",
    "true ",
    "f(",
    '{"a":1} ',
    "{'a':'b'}\n",
    '{"a":"b"\n',
    "{a:b}\n",
    '{"a":"x" y"}\n',
    '{"a":1\n',
    '{\n"a": 1,\n"b": x\n}\n',
    '{"items":[{"a":1},{"b":x},',
    '{"a":[1,{"b":"c}]"},]}\n[}',
]


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize("format", ["json", "jsonl"])
def test_unrepairable_text_is_given_up_in_linear_time(token: str, format: Format) -> None:
    def read_long(size: int) -> None:
        for start in STARTS:
            text = (start + token * size)[:size]
            assert read(text, CONTRACTS[format]).reason in Reason

    assert is_linear(read_long, LONG)
