"""Compares the counts of a status document with those of `/metrics`."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from importlib.resources import files
from typing import Any, Final

from jsonschema import Draft202012Validator, FormatChecker
from prometheus_client.parser import text_string_to_metric_families

PREFIX: Final = "trustgraph_prompt_"
SCHEMA: Final = json.loads(
    (files("trustgraph_prompt.worker.telemetry") / "status.schema.json").read_text("utf-8")
)
_VALIDATOR: Final = Draft202012Validator(SCHEMA, format_checker=FormatChecker())

_OF_BOTH: Final = {
    "objects": "objects",
    "tokens": "tokens",
    "outcomes": "outcomes",
    "rejected": "objects_rejected",
}
_OF_FLOWS: Final = {
    "in_work": "requests_in_work",
    "retries": "requests_put_off",
    "dead_letters": "dead_letters",
}
_OF_PROMPTS: Final = {
    "repaired": "objects_repaired",
    "truncated": "answers_truncated",
    "completed": "answers_completed",
}
_SPLIT: Final = {
    "outcomes": "reason",
    "tokens": "direction",
    "objects_rejected": "reason",
    "objects_repaired": "what",
    "dead_letters": "error",
}


def check(document: dict[str, Any], metrics: str) -> None:
    """Assert that a document is valid, and that each count in it is that of the metrics."""
    _VALIDATOR.validate(document)
    counted = Counted(metrics)
    for flow in document["flows"]:
        _compare(flow, {**_OF_BOTH, **_OF_FLOWS}, counted, flow=flow["name"])
        assert flow["requests"] == sum(flow["outcomes"].values())
    for prompt in document["prompts"]:
        _compare(prompt, {**_OF_BOTH, **_OF_PROMPTS}, counted, prompt=prompt["id"])
        assert prompt["requests"] == sum(prompt["outcomes"].values())
    assert document["dead_letters"] == counted.split("dead_letters", "error")
    assert document["provider"]["pauses"] == sum(counted.split("rate_limit_pauses", "").values())


def _compare(said: dict[str, Any], names: dict[str, str], counted: Counted, **labels: str) -> None:
    for name, metric in names.items():
        expected, got = counted.split(metric, _SPLIT.get(metric, ""), **labels), said[name]
        if isinstance(got, dict):
            assert {part: count for part, count in got.items() if count} == expected, (labels, name)
        else:
            assert got == sum(expected.values()), (labels, name)
    cost = sum(counted.split("cost", "", **labels).values())
    assert abs((said["cost"] or 0.0) - cost) < 1e-5


class Counted:
    """The samples of `/metrics`."""

    def __init__(self, text: str) -> None:
        self._samples: defaultdict[str, list[tuple[dict[str, str], float]]] = defaultdict(list)
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                self._samples[sample.name.removesuffix("_total")].append((sample.labels, sample.value))

    def split(self, metric: str, by: str, **labels: str) -> dict[str, float]:
        """The sums of the samples with these labels, by another label."""
        sums: Counter[str] = Counter()
        for given, value in self._samples[PREFIX + metric]:
            if value and labels.items() <= given.items():
                sums[given.get(by, "")] += value  # type: ignore[assignment]
        return dict(sums)
