"""What the commands say of an outcome."""

from __future__ import annotations

import pytest
import typer

from trustgraph_prompt.cli.output import json_text, print_outcome
from trustgraph_prompt.contract import Contract
from trustgraph_prompt.reader import read

NUMBERED = Contract.from_schema({"required": ["n"]}, format="jsonl")


def test_each_reason_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as caught:
        print_outcome(read('{"m": 1}', NUMBERED), as_json=False)
    assert caught.value.exit_code == 1
    assert capsys.readouterr().err == ('refused object 1: "n" is missing\nerror: schema_missing_field\n')


def test_what_is_wrong_with_the_one_value_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        print_outcome(read('Here: {"m": 1}', Contract.from_schema({"required": ["n"]})), as_json=False)
    assert capsys.readouterr().err == 'error: schema_missing_field: "n" is missing\n'


def test_a_reason_that_no_object_has_told_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        print_outcome(read("no idea", NUMBERED), as_json=False)
    assert capsys.readouterr().err == "error: extraction_failed: no object in the answer\n"


def test_json_is_text_that_can_be_written() -> None:
    assert json_text({"ä": "日本"}) == '{"ä": "日本"}'
    assert json_text({"a": "\ud800"}) == '{"a": "\\ud800"}'
