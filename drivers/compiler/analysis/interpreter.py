"""Interprets graphs and kernels with NumPy.

It folds constants, and tests compare lowerings, passes and generated code with it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np

from neurald.drivers.compiler.analysis.expression_evaluator import PURPOSE, WIDEST_BYTES, ExpressionEvaluator
from neurald.drivers.compiler.ir.expression import (
    Apply,
    Axis,
    Expression,
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
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import walk
from neurald.drivers.compiler.ir.value import Value
from neurald.hal.accounting.account import charge, temporary

Array = np.ndarray[Any, np.dtype[Any]]

#: Computes a node from its inputs; see `evaluate_node`.
Evaluate = Callable[[Node, Mapping[Value, Array]], Array]
#: Computes a kernel from its inputs; see `evaluate_kernel`.
EvaluateKernel = Callable[[Kernel, Mapping[Value, Array]], Array]

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
    charge(node.output.size_bytes, PURPOSE)
    with temporary():
        return _evaluated(node, arrays)


def _evaluated(node: Node, arrays: Mapping[Value, Array]) -> Array:
    if isinstance(node, Compute):
        return _compute(node, arrays)
    read = sum(array.size for array in arrays.values())
    charge(WIDEST_BYTES * (node.output.count + read + _window_elements(node)), PURPOSE)
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
    charge(kernel.output.size_bytes, PURPOSE)
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
    evaluator = ExpressionEvaluator(
        {axis: position for position, axis in enumerate(axes)}, arrays, contracted
    )
    for root in walk(*roots):
        evaluator.add(root)
    padded = (*whole, *(1 for _ in axes[len(whole) :]))
    for condition, message in node.requirements:
        if not evaluator.of(condition).all():
            raise RequirementFailed(message)
    return np.broadcast_to(evaluator.of(node.body), padded).reshape(whole).astype(node.output.type.dtype)
