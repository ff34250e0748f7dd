"""Replaces loads from a splat constant by its scalar.

All elements of a splat constant are equal. This applies to integers and to small whole floats such
as exponents, which strength reduction uses. Other floats are not replaced, so that kernels that
differ only in the number share code.
"""

import numpy as np

from neurald.drivers.compiler.analysis.interpreter import Array
from neurald.drivers.compiler.ir.expression import Constant, Expression, Load, constant, select
from neurald.drivers.compiler.ir.graph import Compute, Graph, Node
from neurald.drivers.compiler.ir.traversal import rewrite
from neurald.drivers.compiler.ir.value import Value
from neurald.hal.records import replace

#: Largest magnitude of a whole float that is replaced.
_MAX_FLOAT = 16


def replace_splat_constants(graph: Graph) -> bool:
    """Replaces loads from splat constants in `Compute` nodes. Returns True if there were any."""
    scalars = {
        value: scalar
        for value in {value for node in graph.nodes for value in _loaded(node)}
        if value.constant is not None and (scalar := _splat_scalar(value, value.constant)) is not None
    }
    if not scalars:
        return False

    def replacement(expression: Expression) -> Expression | None:
        if not isinstance(expression, Load) or expression.value not in scalars:
            return None
        scalar = scalars[expression.value]
        if expression.guard is None or expression.otherwise is None:
            return scalar
        return select(expression.guard, scalar, expression.otherwise)

    memory: dict[Expression, Expression] = {}

    def replaced(node: Node) -> Node:
        if not isinstance(node, Compute) or scalars.keys().isdisjoint(_loaded(node)):
            return node
        return replace(
            node,
            body=rewrite(node.body, replacement, memory),
            requirements=tuple(
                (rewrite(each, replacement, memory), text) for each, text in node.requirements
            ),
        )

    graph.nodes = [replaced(node) for node in graph.nodes]
    return True


def _loaded(node: Node) -> set[Value]:
    """Returns the values of which a `Compute` node loads elements; none for other nodes."""
    if not isinstance(node, Compute):
        return set()
    # The limit of the number of elements is an input, but no load reads it that could be replaced.
    return {*node.inputs} - ({node.limit.count} if node.limit is not None else set())


def _splat_scalar(value: Value, array: Array) -> Constant | None:
    """Returns the scalar that all elements are, bit for bit; None if the value is not replaced."""
    if not value.count:
        return None
    elements = array.reshape(-1)
    if value.type.is_float and not (abs(elements[0]) <= _MAX_FLOAT and elements[0] == np.trunc(elements[0])):
        return None
    first = elements[:1].tobytes()
    # In most other constants the first and the last element differ.
    if elements[-1:].tobytes() != first:
        return None
    bits = np.ascontiguousarray(elements).view(np.dtype(f"V{elements.itemsize}"))
    return constant(elements[0].item(), value.type) if (bits == bits[0]).all() else None
