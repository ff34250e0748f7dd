"""Replaces convolutions with one input channel per group by depthwise convolutions."""

from neurald.drivers.compiler.ir.expression import axis, index, load
from neurald.drivers.compiler.ir.graph import Compute, Convolution, DepthwiseConvolution, Graph, Node
from neurald.drivers.compiler.ir.value import Value


def canonicalize_depthwise(graph: Graph) -> bool:
    """Replaces convolutions that have several groups of one input channel each.

    Returns True if there were any.
    """
    nodes: list[Node] = []
    for node in graph.nodes:
        if isinstance(node, Convolution) and node.groups > 1 and node.weights.shape[3] == 1:
            nodes += _depthwise(node)
        else:
            nodes.append(node)
    is_changed = len(nodes) > len(graph.nodes)
    graph.nodes = nodes
    return is_changed


def _depthwise(node: Convolution) -> tuple[Node, ...]:
    channels, rows, columns, _ = node.weights.shape
    weights = Value((rows, columns, channels), node.weights.type, name=node.weights.name)
    i, j, o = axes = axis(rows, "i0"), axis(columns, "i1"), axis(channels, "i2")
    body = load(node.weights, (o, i, j, index(0)))
    return (
        Compute(output=weights, axes=axes, body=body, operations=node.operations),
        DepthwiseConvolution(
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
