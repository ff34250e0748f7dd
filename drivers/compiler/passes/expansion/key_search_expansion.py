"""Expands searches of keys into comparisons with all keys, for compilers without their kernels."""

from neurald.drivers.compiler.ir.algorithm import KeySearch
from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, axis, load, reduce, select
from neurald.drivers.compiler.ir.graph import Compute, Graph, Node, Procedure
from neurald.drivers.compiler.ir.op import ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.hal.records import replace


def expand_key_searches(graph: Graph) -> None:
    """Expands every search of keys of a graph."""
    graph.nodes = [_expanded(node) for node in graph.nodes]


def compared_with_all(builder: Builder, lookups: Value, keys: Value) -> Value:
    """Returns the first index of each key, INT32, which is compared with all others.

    Args:
        builder: makes the value.
        lookups, keys: rows of integers. Those that are missing get the number of keys.
    """
    count = keys.shape[0]

    def index(at: Expression) -> Expression:
        each = axis(count, "k")
        is_key = load(keys, (each,)).equals(load(lookups, (at,)))
        return reduce(ReductionOp.MINIMUM, (each,), select(is_key, each.to(Scalar.INT32), count))

    return builder.compute(lookups.shape, index)


def _expanded(node: Node) -> Node:
    if not isinstance(node, Procedure) or not isinstance(node.algorithm, KeySearch):
        return node
    part = Graph(inputs=[], outputs=[])
    keys, lookups = node.inputs
    compared_with_all(Builder(part, _no_operand), lookups, keys)
    (made,) = part.nodes
    assert isinstance(made, Compute)  # noqa: S101 - `compute` has appended it
    return replace(made, output=node.output, operations=node.operations)


def _no_operand(index: int) -> Value:
    raise AssertionError(f"operand {index} is not read")
