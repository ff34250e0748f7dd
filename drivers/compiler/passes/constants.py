"""What only depends on constants is computed once and for all: weights in another order, tables, rescaled biases."""

import math

import numpy as np

from neurald.drivers.compiler.analysis.interpreter import Array, Evaluate, RequirementFailed, evaluate_node
from neurald.drivers.compiler.ir.expression import Axis, Constant, Load, Reduce
from neurald.drivers.compiler.ir.graph import Compute, Graph, Node
from neurald.drivers.compiler.ir.traversal import walk

#: A constant may be so many times as large as what it is computed from, or as many bytes. Larger ones are cheaper to compute
#: where they are read than to read.
_MAXIMUM_GROWTH = 2
_SMALL_BYTES = 1 << 16
#: So many steps are computed ahead. More would take too long, and too much memory for what lies between.
_MAXIMUM_STEPS = 1 << 23


def fold_constants(graph: Graph, evaluate: Evaluate = evaluate_node) -> bool:
    """Makes constants of nodes whose inputs are all constants. Nodes without inputs are left to where they are read.

    Args:
        graph: is changed.
        evaluate: computes them. It should give what the compiler's code would give, so that it does not matter for the results
            what is known when a model is compiled.

    Returns:
        Whether there were any.
    """
    kept: list[Node] = []
    for node in graph.nodes:
        array = _folded(node, evaluate) if isinstance(node, Compute) else None
        if array is None:
            kept.append(node)
        else:
            node.output.constant = array
    is_changed = len(kept) < len(graph.nodes)
    graph.nodes = kept
    return is_changed


def _folded(node: Compute, evaluate: Evaluate) -> Array | None:
    """The value of a node, None where it is not known or too much."""
    inputs = {value: value.constant for value in node.inputs if value.constant is not None}
    if not inputs or len(inputs) < len(node.inputs):
        return None
    viewed = node.viewed
    if viewed is not None:
        return inputs[viewed].reshape(node.output.shape)
    read_bytes = sum(value.size_bytes for value in inputs)
    if node.output.size_bytes > max(_SMALL_BYTES, _MAXIMUM_GROWTH * read_bytes) or not _is_quick(node):
        return None
    try:
        with np.errstate(all="ignore"):
            found = evaluate(node, inputs)
    except RequirementFailed:
        # Every execution fails, and says so.
        return None
    return np.ascontiguousarray(found).reshape(node.output.shape)


def _is_quick(node: Compute) -> bool:
    if isinstance(node.body, Load) and all(
        isinstance(place, Axis | Constant) for place in node.body.operands
    ):
        return True  # transposed or repeated, which NumPy does without anything in between
    folded = {each for root in walk(node.body) if isinstance(root, Reduce) for each in root.axes}
    return node.output.count * math.prod(axis.extent for axis in folded) <= _MAXIMUM_STEPS
