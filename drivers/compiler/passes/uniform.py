"""Constants that are one number everywhere are that number, wherever nodes compute with their elements.

That holds for integers, and for floats that arithmetic has simpler ways for, as exponents. Others stay constants: kernels that differ
in nothing else share their code.
"""

import dataclasses

import numpy as np

from neurald.drivers.compiler.analysis.interpreter import Array
from neurald.drivers.compiler.ir.expression import Constant, Expression, Load, constant, select
from neurald.drivers.compiler.ir.graph import Compute, Graph, Node
from neurald.drivers.compiler.ir.traversal import rewrite
from neurald.drivers.compiler.ir.value import Value

#: Floats that are known are whole numbers up to this one.
_LARGEST_FLOAT = 16


def know_uniform(graph: Graph) -> bool:
    """Replaces what is loaded from such constants by the number. Contractions read them as they are."""
    numbers = {
        value: number
        for value in {value for node in graph.nodes if isinstance(node, Compute) for value in node.inputs}
        if value.constant is not None and (number := _number(value, value.constant)) is not None
    }
    if not numbers:
        return False

    def found(expression: Expression) -> Expression | None:
        if not isinstance(expression, Load) or expression.value not in numbers:
            return None
        number = numbers[expression.value]
        if expression.guard is None or expression.otherwise is None:
            return number
        return select(expression.guard, number, expression.otherwise)

    memory: dict[Expression, Expression] = {}

    def known(node: Node) -> Node:
        if not isinstance(node, Compute) or not any(value in numbers for value in node.inputs):
            return node
        return dataclasses.replace(
            node,
            body=rewrite(node.body, found, memory),
            requirements=tuple((rewrite(each, found, memory), text) for each, text in node.requirements),
        )

    graph.nodes = [known(node) for node in graph.nodes]
    return True


def _number(value: Value, array: Array) -> Constant | None:
    """What all elements are, bit for bit; None where they differ, where there are none, or where it is of no use."""
    if not value.count:
        return None
    flat = array.reshape(-1)
    if value.type.is_float and not (abs(flat[0]) <= _LARGEST_FLOAT and flat[0] == np.trunc(flat[0])):
        return None
    first = flat[:1].tobytes()
    # Most constants differ at their ends already.
    if flat[-1:].tobytes() != first:
        return None
    bits = np.ascontiguousarray(flat).view(np.dtype(f"V{flat.itemsize}"))
    return constant(flat[0].item(), value.type) if (bits == bits[0]).all() else None
