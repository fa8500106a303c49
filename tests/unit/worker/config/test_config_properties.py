"""Of whatever stands in the config, each piece is taken or refused as wrong; nothing else ever happens."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from trustgraph_prompt.errors import FlowError
from trustgraph_prompt.prompts import PromptSet
from trustgraph_prompt.worker import flow_file

FLOW = {
    "name": "f",
    "workspace": "default",
    "input": {"topic": "persistent://tg/flow/in", "kind": "chunk"},
    "prompt": "extract",
    "outputs": {
        "response": "persistent://tg/flow/out",
        "answers": "persistent://tg/flow/answers",
        "objects": {"default": "flow:tg:rest", "by-type": {"definition": "flow:tg:definitions"}},
    },
    "concurrency": 8,
    "budget": {"attempts": 2, "seconds": 600},
}
ENTRY = {
    "prompt": "Define {{ text }} {% if hint %}{{ hint }}{% endif %}",
    "dialect": "jinja",
    "system": "Be {{ tone }}.",
    "response-type": "jsonl",
    "schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    "extra": "ignore",
    "coerce": True,
    "repair": True,
    "invariants": [{"rule": "n > 0", "message": "none"}],
    "attempts": 2,
    "cache": 60,
    "escalate": {"op": "~", "value": "I CANNOT"},
    "model": {"name": "small", "temperature": 0.5, "max-tokens": 100, "stop": ["end"]},
}
ODD = [
    "",
    "{{",
    "{% x %}",
    "{{ x.y[0] | upper }}",
    "persistent://a/b/c",
    "flow:tg:x",
    "\x00",
    "é" * 300,
    "1h",
    "n >",
]

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9)
anything = st.recursive(
    scalars | st.sampled_from(ODD),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)


def slots(document: Any) -> Iterator[tuple[Any, Any]]:
    """Every container in a document, with each of its keys."""
    members = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in members:
        yield document, key
        if isinstance(value, dict | list):
            yield from slots(value)


@st.composite
def changed(draw: st.DrawFn, document: dict[str, Any]) -> dict[str, Any]:
    """The document with a few things gone, replaced, or moved to where something else was."""
    document = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        container, key = draw(st.sampled_from(list(slots(document)) or [(document, "name")]))
        kind = draw(st.sampled_from(["replaced", "moved", "gone", "more"]))
        if kind == "gone":
            container.pop(key, None) if isinstance(container, dict) else container.pop(key)
        elif kind == "more" and isinstance(container, dict):
            container[draw(st.text(max_size=9))] = draw(anything)
        elif kind == "moved":
            other, place = draw(st.sampled_from(list(slots(document)) or [(document, "name")]))
            container[key] = copy.deepcopy(other.get(place) if isinstance(other, dict) else other[place])
        else:
            container[key] = draw(anything)
    return document


@given(document=changed(FLOW) | anything)
def test_any_flow_definition_is_taken_or_refused(document: Any) -> None:
    with suppress(FlowError):
        assert flow_file.parse(document, "f.yaml").name


@given(document=changed(ENTRY) | anything)
def test_any_entry_is_taken_or_refused_without_affecting_its_neighbour(document: Any) -> None:
    entries = {"template.odd": json.dumps(document), "template.say": json.dumps({"prompt": "Say"})}
    prompts = PromptSet.build(entries)
    assert "say" in prompts.prompts
    assert ("odd" in prompts.prompts) is ("template.odd" not in prompts.refused)
    assert "the entry cannot be used" not in str(prompts.refused)
