"""Interprets graphs and kernels with NumPy.

It folds constants, and tests compare lowerings, passes and generated code with it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
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
from neurald.drivers.compiler.ir.graph import (
    Attention,
    Compute,
    Convolution,
    DepthwiseConvolution,
    Graph,
    MatrixProduct,
    Node,
    Procedure,
    TopK,
)
from neurald.drivers.compiler.ir.kernel import FusedGraph, Kernel
from neurald.drivers.compiler.ir.op import Op, ReductionOp, reduction_identity
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import walk
from neurald.drivers.compiler.ir.value import Value
from neurald.hal.accounting.account import charge, temporary

Array = np.ndarray[Any, np.dtype[Any]]

#: Computes a node from its inputs; see `evaluate_node`.
Evaluate = Callable[[Node, Mapping[Value, Array]], Array]
#: Computes a kernel from its inputs; see `evaluate_kernel`.
EvaluateKernel = Callable[[Kernel, Mapping[Value, Array]], Array]

#: Size of an element of the widest type that the interpreter computes with.
_WIDEST_BYTES = 8
#: Purpose of charged memory, for error messages.
_PURPOSE = "a value computed from constants"

#: Operations that do no float arithmetic.
_DATA_MOVEMENT = frozenset((Op.CONVERT, Op.REINTERPRET, Op.SELECT))
#: Float operations with one correct result, which NumPy and every compiler produce. This excludes
#: MINIMUM and MAXIMUM, since either of two zeros may be the smaller one.
_REPRODUCIBLE = _DATA_MOVEMENT | {
    Op.ADD,
    Op.SUBTRACT,
    Op.MULTIPLY,
    Op.DIVIDE,
    Op.EQUAL,
    Op.NOT_EQUAL,
    Op.LESS,
    Op.LESS_EQUAL,
    Op.NEGATE,
    Op.ABSOLUTE,
    Op.SQRT,
    Op.FLOOR,
    Op.CEIL,
    Op.ROUND_EVEN,
    Op.ROUND_AWAY,
    Op.IS_NAN,
}


class RequirementFailed(Exception):
    """A requirement of a node does not hold. The message is that of the requirement."""


def only_moves(node: Node) -> bool:
    """Returns True if a node only moves, converts and selects floats."""
    return isinstance(node, Compute) and _applies_only(node, _DATA_MOVEMENT)


def is_reproducible(node: Node) -> bool:
    """Returns True if NumPy computes the same bits as any compiled code."""
    return isinstance(node, Compute) and _applies_only(node, _REPRODUCIBLE)


def _applies_only(node: Compute, ops: AbstractSet[Op]) -> bool:
    """Returns True if a node applies only these operations to floats, and no reductions."""
    return not any(
        isinstance(each, Reduce) or (isinstance(each, Apply) and each.op not in ops)
        for each in walk(node.body, *(condition for condition, _ in node.requirements))
        if any(operand.type.is_float for operand in (each, *each.operands))
    )


def evaluate(graph: Graph, inputs: Sequence[Array]) -> list[Array]:
    """Computes the outputs of a graph.

    Raises:
        RequirementFailed: a requirement of a node does not hold.
    """
    values = dict(zip(graph.inputs, inputs, strict=True))
    for node in graph.nodes:
        arrays = {value: _array(value, values) for value in node.inputs}
        with np.errstate(all="ignore"):
            values[node.output] = evaluate_node(node, arrays)
    return [_array(value, values) for value in graph.outputs]


def _array(value: Value, values: Mapping[Value, Array]) -> Array:
    return values[value] if value.constant is None else value.constant


def evaluate_node(node: Node, arrays: Mapping[Value, Array]) -> Array:
    """Computes the value of a node from its inputs.

    Raises:
        RequirementFailed: a requirement of the node does not hold.
        ResourceExhaustedPersistent, ResourceExhaustedTransient: the current account has not enough
            memory left.
    """
    charge(node.output.size_bytes, _PURPOSE)
    with temporary():
        return _evaluated(node, arrays)


def _evaluated(node: Node, arrays: Mapping[Value, Array]) -> Array:
    if isinstance(node, Compute):
        return _compute(node, arrays)
    read = sum(array.size for array in arrays.values())
    charge(_WIDEST_BYTES * (node.output.count + read + _window_elements(node)), _PURPOSE)
    if isinstance(node, Convolution):
        result = _convolution(node, arrays)
    elif isinstance(node, DepthwiseConvolution):
        result = _depthwise(node, arrays)
    elif isinstance(node, TopK):
        result = _top_k(node, arrays)
    elif isinstance(node, Procedure):
        from neurald.drivers.compiler.analysis.procedures import run_procedure  # few models have any

        result = run_procedure(node, [arrays[each] for each in node.inputs])
    else:
        result = _matrix_product(node, arrays)
    return result.astype(node.output.type.dtype).reshape(node.output.shape)


def _window_elements(node: Node) -> int:
    """Returns the total number of elements in the windows of a convolution."""
    if not isinstance(node, Convolution | DepthwiseConvolution):
        return 0
    images, rows, columns, _ = node.output.shape
    return math.prod((images, rows, columns, node.input.shape[3], *node.kernel))


def _top_k(node: TopK, arrays: Mapping[Value, Array]) -> Array:
    array, count = arrays[node.input], node.output.shape[-1]
    length = array.shape[-1]
    if array.dtype == bool:
        array = array.view(np.uint8) != 0
    # The stable sort ascends and is read backwards, so the higher of two equal elements' indices
    # comes first. Reversing the row before sorting prefers the lower one.
    row = array[..., ::-1] if node.prefers_lower_index else array
    indexes: Array = np.argsort(row, axis=-1, kind="stable")[..., ::-1][..., :count]
    return np.asarray(length - 1 - indexes) if node.prefers_lower_index else indexes


def _wide(array: Array, zero: int) -> Array:
    return array.astype(np.float64 if array.dtype.kind == "f" else np.int64) - zero


def _windows(node: Convolution | DepthwiseConvolution, source: Array) -> Array:
    """Returns (images, height, width, channels, kernel height, kernel width)."""
    padded = np.pad(source, ((0, 0), *node.padding, (0, 0)))
    extents = [(k - 1) * d + 1 for k, d in zip(node.kernel, node.dilation, strict=True)]
    views = np.lib.stride_tricks.sliding_window_view(padded, extents, (1, 2))
    rows, columns = node.output.shape[1:3]
    return views[:, :: node.stride[0], :: node.stride[1], :, :: node.dilation[0], :: node.dilation[1]][
        :, :rows, :columns
    ]


def _convolution(node: Convolution, arrays: Mapping[Value, Array]) -> Array:
    source, weights = (
        _wide(arrays[node.input], node.input_zero),
        _wide(arrays[node.weights], node.weights_zero),
    )
    windows = _windows(node, source)
    depth, each = weights.shape[3], weights.shape[0] // node.groups
    parts = [
        np.einsum(
            "nyxcij,oijc->nyxo",
            windows[:, :, :, g * depth : (g + 1) * depth],
            weights[g * each : (g + 1) * each],
            optimize=True,
        )
        for g in range(node.groups)
    ]
    return np.concatenate(parts, axis=3)


def _depthwise(node: DepthwiseConvolution, arrays: Mapping[Value, Array]) -> Array:
    source, weights = (
        _wide(arrays[node.input], node.input_zero),
        _wide(arrays[node.weights], node.weights_zero),
    )
    repeated = np.repeat(_windows(node, source), node.multiplier, axis=3)
    return np.asarray(np.einsum("nyxcij,ijc->nyxc", repeated, weights, optimize=True))


def _matrix_product(node: MatrixProduct, arrays: Mapping[Value, Array]) -> Array:
    left, right = _wide(arrays[node.left], node.left_zero), _wide(arrays[node.right], node.right_zero)
    left = left.swapaxes(-1, -2) if node.left_transposed else left
    product: Array = left @ (right if node.right_transposed else right.swapaxes(-1, -2))
    return product


def _attention(node: Attention, arrays: Mapping[Value, Array]) -> Array:
    batch, row, column, inner, feature = node.axes

    def computed(
        body: Expression, axes: tuple[Axis, ...], read: Mapping[Value, Array], sums: Array | None = None
    ) -> Array:
        output = Value(tuple(each.extent for each in axes), body.type)
        return _compute(Compute(output=output, axes=axes, body=body), read, sums)

    query, key = (
        computed(node.query, (batch, row, inner), arrays),
        computed(node.key, (batch, column, inner), arrays),
    )
    sums = (_wide(query, 0) @ _wide(key, 0).swapaxes(-1, -2)).astype(np.float32)
    scores = computed(node.score, (batch, row, column), arrays, sums)
    weights = computed(node.weights, (batch, row, column), {**arrays, node.scores: scores})
    value = computed(node.value, (batch, column, feature), arrays)
    return np.asarray(_wide(weights, 0) @ _wide(value, 0), np.float32)


def evaluate_kernel(kernel: Kernel, arrays: Mapping[Value, Array]) -> Array:
    """Computes the elements of a kernel from its inputs."""
    charge(kernel.output.size_bytes, _PURPOSE)
    with np.errstate(all="ignore"), temporary():
        node = kernel.contraction
        contracted: Array | None = None
        if node is not None:
            contracted = (
                _attention(node, arrays) if isinstance(node, Attention) else evaluate_node(node, arrays)
            )
        return _compute(kernel, arrays, contracted).reshape(kernel.output.shape)


def evaluate_fused(
    graph: FusedGraph, inputs: Sequence[Array], run: EvaluateKernel = evaluate_kernel
) -> list[Array]:
    """Computes the outputs of a fused graph.

    Args:
        graph: the graph to compute.
        inputs: the arrays of the graph's inputs.
        run: computes a kernel.

    Raises:
        RequirementFailed: a requirement of a kernel does not hold.
    """
    values = dict(zip(graph.inputs, inputs, strict=True))
    for kernel in graph.kernels:
        for value in kernel.inputs:
            if value in graph.aliases:
                start = graph.starts.get(value, 0)
                whole = _array(graph.aliases[value], values).reshape(-1)
                values[value] = whole[start : start + value.count].reshape(value.shape)
        arrays = {value: _array(value, values) for value in kernel.inputs}
        result = run(kernel, arrays)
        owner = graph.aliases.get(kernel.output, kernel.output)
        if owner is kernel.output and kernel.output_offset is None:
            values[kernel.output] = result
            continue
        start = graph.starts.get(kernel.output, 0)
        whole = values.setdefault(owner, np.zeros(owner.shape, owner.type.dtype))
        whole.reshape(-1)[start + _output_offsets(kernel)] = result.reshape(-1)
    return [values[value] for value in graph.outputs]


def _output_offsets(kernel: Kernel) -> Array:
    """Returns the offset of each of a kernel's elements in its output, in elements."""
    if kernel.output_offset is None:
        return np.arange(kernel.output.count)
    output = Value(kernel.shape, Scalar.INT64)
    return _compute(Compute(output=output, axes=kernel.axes, body=kernel.output_offset), {}).reshape(-1)


