"""Lays out an acyclic graph in layers, by the longest path to each node."""

from collections.abc import Sequence
from statistics import fmean

from msgspec import Struct


class NodePosition(Struct, frozen=True, kw_only=True):
    """Position of a node.

    Attributes:
        layer: counted from the top.
        column: counted from the left; it may be fractional.
    """

    layer: int
    column: float


def layered_positions(after: Sequence[Sequence[int]]) -> list[NodePosition]:
    """Returns the position of each node.

    Nodes of a layer are at least one column apart, and otherwise near to their predecessors.

    Args:
        after: the predecessors of each node.
    """
    layer_of = _layers(after)
    layers: list[list[int]] = [[] for _ in range(1 + max(layer_of, default=-1))]
    for node, layer in enumerate(layer_of):
        layers[layer].append(node)
    columns = [0.0] * len(after)
    for nodes in layers:
        wanted = {n: fmean(columns[source] for source in after[n]) if after[n] else 0.0 for n in nodes}
        previous = None
        for node in sorted(nodes, key=lambda n: (wanted[n], n)):
            columns[node] = wanted[node] if previous is None else max(wanted[node], previous + 1)
            previous = columns[node]
        # Nodes were pushed apart to the right only; centre them again.
        shift = fmean(columns[node] - wanted[node] for node in nodes)
        for node in nodes:
            columns[node] -= shift
    left = min(columns, default=0.0)
    return [
        NodePosition(layer=layer, column=column - left)
        for layer, column in zip(layer_of, columns, strict=True)
    ]


def _layers(after: Sequence[Sequence[int]]) -> list[int]:
    """Returns the length of the longest path to each node."""
    followers: list[list[int]] = [[] for _ in after]
    missing = [len(sources) for sources in after]
    for node, sources in enumerate(after):
        for source in sources:
            followers[source].append(node)
    layer_of = [0] * len(after)
    ready = [node for node, count in enumerate(missing) if count == 0]
    while ready:
        source = ready.pop()
        for node in followers[source]:
            layer_of[node] = max(layer_of[node], layer_of[source] + 1)
            missing[node] -= 1
            if missing[node] == 0:
                ready.append(node)
    return layer_of
