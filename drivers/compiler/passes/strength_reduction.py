"""Strength reduction of arithmetic with constants.

- Powers with a small whole exponent become products: squares exactly, others within a bit or two.
- Quotients by a power of 2 become products, since the reciprocal is exact.
- Products and quotients by 1 are removed.
- A left shift followed by a fixed-point product with a power of 2 becomes a smaller shift.
"""

import math

import numpy as np

from neurald.drivers.compiler.ir.expression import Apply, Constant, Expression, constant
from neurald.drivers.compiler.ir.graph import Compute, Graph, Node
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import rewrite, walk
from neurald.hal.records import replace

#: Largest exponent that is replaced. Products for larger ones cost as much as a power and are less
#: accurate.
_MAX_EXPONENT = 4


def reduce_strength(graph: Graph) -> bool:
    """Replaces operations with constants by cheaper ones. Returns True if there were any."""
    changed = False

    def reduced(node: Node) -> Node:
        nonlocal changed
        if not isinstance(node, Compute):
            return node
        if not any(_cheaper(each) is not None for each in walk(node.body)):
            return node
        changed = True
        return replace(node, body=rewrite(node.body, _cheaper, {}))

    graph.nodes = [reduced(node) for node in graph.nodes]
    return changed


def _cheaper(expression: Expression) -> Expression | None:
    """Returns a cheaper equivalent, or None."""
    if not isinstance(expression, Apply) or expression.type in (Scalar.INDEX, Scalar.BOOL):
        return None
    if expression.op is Op.POWER:
        return _power(*expression.arguments)
    if expression.op in (Op.FIXED_POINT, Op.FIXED_POINT_UP):
        return _shifted(expression)
    if not expression.type.is_float or expression.op not in (Op.MULTIPLY, Op.DIVIDE):
        return None
    first, second = expression.arguments
    if isinstance(second, Constant):
        if second.value == 1:
            return first
        if expression.op is Op.DIVIDE and _has_exact_reciprocal(second):
            return first * (1 / second.value)
    if isinstance(first, Constant) and first.value == 1 and expression.op is Op.MULTIPLY:
        return second
    return None


def _power(base: Expression, exponent: Expression) -> Expression | None:
    """Returns a power with a small whole exponent as products, or None."""
    if not isinstance(exponent, Constant) or not 0 <= exponent.value <= _MAX_EXPONENT:
        return None
    if exponent.value != int(exponent.value):
        return None
    if exponent.value == 0:
        return constant(1, base.type)
    square = base * base
    return {1: base, 2: square, 3: square * base, 4: square * square}[int(exponent.value)]


def _shifted(expression: Apply) -> Expression | None:
    """Returns a fixed-point product that needs no rounding as a shift, or None."""
    value, mantissa, exponent = expression.arguments
    if not isinstance(mantissa, Constant) or mantissa.value != 1 << 30 or not isinstance(exponent, Constant):
        return None
    if not isinstance(value, Apply) or value.op is not Op.SHIFT_LEFT or exponent.value > 0:
        return None
    number, by = value.arguments
    if not isinstance(by, Constant) or by.value + exponent.value < 1:
        return None
    # By contract the value fits in 32 bits, and the product has no more.
    return (number << int(by.value + exponent.value - 1)).to(expression.type)


def _has_exact_reciprocal(number: Constant) -> bool:
    """Returns True for a power of 2 with a normal reciprocal."""
    fraction, exponent = math.frexp(number.value)
    return abs(fraction) == 0.5 and abs(exponent) < np.finfo(number.type.value).maxexp - 1
