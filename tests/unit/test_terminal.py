"""What comes from outside is shown to a person, and obeyed by no terminal."""

from __future__ import annotations

import io
import json
import logging
import sys

import pytest

from trustgraph_prompt.cli import output
from trustgraph_prompt.terminal import harmless
from trustgraph_prompt.worker.telemetry import logs

ESCAPES = {
    "clears the screen": "\x1b[2J",
    "writes to the clipboard": "\x1b]52;c;ZXZpbA==\x07",
    "in one character": "\x9b2J",
    "turns the text around": "a\u202eb",
    "overwrites the line": "a\rb",
    "takes back": "a\x08b\x7f",
    "cannot be encoded": "a\ud800b",
}
HARMFUL = set("\x07\x08\r\x1b\x7f\x9b\u202e\ud800")


class Terminal(io.StringIO):
    def __init__(self, *, is_one: bool) -> None:
        super().__init__()
        self._is_one = is_one

    def isatty(self) -> bool:
        return self._is_one


@pytest.mark.parametrize("text", ESCAPES.values(), ids=ESCAPES)
def test_control_characters_are_shown_in_place_of_obeyed(text: str) -> None:
    shown = harmless(f"{text}\nünï 🌋")
    assert not HARMFUL & set(shown)
    assert shown.endswith("\nünï 🌋")


@pytest.mark.parametrize("text", ESCAPES.values(), ids=ESCAPES)
@pytest.mark.parametrize("pretty", [False, True])
def test_json_for_programs_has_escapes_for_control_characters(text: str, pretty: bool) -> None:
    value = {text: [text, "ünï"]}
    printed = output.json_text(value, pretty=pretty)
    assert not HARMFUL & set(printed)
    assert "ünï" in printed
    assert json.loads(printed) == value


@pytest.mark.parametrize("is_one", [True, False], ids=["for people", "as JSON"])
@pytest.mark.parametrize("text", ESCAPES.values(), ids=ESCAPES)
def test_log_shows_no_control_characters_from_outside(
    root_log: logging.Logger, monkeypatch: pytest.MonkeyPatch, text: str, is_one: bool
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal(is_one=is_one))
    logs.configure()
    with logs.about(request=text):
        try:
            raise ValueError(text)
        except ValueError:
            root_log.exception("refused %s", text)
    written = terminal.getvalue()
    assert "refused" in written
    assert not HARMFUL & set(written)
    if not is_one:
        line = json.loads(written)
        assert (line["message"], line["request"]) == (f"refused {text}", text)


@pytest.mark.parametrize("is_one", [True, False], ids=["for people", "as JSON"])
def test_log_line_of_a_huge_id_is_short(
    root_log: logging.Logger, monkeypatch: pytest.MonkeyPatch, is_one: bool
) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal(is_one=is_one))
    logs.configure()
    long = "x" * 1_000_000
    with logs.about(request=long, flow="f"):
        try:
            raise ValueError(long)
        except ValueError:
            root_log.exception("refused %s", long)
    assert len(terminal.getvalue()) < 40_000
    assert terminal.getvalue().count("x…") == 3
