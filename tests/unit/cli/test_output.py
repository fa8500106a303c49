"""What the commands write."""

from __future__ import annotations

from trustgraph_prompt.cli.output import json_text


def test_json_text_of_a_lone_surrogate_can_be_written() -> None:
    assert json_text({"ä": "日本"}) == '{"ä": "日本"}'
    assert json_text({"a": "\ud800"}) == '{"a": "\\ud800"}'
