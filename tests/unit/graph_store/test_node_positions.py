"""Where the things of a graph are drawn."""

from __future__ import annotations

import math
from itertools import combinations
from statistics import fmean

import pytest

from tests.support.steps import is_linear
from trustgraph_prompt.graph_store.node_positions import layout


def cliques(count: int, size: int) -> list[tuple[int, int]]:
    """Groups in which each is related to each, and each group to the next."""
    inner = [
        (a + first, b + first)
        for first in range(0, count * size, size)
        for a, b in combinations(range(size), 2)
    ]
    return inner + [(first, (first + size) % (count * size)) for first in range(0, count * size, size)]


def test_each_group_of_nodes_has_a_disc_of_its_own() -> None:
    points = layout(40, cliques(5, 8))
    groups = [points[first : first + 8] for first in range(0, 40, 8)]
    centres = [(fmean(x for x, _ in group), fmean(y for _, y in group)) for group in groups]
    for group, centre in zip(groups, centres, strict=True):
        assert all(min(centres, key=lambda each: math.dist(each, point)) == centre for point in group)


def test_layout_takes_linear_work() -> None:
    assert is_linear(lambda size: layout(8 * size, cliques(size, 8)), 20)


@pytest.mark.parametrize(
    ("nodes", "edges"),
    [
        (200, cliques(25, 8)),
        (300, []),
        (50, [(0, node) for node in range(1, 50)]),
        (50, [(node, node) for node in range(50)]),
        (2, [(0, 1), (1, 0), (0, 1)]),
        (1, []),
    ],
)
def test_nodes_are_at_least_5_apart(nodes: int, edges: list[tuple[int, int]]) -> None:
    points = layout(nodes, edges)
    assert len(points) == nodes
    assert all(math.dist(a, b) > 5 for a, b in combinations(points, 2))
    assert layout(nodes, edges) == points


def test_empty_graph_has_no_places() -> None:
    assert layout(0, []) == []
