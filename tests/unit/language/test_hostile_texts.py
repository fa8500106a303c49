"""Texts made to do harm are refused in little time, and lark is loaded for nobody who reads none."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress

import pytest

from tests.support.hostile_sources import HOSTILE, LARGE
from tests.support.steps import is_linear
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.errors import LanguageError
from trustgraph_prompt.language import format, parse, to_json_schema

Text = Callable[[int], str]

LONG = 256 * 1024
SOME = 4_000
"""Characters; four times as many are read as well."""


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_texts_are_refused(text: Text) -> None:
    with pytest.raises(LanguageError) as caught:
        parse(text(LONG))
    assert len(str(caught.value)) < 1_000


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_texts_are_read_in_linear_time(text: Text) -> None:
    def refused(size: int) -> None:
        with suppress(LanguageError):
            parse(text(size))

    assert is_linear(refused, SOME)


@pytest.mark.parametrize("text", LARGE.values(), ids=LARGE)
def test_large_valid_texts_are_read_and_formatted(text: Text) -> None:
    assert parse(format(text(LONG // 2))) == parse(text(LONG // 2))


@pytest.mark.parametrize("text", LARGE.values(), ids=LARGE)
def test_large_valid_texts_are_formatted_in_linear_time(text: Text) -> None:
    assert is_linear(lambda size: parse(format(text(size))), SOME)


def test_bases_inherited_along_many_paths_are_counted_once() -> None:
    pairs = (
        f"schema A{n} extends A{n - 1}, B{n - 1}:\n a{n}:int\n"
        f"schema B{n} extends A{n - 1}, B{n - 1}:\n b{n}:int\n"
        for n in range(1, 40)
    )
    contracts = Contract.language("schema A0:\n a0:int\nschema B0:\n b0:int\n" + "".join(pairs))
    schema = contracts["A39"].schema
    assert isinstance(schema, dict)
    assert len(schema["properties"]) == 79


def test_union_of_schemas_with_many_common_fields_is_written_in_linear_time() -> None:
    def written(size: int) -> None:
        base = "schema A:\n" + "".join(f" f{n}: 'x'\n" for n in range(size))
        heirs = "".join(f"schema B{n} extends A:\n b{n}: int\n" for n in range(5))
        to_json_schema(parse(f"{base}{heirs}schema Z:\n z: B0 | B1 | B2 | B3 | B4\n"), "Z")

    assert is_linear(written, 100)


def test_lark_is_imported_only_when_a_text_is_read() -> None:
    program = (
        "import sys; from trustgraph_prompt import Contract; import trustgraph_prompt.language as language;"
        "before = 'lark' in sys.modules; Contract.language('schema A:\\n  a: int');"
        "print(before, 'lark' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
