"""Divides integer sums that may exceed 32 bits into parts that do not.

Kernels of quantised products add in 32 bits. Longer sums, such as those of two thousand products of
16 and 8 bits, would have generic code, which takes some fifty times as long. A convolution of such
sums becomes one with more groups, each of which adds the products of a part of the channels; a node
after it adds the parts in 64 bits.
"""

from typing import Any

import numpy as np

from neurald.drivers.compiler.analysis.interpreter import Array
from neurald.drivers.compiler.ir.expression import axis, load
from neurald.drivers.compiler.ir.graph import Compute, Convolution, Graph, MatrixProduct, Node
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.node_rewriting import reshaped, view
from neurald.hal.records import replace

_MAX_INT32 = (1 << 31) - 1
#: Sums of more parts are left as they are.
_MAX_PARTS = 32


def split_sums(graph: Graph) -> bool:
    """Divides the INT64 sums of products with constant weights.

    Returns True if there were any whose channels divide into equal parts.
    """
    nodes: list[Node] = []
    for node in graph.nodes:
        parts: tuple[Node, ...] = ()
        if isinstance(node, Convolution) and node.output.type is Scalar.INT64:
            parts = _divided(node)
        elif isinstance(node, MatrixProduct) and node.output.type is Scalar.INT64:
            parts = _divided_product(node)
        nodes += parts or (node,)
    is_changed = len(nodes) > len(graph.nodes)
    graph.nodes = nodes
    return is_changed


def _divided_product(node: MatrixProduct) -> tuple[Node, ...]:
    """Returns the nodes that replace a product of two matrices; empty if it must stay."""
    is_plain = len(node.left.shape) == len(node.right.shape) == 2
    if not is_plain or node.left_transposed or node.right_transposed or node.right.constant is None:
        return ()
    (rows, depth), channels = node.left.shape, node.right.shape[0]
    image, before = reshaped(node.left, (1, 1, rows, depth), node.operations)
    weights, _ = reshaped(node.right, (channels, 1, 1, depth), node.operations)
    convolution = Convolution(
        output=Value((1, 1, rows, channels), Scalar.INT64, name=node.output.name),
        input=image,
        weights=weights,
        input_zero=node.left_zero,
        weights_zero=node.right_zero,
        operations=node.operations,
    )
    divided = _divided(convolution)
    return (*before, *divided, view(convolution.output, node.output, node.operations)) if divided else ()


def _divided(node: Convolution) -> tuple[Node, ...]:
    """Returns the nodes that replace a convolution; empty if it must stay."""
    constant = node.weights.constant
    count = 0 if constant is None else _parts(node, constant)
    if constant is None or not count:
        return ()
    channels, *kernel, depth = node.weights.shape
    width = channels // node.groups
    # (groups, channels, height, width, parts, depth) → (groups, parts, channels, …)
    weights = constant.reshape(node.groups, width, *kernel, count, depth // count).transpose(0, 4, 1, 2, 3, 5)
    weights = np.ascontiguousarray(weights).reshape(count * channels, *kernel, depth // count)
    *positions, _ = node.output.shape
    partial = replace(
        node,
        output=Value((*positions, count * channels), Scalar.INT32, name=node.output.name),
        weights=Value(weights.shape, node.weights.type, weights, node.weights.name),
        groups=node.groups * count,
    )
    axes = tuple(axis(length, f"i{place}") for place, length in enumerate(node.output.shape))
    *at, channel = axes
    first = channel // width * (count * width) + channel % width
    body, *others = (
        load(partial.output, (*at, first + part * width)).to(Scalar.INT64) for part in range(count)
    )
    for each in others:
        body = body + each
    return partial, Compute(output=node.output, axes=axes, body=body, operations=node.operations)


def _parts(node: Convolution, weights: Array) -> int:
    """Returns the least number of equal parts whose sums 32 bits hold; 0 if there is none."""
    if not node.input.type.is_integer:
        return 0
    kind: Any = node.input.type.dtype
    limits = np.iinfo(kind)
    reach = max(int(limits.max) - node.input_zero, node.input_zero - int(limits.min))
    magnitudes = np.abs(weights.astype(np.int64) - node.weights_zero).sum(axis=(1, 2))
    channels, depth = magnitudes.shape
    for count in range(2, min(_MAX_PARTS, depth // 2) + 1):
        if depth % count == 0:
            sums = magnitudes.reshape(channels, count, depth // count).sum(axis=2)
            if reach * int(sums.max(initial=0)) <= _MAX_INT32:
                return count
    return 0
