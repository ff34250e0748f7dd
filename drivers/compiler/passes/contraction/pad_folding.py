"""Folds explicit padding with the zero point into the convolution that follows."""

from neurald.drivers.compiler.ir.graph import (
    Compute,
    Convolution,
    DepthwiseConvolution,
    Graph,
    Node,
    Pair,
)
from neurald.hal.records import replace


def fold_padding(graph: Graph) -> bool:
    """Folds padding of height and width into the convolutions that read its result.

    Other readers are not affected. Returns True if there was any.
    """
    producers = graph.producers()
    is_changed = False
    for position, node in enumerate(graph.nodes):
        if not isinstance(node, Convolution | DepthwiseConvolution):
            continue
        producer = producers.get(node.input)
        if isinstance(producer, Compute):
            folded = _folded(node, producer)
            if folded is not None:
                graph.nodes[position], is_changed = folded, True
    return is_changed


def _folded(node: Convolution | DepthwiseConvolution, producer: Compute) -> Node | None:
    """Returns the convolution with the producer's padding, or None if it cannot be folded."""
    pads = producer.padding
    if pads is None:
        return None
    source, (images, height, width, channels), value = pads
    if images != (0, 0) or channels != (0, 0) or value.value != node.input_zero:
        return None
    padding = _sum(node.padding[0], height), _sum(node.padding[1], width)
    operations = tuple(sorted({*producer.operations, *node.operations}))
    return replace(node, input=source, padding=padding, operations=operations)


def _sum(first: Pair, second: Pair) -> Pair:
    return first[0] + second[0], first[1] + second[1]
