"""Recognises 8-bit numbers that are clamped, rounded sums of multiples of two other ones.

Additions in quantised models are: they scale both operands and the sum in fixed point, which takes
some thirty instructions. The same sum in FLOAT32 takes two. It is used only where it gives the same
number for all 65,536 pairs of operands, for which its factors may be moved by a few units in the
last place.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from neurald.drivers.compiler.analysis.interpreter import evaluate_node
from neurald.drivers.compiler.ir.expression import Apply, Constant, Expression, Load, axis, load
from neurald.drivers.compiler.ir.graph import Compute
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import substitute, walk
from neurald.drivers.compiler.ir.value import Value

_Floats = npt.NDArray[np.float64]
#: Types of 8 bits.
BYTES = (Scalar.INT8, Scalar.UINT8)
_FIXED_POINT = (Op.FIXED_POINT, Op.FIXED_POINT_UP)
_OPS = frozenset((Op.ADD, Op.SUBTRACT, Op.SHIFT_LEFT, Op.CONVERT, Op.MINIMUM, Op.MAXIMUM, *_FIXED_POINT))
#: Expressions that are examined, and scalings from which on the sum in FLOAT32 is shorter.
_MAX_EXPRESSIONS, _MIN_SCALINGS = 64, 2
_AXES = axis(256, "first"), axis(256, "second")
#: Every value of two operands, for each pair of their types.
_OPERANDS = {kind: tuple(Value((256,), kind) for _ in _AXES) for kind in BYTES}
#: Distance from a half up to which FLOAT32 may round to the other side, and the most pairs there.
_NEAR_HALF, _MAX_NEAR = 2e-4, 1024
#: Larger sums cannot be rounded by adding 3 * 2^22.
_MAX_MAGNITUDE = 1 << 21
#: Units in the last place by which factors are moved, and multiples of a step for the addend.
_FACTOR_MOVES, _ADDEND_MOVES, _ADDEND_STEP = (0, 1, -1, 2, -2), range(-8, 9), 3e-6


@dataclass(frozen=True, kw_only=True, slots=True)
class RoundedSum:
    """`first` × `factors[0]` + (`second` × `factors[1]` + `addend`), clamped and rounded to even.

    Both additions are fused with their products, as by `fma`.

    Attributes:
        first, second: the operands, of 8 bits.
        factors: what the operands are multiplied by, as FLOAT32.
        addend: what is added to their products, as FLOAT32.
        low, high: the limits.
    """

    first: Expression
    second: Expression
    factors: tuple[float, float]
    addend: float
    low: int
    high: int


def rounded_sum(expression: Expression) -> RoundedSum | None:
    """Returns the sum that always equals an expression, or None."""
    operands = _operands(expression)
    if operands is None:
        return None
    leaves = {each: load(_OPERANDS[each.type][place], (_AXES[place],)) for place, each in enumerate(operands)}
    found = _form(substitute(expression, leaves))
    if found is None:
        return None
    factors, addend, low, high = found
    first, second = operands
    return RoundedSum(first=first, second=second, factors=factors, addend=addend, low=low, high=high)


def _operands(root: Expression) -> tuple[Expression, Expression] | None:
    """Returns the two expressions of 8 bits from which a sum is computed; None for others."""
    if root.type not in BYTES or not isinstance(root, Apply):
        return None
    pending: list[Expression] = [root]
    seen: set[Expression] = set()
    found: list[Expression] = []
    scalings = 0
    while pending:
        each = pending.pop()
        if each in seen or isinstance(each, Constant):
            continue
        seen.add(each)
        if each.type in BYTES and each is not root:
            found.append(each)
            continue
        is_known = isinstance(each, Apply) and each.op in _OPS and each.type.is_integer
        if not is_known or len(seen) > _MAX_EXPRESSIONS:
            return None
        scalings += isinstance(each, Apply) and each.op in _FIXED_POINT
        pending.extend(each.operands)
    if len(found) != len(_AXES) or scalings < _MIN_SCALINGS:
        return None
    first, second = sorted(found, key=lambda each: isinstance(each, Load))
    return first, second


@lru_cache(maxsize=512)
def _form(body: Expression) -> tuple[tuple[float, float], float, int, int] | None:
    """Returns the factors, the addend and the limits of a sum of loads of `_OPERANDS`."""
    coefficients = _linear(body)
    if coefficients is None:
        return None
    loads = {each.value: None for each in walk(body) if isinstance(each, Load)}
    arrays: dict[Value, npt.NDArray[np.integer]] = {
        value: np.arange(256).astype(np.uint8).view(value.type.dtype) for value in loads
    }
    node = Compute(output=Value((256, 256), body.type), axes=_AXES, body=body)
    expected = evaluate_node(node, arrays).astype(np.int64)
    grid = _grid(arrays)
    exact = coefficients[0] + coefficients[1] * grid[0] + coefficients[2] * grid[1]
    if np.abs(exact).max() >= _MAX_MAGNITUDE:
        return None
    # Where the sum never passes a limit, it is that of the type, which needs no instruction.
    low, high, limits = int(expected.min()), int(expected.max()), np.iinfo(body.type.value)
    low = limits.min if exact.min() > low - 0.5 else low
    high = limits.max if exact.max() < high + 0.5 else high
    away = np.abs(exact - np.floor(exact) - 0.5)
    is_near = (away < _NEAR_HALF) & (exact > low - 1) & (exact < high + 1)
    if is_near.sum() > _MAX_NEAR:
        return None
    near, wanted = (grid[0][is_near], grid[1][is_near]), expected[is_near]
    for factors, addend in _moved(coefficients):
        if not np.array_equal(_sums(near, factors, addend, low, high), wanted):
            continue
        if np.array_equal(_sums(grid, factors, addend, low, high), expected):
            return (float(factors[0]), float(factors[1])), float(addend), low, high
        return None
    return None


def _grid(arrays: Mapping[Value, npt.NDArray[np.integer]]) -> tuple[_Floats, _Floats]:
    """Returns the first and the second operand of all pairs."""
    by_place = {place: array for value, array in arrays.items() for place in (0, 1) if value in _at(place)}
    first, second = np.meshgrid(by_place[0], by_place[1], indexing="ij")
    return first.astype(np.float64), second.astype(np.float64)


def _at(place: int) -> tuple[Value, ...]:
    return tuple(values[place] for values in _OPERANDS.values())


def _linear(body: Expression) -> _Floats | None:
    """Returns the addend and both factors of a sum that is neither rounded nor clamped."""
    found: dict[Expression, _Floats] = {}
    for each in walk(body):
        if isinstance(each, Load):
            place = 1 + (each.value in _at(1))
            found[each] = np.eye(3)[place]
        elif isinstance(each, Constant):
            found[each] = np.array((float(each.value), 0.0, 0.0))
        elif isinstance(each, Apply):
            result = _applied(each, [found[operand] for operand in each.operands])
            if result is None:
                return None
            found[each] = result
    return found[body]


def _applied(expression: Apply, operands: list[_Floats]) -> _Floats | None:
    """Returns the coefficients of an operation; limits count later."""
    op, numbers = expression.op, [each[0] if not each[1:].any() else None for each in operands]
    if op is Op.CONVERT:
        return operands[0]
    if op in (Op.ADD, Op.SUBTRACT):
        return operands[0] + operands[1] if op is Op.ADD else operands[0] - operands[1]
    if op in (Op.MINIMUM, Op.MAXIMUM):
        variable = [each for each, number in zip(operands, numbers, strict=True) if number is None]
        return variable[0] if len(variable) == 1 else None
    if any(number is None for number in numbers[1:]):
        return None
    if op is Op.SHIFT_LEFT:
        return operands[0] * np.float64(2.0 ** float(numbers[1] or 0))
    return operands[0] * np.float64(float(numbers[1] or 0) * 2.0 ** (float(numbers[2] or 0) - 31))


def _moved(coefficients: _Floats) -> Iterator[tuple[tuple[np.float32, np.float32], np.float32]]:
    """Yields factors and addends, the nearest first for each factor."""
    addend = coefficients[0]
    for first in _FACTOR_MOVES:
        for second in _FACTOR_MOVES:
            factors = _neighbour(coefficients[1], first), _neighbour(coefficients[2], second)
            for move in sorted(_ADDEND_MOVES, key=abs):
                yield factors, np.float32(addend + move * _ADDEND_STEP)


def _neighbour(number: float, steps: int) -> np.float32:
    return np.float32(np.float32(number) + steps * np.spacing(np.float32(number)))


def _sums(
    pairs: tuple[_Floats, _Floats],
    factors: tuple[np.float32, np.float32],
    addend: np.float32,
    low: int,
    high: int,
) -> npt.NDArray[np.int64]:
    """Computes sums as a device does; products of 8 and 24 bits are exact in FLOAT64."""
    inner = (pairs[1] * float(factors[1]) + float(addend)).astype(np.float32)
    total = (pairs[0] * float(factors[0]) + inner.astype(np.float64)).astype(np.float32)
    return np.rint(np.clip(total, np.float32(low), np.float32(high))).astype(np.int64)
