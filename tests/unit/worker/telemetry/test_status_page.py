"""The status page: what it shows, escaped, and what it may do in a browser."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import Any

import pytest

from tests.support.status_counts import SCHEMA
from trustgraph_prompt.worker.telemetry import health, status_page
from trustgraph_prompt.worker.telemetry.health import Reasons
from trustgraph_prompt.worker.telemetry.status_page import _Rendered

HOSTILE = "<script>alert(1)</script>\"'&<!--head-->{{ 7 * 7 }}\ud800"


def filled(schema: dict[str, Any], text: str) -> Any:
    """A value of a schema in which each text is `text`, and each list has one element."""
    if "$ref" in schema:
        schema = {**SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]], **schema}
    if "anyOf" in schema:
        return filled(next(part for part in schema["anyOf"] if part != {"type": "null"}), text)
    if "const" in schema or "enum" in schema:
        return schema.get("const") or schema["enum"][0]
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    match kinds[0]:
        case "object":
            members = {name: filled(part, text) for name, part in schema.get("properties", {}).items()}
            more = schema.get("additionalProperties")
            return members | ({text: filled(more, text)} if more else {})
        case "array":
            return [filled(schema["items"], text)] * schema.get("minItems", 1)
        case "string":
            return "2026-01-31T12:00:00.000Z" if schema.get("format") else text
        case "boolean":
            return True
    return 7


def test_page_escapes_hostile_values_in_every_field_of_the_schema() -> None:
    document = filled(SCHEMA, HOSTILE)
    page = _Rendered(document).page
    harmless = page.replace(status_page._script(), "")
    assert len(re.findall("<script", harmless)) == 1
    assert "alert(1)" in harmless
    assert "{{ 7 * 7 }}" in harmless
    assert not re.search("=['\"]?<", harmless)
    sections = _Rendered(document).sections
    assert list(sections) == [
        "head",
        "problems",
        "totals",
        "flows",
        "prompts",
        "provider",
        "config",
        "outcomes",
    ]
    assert all(page.count(f'id="{name}"') == 1 for name in sections)


def test_policy_allows_only_the_style_and_the_script_of_the_page() -> None:
    page = _Rendered(filled(SCHEMA, "a")).page
    policy = dict(part.split(" ", 1) for part in status_page.headers()["Content-Security-Policy"].split("; "))
    for name, element in (("style-src", "style"), ("script-src", "script")):
        [inline] = re.findall(f"<{element}>(.*?)</{element}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
        assert policy.pop(name) == f"'sha256-{digest}'"
    assert policy == {
        "default-src": "'none'",
        "connect-src": "'self'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    assert not re.search(r"\sstyle=|\son\w+=|https?://(?!json-schema)", page)


@pytest.mark.parametrize(
    ("counts", "path"),
    [
        ([0, 0, 0], "M0,16 L0,15.0 L1,15.0 L2,15.0 L2,16 Z"),
        ([0, 5, 10], "M0,16 L0,15.0 L1,8.0 L2,1.0 L2,16 Z"),
    ],
)
def test_sparkline_is_as_high_as_its_highest_minute(counts: list[int], path: str) -> None:
    assert status_page._sparkline(counts) == path


def test_large_numbers_have_units() -> None:
    assert [status_page._short(number) for number in (0, 9_999, 10_000, 123_456, 12_345_678, 10**12)] == [
        *("0", "9,999", "10.0k", "123k", "12.3M", "1,000G"),
    ]


def test_pages_that_lack_the_same_sections_share_one_event() -> None:
    rendered = _Rendered(filled(SCHEMA, "a"))
    all_but_the_head = {**rendered.sections, "head": "older"}

    events = [rendered.event(shown) for shown in ({}, all_but_the_head, rendered.sections)]

    sections = [json.loads(event.removeprefix(b"data: "))["sections"] for event in events]
    assert [list(each) for each in sections] == [list(rendered.sections), ["head"], []]
    assert all(event.endswith(b"\n\n") for event in events)
    assert rendered.event(dict(all_but_the_head)) is events[1]


def test_reasons_know_since_when_there_are_some_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(1, 100))
    monkeypatch.setattr(health, "time", lambda: next(now))
    reasons = Reasons({"worker": "starting"})
    assert reasons.since == 1
    reasons["broker"] = "away"
    reasons["worker"] = "stopping"
    del reasons["broker"]
    assert reasons.since == 1
    assert reasons.pop("worker") == "stopping"
    assert reasons.pop("worker", None) is None
    assert reasons.since == 2
    reasons["broker"] = "away again"
    assert (reasons.since, json.dumps(dict(reasons))) == (3, '{"broker": "away again"}')
