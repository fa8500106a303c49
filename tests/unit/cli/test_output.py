"""What the commands write: JSON, and colours for terminals."""

from __future__ import annotations

import io

import pytest

from trustgraph_prompt.cli import output


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_json_text_of_a_lone_surrogate_can_be_written() -> None:
    assert output.json_text({"ä": "日本"}) == '{"ä": "日本"}'
    assert output.json_text({"a": "\ud800"}) == '{"a": "\\ud800"}'


def test_colours_are_written_to_terminals_only_and_not_with_no_color(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert output.paint("+ new", "green", Terminal()) == "\x1b[32m\x1b[1m+ new\x1b[0m"
    assert output.paint("+ new", "green", io.StringIO()) == "+ new"
    monkeypatch.setenv("NO_COLOR", "1")
    assert output.paint("+ new", "green", Terminal()) == "+ new"
