"""The dashboards for Grafana: panels, queries, variables, and the layout of their files."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.support.monitoring import DASHBOARDS, layout, query, variables

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
GRID = 24
"""Columns of Grafana's grid."""


def dashboard(file: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return document


def test_five_dashboards_have_ids_of_their_own() -> None:
    assert [file.stem for file in DASHBOARDS] == ["cost", "flow", "overview", "prompt-quality", "provider"]
    assert len({dashboard(file)["uid"] for file in DASHBOARDS}) == len(DASHBOARDS)
    assert {dashboard(file)["schemaVersion"] >= 39 for file in DASHBOARDS} == {True}


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)
def test_the_file_has_the_layout_of_all(file: Path) -> None:
    text = file.read_text("utf-8")

    assert text == layout(json.loads(text)), "format it with tests.support.monitoring.layout"


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)
def test_panels_say_what_they_show_and_where_it_is_from(file: Path) -> None:
    panels = dashboard(file)["panels"]

    assert not [id for id, count in Counter(panel["id"] for panel in panels).items() if count > 1]
    assert len({panel["title"] + panel["type"] for panel in panels}) == len(panels)
    for panel in panels:
        title = panel["title"]
        assert panel["description"].endswith("."), title
        assert panel["datasource"] == DATASOURCE, title
        assert panel["fieldConfig"]["defaults"]["unit"], title
        names = [target["refId"] for target in panel["targets"]]
        assert names == [chr(ord("A") + n) for n in range(len(names))], title
        for target in panel["targets"]:
            query(target["expr"])
            one_number = panel["type"] == "stat" and len(names) == 1
            assert target["legendFormat"] or one_number, title


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)
def test_panels_lie_side_by_side(file: Path) -> None:
    taken = Counter[tuple[int, int]]()
    for panel in dashboard(file)["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= GRID, panel["title"]
        taken.update(product(range(at["x"], at["x"] + at["w"]), range(at["y"], at["y"] + at["h"])))

    assert not [cell for cell, panels in taken.items() if panels > 1]
    assert len(taken) == GRID * (1 + max(y for _, y in taken)), "there are gaps"


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)
def test_every_variable_is_declared_and_used(file: Path) -> None:
    document = dashboard(file)
    datasource, *others = document["templating"]["list"]
    declared = [variable["name"] for variable in others]

    assert (datasource["name"], datasource["type"]) == ("datasource", "datasource")
    assert {"datasource", *declared} == set(re.findall(r"\$\{?([a-z]+)", json.dumps(document["panels"])))
    assert declared == [label for _, label in variables(file)]
    for place, (variable, (selector, _)) in enumerate(zip(others, variables(file), strict=True)):
        assert variable["datasource"] == DATASOURCE
        # Outside of Kubernetes the label `namespace` is missing, which "All" must select, too.
        assert (variable["includeAll"], variable["allValue"]) == (True, ".*")
        assert set(re.findall(r"\$([a-z]+)", selector)) <= set(declared[:place])
