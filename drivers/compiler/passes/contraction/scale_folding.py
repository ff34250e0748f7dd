"""Folds a per-channel scale of a contraction's result into its constant weights."""

import numpy as np

from neurald.drivers.compiler.analysis.interpreter import Array
from neurald.drivers.compiler.ir.expression import Apply, Constant, Expression, Load
from neurald.drivers.compiler.ir.graph import (
    Compute,
    Contraction,
    Convolution,
    DepthwiseConvolution,
    Graph,
    Node,
    Selection,
)
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import rewrite, walk
from neurald.drivers.compiler.ir.value import Value
from neurald.hal.records import replace


def fold_scaling(graph: Graph) -> bool:
    """Scales constant FLOAT32 weights by the factor that the only reader of the result applies.

    Returns True if there were any.
    """
    consumers, outputs = graph.consumers(), set(graph.outputs)
    changed: dict[Value, Node] = {}
    for node in graph.nodes:
        readers = consumers.get(node.output, [])
        if isinstance(node, Compute | Selection) or node.output in outputs or len(readers) != 1:
            continue
        reader = changed.get(readers[0].output, readers[0])
        folded = _folded(node, reader) if isinstance(reader, Compute) else None
        if folded is not None:
            changed[node.output], changed[reader.output] = folded
    graph.nodes = [changed.get(node.output, node) for node in graph.nodes]
    return bool(changed)


def _folded(node: Contraction, reader: Compute) -> tuple[Contraction, Compute] | None:
    """Returns both nodes without the multiplication, or None if the pattern does not match."""
    match = _match_product(node.output, reader)
    if match is None:
        return None
    product, result, factor = match
    factors = _factors(result, factor)
    scaled = None if factors is None else _scaled(node, factors)
    if scaled is None:
        return None
    body = rewrite(reader.body, lambda each: result if each is product else None, {})
    return scaled, replace(reader, body=body)


def _match_product(result: Value, reader: Compute) -> tuple[Expression, Load, Expression] | None:
    """Returns the multiplication by a factor, if it is the only use of the contraction's result.

    Returns:
        The product, the load of the result and the factor; None if the pattern does not match.
    """
    if reader.requirements:
        return None
    users = [
        (each, operand)
        for each in walk(reader.body)
        for operand in each.operands
        if isinstance(operand, Load) and operand.value is result
    ]
    if len(users) != 1 or (isinstance(reader.body, Load) and reader.body.value is result):
        return None
    product, loaded = users[0]
    is_plain = loaded.guard is None and isinstance(product, Apply) and product.op is Op.MULTIPLY
    if not is_plain or product.type is not Scalar.FLOAT32:
        return None
    first, second = product.operands
    return product, loaded, second if first is loaded else first


def _factors(loaded: Load, factor: Expression) -> Array | None:
    """Returns one factor or one per channel; None if it is not constant or varies otherwise."""
    if isinstance(factor, Constant):
        return np.full(1, factor.value, np.float32)
    if not isinstance(factor, Load) or factor.guard is not None or factor.value.constant is None:
        return None
    channel, channels = loaded.index[-1], loaded.value.shape[-1]
    for index, length in zip(factor.index, factor.value.shape, strict=True):
        is_channel = index is channel and length == channels
        if length != 1 and not is_channel:
            return None
    return factor.value.constant.reshape(-1) if factor.value.count in (1, channels) else None


def _scaled(node: Contraction, factors: Array) -> Contraction | None:
    """Returns the contraction with scaled weights, or None if that is inexact beyond rounding."""
    value = node.weights if isinstance(node, Convolution | DepthwiseConvolution) else node.right
    if value.constant is None or {value.type, node.output.type} != {Scalar.FLOAT32}:
        return None
    along = [1] * len(value.shape)
    along[_channel_dimension(node)] = len(factors)
    exact = value.constant.astype(np.float64) * factors.reshape(along)
    info = np.finfo(np.float32)
    is_normal = (exact == 0) | ((abs(exact) >= info.smallest_normal) & (abs(exact) <= info.max))
    # A factor of 0 would turn infinite sums into NaN.
    if not is_normal.all() or not factors.all():
        return None
    weights = Value(value.shape, value.type, exact.astype(np.float32), value.name)
    if isinstance(node, Convolution):
        return replace(node, weights=weights)
    if isinstance(node, DepthwiseConvolution):
        return replace(node, weights=weights)
    return replace(node, right=weights)


def _channel_dimension(node: Contraction) -> int:
    if isinstance(node, Convolution):
        return 0
    if isinstance(node, DepthwiseConvolution):
        return 2
    return -1 if node.right_transposed else -2
