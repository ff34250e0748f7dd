"""Gives convolutions with one input channel per group the kind that has the faster kernels.

With several channels, this is a depthwise convolution, whose kernels take vectors of channels. With
a single channel for all outputs, there is nothing to take apart: it is an ordinary convolution, so
that its window becomes the depth of a matrix product. Converters write either as the other.
"""

from neurald.drivers.compiler.ir.expression import Axis, Expression, axis, index, load
from neurald.drivers.compiler.ir.graph import Compute, Convolution, DepthwiseConvolution, Graph, Node
from neurald.drivers.compiler.ir.value import Value


def canonicalize_depthwise(graph: Graph) -> bool:
    """Replaces grouped convolutions with one channel per group, and depthwise ones of one channel.

    Returns True if there were any.
    """
    nodes: list[Node] = []
    for node in graph.nodes:
        if isinstance(node, Convolution) and node.groups > 1 and node.weights.shape[3] == 1:
            nodes += _depthwise(node)
        elif isinstance(node, DepthwiseConvolution) and node.input.shape[3] == 1:
            nodes += _ordinary(node)
        else:
            nodes.append(node)
    is_changed = len(nodes) > len(graph.nodes)
    graph.nodes = nodes
    return is_changed


def _depthwise(node: Convolution) -> tuple[Node, ...]:
    channels, rows, columns, _ = node.weights.shape
    i, j, o = axes = axis(rows, "i0"), axis(columns, "i1"), axis(channels, "i2")
    return _with_weights(node, DepthwiseConvolution, axes, load(node.weights, (o, i, j, index(0))))


def _ordinary(node: DepthwiseConvolution) -> tuple[Node, ...]:
    rows, columns, channels = node.weights.shape
    o, i, j, _ = axes = axis(channels, "i0"), axis(rows, "i1"), axis(columns, "i2"), axis(1, "i3")
    return _with_weights(node, Convolution, axes, load(node.weights, (i, j, o)))


def _with_weights(
    node: Convolution | DepthwiseConvolution,
    kind: type[Convolution] | type[DepthwiseConvolution],
    axes: tuple[Axis, ...],
    body: Expression,
) -> tuple[Node, ...]:
    """Returns a convolution as one of another kind, after what arranges its weights for that.

    Args:
        node: the convolution.
        kind: the other kind.
        axes: those of the arranged weights.
        body: an element of them.
    """
    shape = tuple(each.extent for each in axes)
    weights = Value(shape, node.weights.type, name=node.weights.name)
    return (
        Compute(output=weights, axes=axes, body=body, operations=node.operations),
        kind(
            output=node.output,
            input=node.input,
            weights=weights,
            stride=node.stride,
            dilation=node.dilation,
            padding=node.padding,
            input_zero=node.input_zero,
            weights_zero=node.weights_zero,
            operations=node.operations,
        ),
    )
