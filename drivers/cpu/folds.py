"""How folds combine numbers, and along which axis they take several at once."""

import math
from collections.abc import Sequence

from neurald.drivers.compiler.expression import Axis, Expression, Load, Reduce
from neurald.drivers.compiler.op import ReductionOp, reduction_identity
from neurald.drivers.compiler.rewriting import walk
from neurald.drivers.compiler.scalar import Scalar
from neurald.drivers.cpu.dialect import computed, extreme
from neurald.drivers.cpu.places import place_of, stride_along
from neurald.drivers.cpu.target import Target
from neurald.drivers.cpu.vector import Vector, vector_type

#: Registers that a fold adds to by turns, since one addition takes as long as so many can be begun in.
_REGISTERS = 4
#: Shorter axes are not worth a vector.
_SHORTEST = 4
#: Each element of a gather takes about as long as so many loads of vectors.
_GATHER_COST = 1.0
#: Folds of no more elements, of so many expressions together, are written one after another, without a loop.
_SHORT, _MOST_SHORT_EXPRESSIONS = 9, 100
#: Bytes of a lane of the vectors that lanes are counted in, whatever the type.
_LANE_BYTES = 4


def is_short(body: Expression, axes: Sequence[Axis]) -> bool:
    """Whether a fold over some axes needs no loops."""
    count = math.prod(axis.extent for axis in axes)
    return count <= _SHORT and count * sum(1 for _ in walk(body)) <= _MOST_SHORT_EXPRESSIONS


def fold_value(v: Vector, fold: ReductionOp, kind: Scalar, element: str, total: str, value: str) -> str:
    """A value folded into a total."""
    if fold in (ReductionOp.MINIMUM, ReductionOp.MAXIMUM):
        return extreme(v, kind, element, total, value, is_minimum=fold is ReductionOp.MINIMUM)
    if kind is Scalar.BOOL:
        return v.two("or" if fold in (ReductionOp.SUM, ReductionOp.ANY) else "and", element, total, value)
    operation = "add" if fold is ReductionOp.SUM else "mul"
    return v.two(f"f{operation}" if kind.is_float else operation, element, total, value)


def fold_start_text(v: Vector, expression: Reduce) -> str:
    """What a fold starts with, in every lane."""
    element, start = computed(expression, v.lanes), reduction_identity(expression.reduction, expression.type)
    if expression.type is Scalar.INDEX and element == "i32":
        # No position is beyond these.
        start = max(-(2**31), min(2**31 - 1, int(start)))
    return v.number(element, start)


def folding_axis(expression: Reduce, target: Target) -> Axis | None:
    """The axis along which it is best folded by vectors; None: there is none that is worth it."""
    best, best_cost = None, float("inf")
    found = [each for each in walk(expression.body) if isinstance(each, Load)]
    for axis in expression.axes:
        if axis.extent < _SHORTEST:
            continue
        strides = [stride_along(place_of(each), axis) for each in found]
        lanes = folding_lanes(axis.extent, target)
        registers = max(1, lanes // target.lanes(_LANE_BYTES))
        cost = registers + sum(registers if stride in (0, 1) else lanes * _GATHER_COST for stride in strides)
        cost *= -(-axis.extent // lanes) / axis.extent
        if cost < best_cost:
            best, best_cost = axis, cost
    return best


def folding_lanes(extent: int, target: Target) -> int:
    """How many lanes a fold has along an axis of that length."""
    lanes = target.lanes(_LANE_BYTES) * _REGISTERS
    while lanes > _SHORTEST and lanes // 2 >= extent:
        lanes //= 2
    return lanes


def folded_lanes(v: Vector, expression: Reduce, element: str, total: str) -> str:
    """The lanes of a total folded with each other: the lower and the upper half, until one is left."""
    count = v.lanes
    while count > 1:
        whole, half = vector_type(element, count), count // 2
        parts = []
        for first in (0, half):
            if half == 1:
                text = f"extractelement {whole} {total}, i64 {first}"
            else:
                places = ", ".join(f"i32 {first + lane}" for lane in range(half))
                text = f"shufflevector {whole} {total}, {whole} poison, <{half} x i32> <{places}>"
            parts.append(v.code.value(text))
        narrow = Vector(v.code, v.target, half)
        total = fold_value(narrow, expression.reduction, expression.type, element, parts[0], parts[1])
        count = half
    return total