def _compute(node: Compute | Kernel, arrays: Mapping[Value, Array], contracted: Array | None = None) -> Array:
    whole = tuple(axis.extent for axis in node.axes)
    if not math.prod(whole):
        return np.empty(whole, node.output.type.dtype)
    roots = (node.body, *(condition for condition, _ in node.requirements))
    reduced = [axis for each in walk(*roots) if isinstance(each, Reduce) for axis in each.axes]
    axes = list(dict.fromkeys((*node.axes, *reduced)))
    evaluator = _ExpressionEvaluator(
        {axis: position for position, axis in enumerate(axes)}, arrays, contracted
    )
    for root in walk(*roots):
        evaluator.add(root)
    padded = (*whole, *(1 for _ in axes[len(whole) :]))
    for condition, message in node.requirements:
        if not evaluator.of(condition).all():
            raise RequirementFailed(message)
    return np.broadcast_to(evaluator.of(node.body), padded).reshape(whole).astype(node.output.type.dtype)


class _ExpressionEvaluator:
    """Evaluates expressions as arrays with one dimension per axis.

    A dimension has length 1 if the expression does not depend on its axis.
    """

    def __init__(
        self, dimensions: Mapping[Axis, int], arrays: Mapping[Value, Array], contracted: Array | None
    ) -> None:
        self._contracted = contracted
        self._dimensions = dimensions
        self._arrays = arrays
        self._known: dict[Expression, Array] = {}

    def of(self, expression: Expression) -> Array:
        return self._known[expression]

    def add(self, expression: Expression) -> None:
        shapes = [self._known[each].shape for each in expression.operands]
        charge(_WIDEST_BYTES * math.prod(np.broadcast_shapes(*shapes)), _PURPOSE)
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
    return np.asarray((shifted * mantissa + nudge - below) >> (31 + right))


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
    Op.SHIFT_LEFT: np.left_shift,
    Op.SHIFT_RIGHT: np.right_shift,
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
