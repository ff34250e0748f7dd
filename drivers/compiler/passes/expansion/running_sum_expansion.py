"""Expands running sums into expressions, for compilers without kernels for procedures.

Each pass adds partial sums, of which each ends right before the one after it.
"""

import operator
from functools import reduce

from neurald.drivers.compiler.ir.algorithm import RunningSum
from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, load
from neurald.drivers.compiler.ir.graph import Compute, Graph, Node, Procedure
from neurald.drivers.compiler.ir.value import Value
from neurald.hal.records import replace

#: Number of partial sums that a pass adds.
_PARTS = 4


def expand_running_sums(graph: Graph) -> None:
    """Expands every running sum of a graph."""
    graph.nodes = [each for node in graph.nodes for each in _expanded(node)]


def _expanded(node: Node) -> list[Node]:
    if not isinstance(node, Procedure) or not isinstance(node.algorithm, RunningSum):
        return [node]
    if node.algorithm.is_ordered:
        return [node]
    algorithm, (source,) = node.algorithm, node.inputs
    part = Graph(inputs=[], outputs=[])
    builder = Builder(part, _no_operand)
    way = -1 if algorithm.is_reverse else 1
    length = source.shape[1]

    def element(value: Value, at: tuple[Expression, ...], distance: int) -> Expression:
        """Returns the element `distance` steps before in the sum's direction, or 0."""
        number = at[1] - way * distance
        return load(value, (at[0], number, at[2]), (number >= 0) & (number < length), 0)

    def longer(sums: Value, count: int) -> Value:
        """Returns sums of more elements, which consist of sums of that many."""

        def body(*at: Expression) -> Expression:
            distances = [number * count for number in range(1, _PARTS) if number * count < length]
            # The farthest ones are added first, as one after another.
            parts = [element(sums, at, distance) for distance in reversed(distances)]
            return reduce(operator.add, [*parts, load(sums, at)])

        return builder.compute(source.shape, body)

    sums, count = source, 1
    while count < length:
        sums, count = longer(sums, count), count * _PARTS
    distance = int(algorithm.is_exclusive)
    builder.compute(source.shape, lambda *at: element(sums, at, distance))
    *others, last = part.nodes
    assert isinstance(last, Compute)  # noqa: S101 - `compute` has appended it
    found = [*others, replace(last, output=node.output)]
    return [replace(each, operations=node.operations) for each in found]


def _no_operand(index: int) -> Value:
    raise AssertionError(f"operand {index} is not read")
