"""Evaluates expressions with NumPy."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from neurald.drivers.compiler.ir.expression import (
    AccumulatorRef,
    Apply,
    Axis,
    Constant,
    Expression,
    Linear,
    Load,
    Reduce,
)
from neurald.drivers.compiler.ir.op import Op, ReductionOp, reduction_identity
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.hal.accounting.account import charge
from neurald.hal.operations.machinery.call import Array

#: Size of an element of the widest type that the interpreter computes with.
WIDEST_BYTES = 8
#: Purpose of charged memory, for error messages.
PURPOSE = "a value computed from constants"


class ExpressionEvaluator:
    """Evaluates expressions as arrays with one dimension per axis.

    A dimension has length 1 if the expression does not depend on its axis.

    Args:
        dimensions: the dimension of each axis.
        arrays: the values that expressions load from.
        contracted: the result of the contraction, if expressions refer to it.
    """

    def __init__(
        self, dimensions: Mapping[Axis, int], arrays: Mapping[Value, Array], contracted: Array | None
    ) -> None:
        self._contracted = contracted
        self._dimensions = dimensions
        self._arrays = arrays
        self._known: dict[Expression, Array] = {}

    def of(self, expression: Expression) -> Array:
        """Returns the value of an expression that was added."""
        return self._known[expression]

    def add(self, expression: Expression) -> None:
        """Evaluates an expression, whose operands were added before."""
        shapes = [self._known[each].shape for each in expression.operands]
        charge(WIDEST_BYTES * math.prod(np.broadcast_shapes(*shapes)), PURPOSE)
        self._known[expression] = self._evaluated(expression)

    def _evaluated(self, expression: Expression) -> Array:
        rank = len(self._dimensions)
        dtype = expression.type.dtype
        if isinstance(expression, Constant):
            return np.full((1,) * rank, expression.value, dtype)
        if isinstance(expression, Axis):
            shape = [1] * rank
            shape[self._dimensions[expression]] = expression.extent
            return np.arange(expression.extent).reshape(shape)
        if isinstance(expression, Linear):
            return sum(
                (self.of(t) * c for t, c in expression.terms), np.full((1,) * rank, expression.constant)
            )
        if isinstance(expression, Load):
            return self._loaded(expression)
        if isinstance(expression, Reduce):
            return self._reduced(expression)
        if isinstance(expression, AccumulatorRef) and self._contracted is not None:
            return self._contracted.reshape(self._contracted.shape + (1,) * (rank - self._contracted.ndim))
        assert isinstance(expression, Apply)  # noqa: S101 - the other classes were handled above
        arguments = [self.of(each) for each in expression.arguments]
        return _applied(expression, arguments)

    def _loaded(self, expression: Load) -> Array:
        array = self._arrays[expression.value]
        if array.dtype == bool:
            array = array.view(np.uint8) != 0
        index = [self.of(each) for each in expression.index]
        rank = len(self._dimensions)
        if expression.guard is None or expression.otherwise is None:
            if not index:
                return array.reshape((1,) * rank)
            if not array.size and any(not axis.extent for axis in self._dimensions):
                return np.zeros((1,) * rank, array.dtype)  # a reduction over no elements
            if any((i < 0).any() or (i >= n).any() for i, n in zip(index, array.shape, strict=True)):
                raise AssertionError(
                    f"a load from {expression.value.name} {list(array.shape)} is out of bounds"
                )
            return array[tuple(index)]
        guard, otherwise = np.broadcast_arrays(self.of(expression.guard), self.of(expression.otherwise))
        if not array.size:
            if guard.any():
                raise AssertionError(f"a load from {expression.value.name}, which is empty")
            return otherwise
        for i, n in zip(index, array.shape, strict=True):
            if (guard & ((i < 0) | (i >= n))).any():
                raise AssertionError(
                    f"a guarded load from {expression.value.name} {list(array.shape)} is out of bounds"
                )
        safe = tuple(np.where(guard, i, 0) for i in index)
        return np.where(guard, array[safe] if safe else array.reshape((1,) * rank), otherwise)

    def _reduced(self, expression: Reduce) -> Array:
        body = self.of(expression.body)
        dimensions = tuple(self._dimensions[axis] for axis in expression.axes)
        shape = list(body.shape)
        for axis in expression.axes:
            shape[self._dimensions[axis]] = axis.extent
        body = np.broadcast_to(body, shape)
        start = reduction_identity(expression.reduction, expression.type)
        dtype = body.dtype
        if expression.reduction is ReductionOp.SUM:
            wide = np.float64 if dtype.kind == "f" else dtype
            return np.asarray(body.sum(axis=dimensions, keepdims=True, dtype=wide), dtype)
        function = _REDUCTIONS[expression.reduction]
        return np.asarray(function.reduce(body, axis=dimensions, keepdims=True, initial=start), dtype)


_REDUCTIONS: dict[ReductionOp, np.ufunc] = {
    ReductionOp.PRODUCT: np.multiply,
    ReductionOp.MINIMUM: np.minimum,
    ReductionOp.MAXIMUM: np.maximum,
    ReductionOp.MAXIMUM_NUMBER: np.fmax,
    ReductionOp.ANY: np.logical_or,
    ReductionOp.ALL: np.logical_and,
}


def _round_away(x: Array) -> Array:
    whole = np.trunc(x)
    return np.where(np.isinf(x), x, whole + np.trunc((x - whole) * 2))


def _fixed_point(value: Array, mantissa: Array, exponent: Array, *, ties_up: bool) -> Array:
    wide = value.astype(np.int64)
    if wide.size and not -(1 << 31) <= wide.min() <= wide.max() < 1 << 31:
        raise ValueError(f"FIXED_POINT of values from {wide.min()} to {wide.max()}; expected 32 bits")
    left, right = np.maximum(exponent, 0), np.maximum(-exponent, 0)
    shifted = np.clip(wide << left, -(1 << 31), (1 << 31) - 1) if (left > 0).any() else wide
    nudge = (np.int64(1) << 30) + np.where(right > 0, np.int64(1) << (30 + right), 0)
    below = np.where((right > 0) & (shifted < 0) & (not ties_up), np.int64(1) << 31, 0)
    return _unless_undefined((shifted * mantissa + nudge - below) >> (31 + right), abs(exponent) <= 31)


def _shift(function: np.ufunc) -> Callable[[Array, Array], Array]:
    def shifted(value: Array, amount: Array) -> Array:
        is_defined = (amount >= 0) & (amount < 8 * value.dtype.itemsize)
        return _unless_undefined(function(value, amount), is_defined)

    return shifted


def _unless_undefined(result: Array, is_defined: Array) -> Array:
    """Replaces undefined results by numbers that no processor gives, so that tests notice."""
    return np.where(is_defined, result, ~result)


def _convert(x: Array, kind: Scalar) -> Array:
    if kind.is_integer and x.dtype.kind == "f":
        info = np.iinfo(kind.dtype.name)
        whole = np.trunc(np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf))
        low, high = whole <= float(info.min), whole >= float(info.max)
        return np.where(
            low, info.min, np.where(high, info.max, np.where(low | high, 0, whole).astype(kind.dtype))
        )
    return (x != 0) if kind is Scalar.BOOL else x.astype(kind.dtype)


def _floor_quotient(dividend: Array, divisor: Array) -> Array:
    if dividend.dtype.kind != "f":
        return dividend // divisor
    return np.floor(dividend.astype(np.float64) / divisor.astype(np.float64))


_FUNCTIONS: dict[Op, Any] = {
    Op.ADD: np.add,
    Op.SUBTRACT: np.subtract,
    Op.MULTIPLY: np.multiply,
    Op.DIVIDE: np.divide,
    Op.FLOOR_DIVIDE: _floor_quotient,
    Op.MODULO: np.mod,
    Op.TRUNCATE_DIVIDE: lambda a, b: a // b + ((a % b != 0) & ((a < 0) != (b < 0))),
    Op.MINIMUM: np.minimum,
    Op.MAXIMUM: np.maximum,
    Op.POWER: np.power,
    Op.ATAN2: np.arctan2,
    Op.AND: np.bitwise_and,
    Op.OR: np.bitwise_or,
    Op.XOR: np.bitwise_xor,
    Op.SHIFT_LEFT: _shift(np.left_shift),
    Op.SHIFT_RIGHT: _shift(np.right_shift),
    Op.EQUAL: np.equal,
    Op.NOT_EQUAL: np.not_equal,
    Op.LESS: np.less,
    Op.LESS_EQUAL: np.less_equal,
    Op.NEGATE: np.negative,
    Op.ABSOLUTE: np.abs,
    Op.NOT: np.invert,
    Op.SQRT: np.sqrt,
    Op.RSQRT: lambda x: 1 / np.sqrt(x),
    Op.EXP: np.exp,
    Op.EXPM1: np.expm1,
    Op.LOG: np.log,
    Op.LOG1P: np.log1p,
    Op.SIN: np.sin,
    Op.COS: np.cos,
    Op.TAN: np.tan,
    Op.TANH: np.tanh,
    Op.LOGISTIC: lambda x: 1 / (1 + np.exp(-x)),
    Op.ERF: np.vectorize(math.erf, otypes=[np.float64]),
    Op.FLOOR: np.floor,
    Op.CEIL: np.ceil,
    Op.ROUND_EVEN: np.rint,
    Op.ROUND_AWAY: _round_away,
    Op.SIGN: np.sign,
    Op.IS_NAN: np.isnan,
    Op.SELECT: np.where,
    Op.FIXED_POINT: lambda *arguments: _fixed_point(*arguments, ties_up=False),
    Op.FIXED_POINT_UP: lambda *arguments: _fixed_point(*arguments, ties_up=True),
}


def _applied(expression: Apply, arguments: Sequence[Array]) -> Array:
    if expression.op is Op.CONVERT:
        return _convert(arguments[0], expression.type)
    if expression.op is Op.REINTERPRET:
        return arguments[0].view(expression.type.dtype)
    if expression.op in (Op.FLOOR_DIVIDE, Op.MODULO, Op.TRUNCATE_DIVIDE):
        arguments = np.broadcast_arrays(*arguments)
    return np.asarray(_FUNCTIONS[expression.op](*arguments)).astype(expression.type.dtype, copy=False)
