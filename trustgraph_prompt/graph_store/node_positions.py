"""Where the things of a graph are drawn: each community in a disc, the discs in a spiral by size."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

Point = tuple[float, float]

_GOLDEN_ANGLE: Final = math.pi * (3 - math.sqrt(5))
_SPACING: Final = 10.0
"""Distance of two nodes in a disc."""
_SWEEPS: Final = 5


def layout(nodes: int, edges: Iterable[tuple[int, int]]) -> list[Point]:
    """Return the position of each of the nodes 0 to `nodes` - 1, always the same for the same graph.

    Edges are pairs of nodes. Time grows with the number of nodes and edges.
    """
    neighbours: list[list[int]] = [[] for _ in range(nodes)]
    for a, b in edges:
        if a != b:
            neighbours[a].append(b)
            neighbours[b].append(a)
    communities: dict[int, list[int]] = defaultdict(list)
    for node, community in enumerate(_communities(neighbours)):
        communities[community].append(node)
    discs = sorted(communities.values(), key=len, reverse=True)
    positions: list[Point] = [(0.0, 0.0)] * nodes
    centres = _spiral([_SPACING * (math.sqrt(len(disc)) + 0.5) for disc in discs])
    for disc, (x, y) in zip(discs, centres, strict=True):
        hubs_first = sorted(disc, key=lambda node: -len(neighbours[node]))
        for node, (dx, dy) in zip(hubs_first, _spiral([_SPACING / 2] * len(disc)), strict=True):
            positions[node] = (x + dx, y + dy)
    return positions


def _spiral(radii: Sequence[float]) -> Iterator[Point]:
    """Yield the centres of discs, given by falling radius, that do not overlap: the first in the middle."""
    area = 0.0
    for rank, radius in enumerate(radii):
        distance, angle = math.sqrt(area), rank * _GOLDEN_ANGLE
        yield distance * math.cos(angle), distance * math.sin(angle)
        area += (2 * radius) ** 2


def _communities(neighbours: Sequence[Sequence[int]]) -> list[int]:
    """Return the community of each node: again and again, each joins the one that most neighbours are in."""
    hubs_last = sorted(range(len(neighbours)), key=lambda node: len(neighbours[node]))
    rank = {node: rank for rank, node in enumerate(hubs_last)}
    community = list(range(len(neighbours)))
    for _ in range(_SWEEPS):
        for node in hubs_last:
            votes = Counter(community[neighbour] for neighbour in neighbours[node])
            # Among equals that of the largest hub, so that leaves gather around it.
            community[node] = max(votes, key=lambda each: (votes[each], rank[each]), default=node)
    return community
