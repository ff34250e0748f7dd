"""Folds constants, such as transposed weights, tables and rescaled biases."""

import math

import numpy as np

from neurald.drivers.compiler.analysis.interpreter import Array, Evaluate, RequirementFailed, evaluate_node
from neurald.drivers.compiler.ir.expression import Axis, Constant, Load, Reduce
from neurald.drivers.compiler.ir.extents.extent import has_extents
from neurald.drivers.compiler.ir.graph import Compute, Graph, Node
from neurald.drivers.compiler.ir.traversal import has_own_extents, walk

#: Size of a folded constant relative to its inputs. Larger ones are cheaper to recompute than to
#: load, unless they have at most `_MAX_SMALL_BYTES`.
_MAX_GROWTH = 2
_MAX_SMALL_BYTES = 1 << 16
#: Number of element computations for one constant. It bounds the time and the temporary memory.
_MAX_STEPS = 1 << 23


def fold_constants(graph: Graph, evaluate: Evaluate = evaluate_node) -> bool:
    """Folds nodes whose inputs are all constants. Nodes without inputs are left to fusion.

    Args:
        graph: the graph to change.
        evaluate: computes the nodes. It should produce the bits of compiled code, so that results
            do not depend on which inputs are constants.

    Returns:
        True if any node was folded.
    """
    kept: list[Node] = []
    for node in graph.nodes:
        array = _constant_result(node, evaluate) if isinstance(node, Compute) else None
        if array is None:
            kept.append(node)
        else:
            node.output.constant = array
    is_changed = len(kept) < len(graph.nodes)
    graph.nodes = kept
    return is_changed


def _constant_result(node: Compute, evaluate: Evaluate) -> Array | None:
    """Returns the value of a node, or None if it is not constant or too expensive."""
    inputs = {value: value.constant for value in node.inputs if value.constant is not None}
    if not inputs or len(inputs) < len(node.inputs) or has_extents(node.output.shape):
        return None
    source = node.aliased_input
    if source is not None:
        return inputs[source].reshape(node.output.shape)
    if _depends_on_extents(node):
        return None
    read_bytes = sum(value.size_bytes for value in inputs)
    if node.output.size_bytes > max(_MAX_SMALL_BYTES, _MAX_GROWTH * read_bytes) or not _is_quick(node):
        return None
    try:
        with np.errstate(all="ignore"):
            result = evaluate(node, inputs)
    except RequirementFailed:
        # The node stays, so that executions report the failure.
        return None
    return np.ascontiguousarray(result).reshape(node.output.shape)


def _depends_on_extents(node: Compute) -> bool:
    """Returns True if elements or requirements are computed from numbers that are not known yet."""
    roots = (node.body, *(condition for condition, _ in node.requirements))
    return any(
        has_extents(along.extent for along in each.axes)
        if isinstance(each, Reduce)
        else has_own_extents(each)
        for each in walk(*roots)
    )


def _is_quick(node: Compute) -> bool:
    if isinstance(node.body, Load) and all(
        isinstance(index, Axis | Constant) for index in node.body.operands
    ):
        return True  # a transposition or broadcast, which NumPy does without temporaries
    reduced = {each for root in walk(node.body) if isinstance(root, Reduce) for each in root.axes}
    return node.output.count * math.prod(axis.extent for axis in reduced) <= _MAX_STEPS
