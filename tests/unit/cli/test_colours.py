"""Colours are for terminals."""

from __future__ import annotations

import io

import pytest

from trustgraph_prompt.cli import output


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colours_go_to_a_terminal_only_and_not_against_its_users_wish(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert output.paint("+ new", "green", Terminal()) == "\x1b[32m\x1b[1m+ new\x1b[0m"
    assert output.paint("+ new", "green", io.StringIO()) == "+ new"
    monkeypatch.setenv("NO_COLOR", "1")
    assert output.paint("+ new", "green", Terminal()) == "+ new"
