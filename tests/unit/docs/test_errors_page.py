"""The pages of errors and of metrics name all that there are, and nothing else."""

from __future__ import annotations

import re

from prometheus_client.metrics import MetricWrapperBase

from tests.support.guides import guide_page
from trustgraph_prompt.errors import Reason
from trustgraph_prompt.worker.telemetry.metrics import Metrics


def first_cells(page: str, heading: str) -> list[str]:
    """The names in the first column of the table below a heading."""
    text = guide_page(page).read_text("utf-8")
    _, _, below = text.partition(f"# {heading}\n")
    table = re.split(r"^#", below, maxsplit=1, flags=re.MULTILINE)[0]
    rows = re.findall(r"^\| (.+?) \|", table, re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`([a-z][\w-]*)`", row.partition(":")[0])]


def test_page_lists_every_reason() -> None:
    assert first_cells("errors.md", "Reasons") == [reason.value for reason in Reason]


def test_page_lists_every_metric_with_its_labels() -> None:
    metrics = Metrics()
    exported = {
        f"{family.name}{'_total' * (family.type == 'counter')}".removeprefix("trustgraph_prompt_")
        for family in metrics.registry.collect()
    }
    assert set(first_cells("metrics.md", "Metrics")) == exported
    rows = [
        line for line in guide_page("metrics.md").read_text("utf-8").splitlines() if line.startswith("| `")
    ]
    for metric in metrics.registry._collector_to_names:
        if isinstance(metric, MetricWrapperBase):
            name = metric._name.removeprefix("trustgraph_prompt_")
            [row] = [row for row in rows if re.search(rf"`{name}(_total)?`", re.split(r": | \| ", row)[0])]
            for label in metric._labelnames:
                assert re.search(rf"\b{label}\b", row.partition(" | ")[2]), (name, label)
