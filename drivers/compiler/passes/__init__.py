"""Passes that reduce the work of a graph without changing its results, one per file.

A pass changes a graph in place and returns True if it did. The passes run in the order of `PASSES`,
repeatedly, until none changes the graph. No pass restores what another one removes.
"""

from collections.abc import Callable
from functools import partial

from neurald.drivers.compiler.analysis.interpreter import Evaluate, evaluate_node
from neurald.drivers.compiler.analysis.verifier import verify
from neurald.drivers.compiler.ir.graph import Graph, Node
from neurald.drivers.compiler.passes import (
    common_subexpressions,
    constant_folding,
    extreme_sources,
    splat_constants,
    strength_reduction,
    view_elimination,
)
from neurald.drivers.compiler.passes.contraction import (
    depthwise_canonicalization,
    matmul_canonicalization,
    pad_folding,
    pointwise_hoisting,
    scale_folding,
    sum_splitting,
    transpose_folding,
)

#: Changes a graph in place. Returns True if it did.
GraphPass = Callable[[Graph], bool]

#: Constant folding comes first, so that the other passes see the final weights.
PASSES: tuple[GraphPass, ...] = (
    constant_folding.fold_constants,
    splat_constants.replace_splat_constants,
    strength_reduction.reduce_strength,
    common_subexpressions.eliminate_common_subexpressions,
    view_elimination.eliminate_views,
    extreme_sources.take_extremes_of_sources,
    pad_folding.fold_padding,
    pointwise_hoisting.hoist_pointwise,
    transpose_folding.fold_transpositions,
    depthwise_canonicalization.canonicalize_depthwise,
    scale_folding.fold_scaling,
    matmul_canonicalization.canonicalize_matrix_products,
    sum_splitting.split_sums,
)


def transform(graph: Graph, evaluate: Evaluate = evaluate_node) -> None:
    """Runs all passes until none changes the graph.

    Args:
        graph: the graph to change.
        evaluate: computes constants; see `constant_folding.fold_constants`.

    Raises:
        InvalidGraph: the graph is invalid at the start or after a pass.
    """
    verified: set[Node] = set()
    verify(graph, verified)
    # Some passes count the readers of a value; unused nodes must not be among them.
    graph.remove_unused()
    fold = partial(constant_folding.fold_constants, evaluate=evaluate)
    passes = [fold if each is constant_folding.fold_constants else each for each in PASSES]
    is_changed = True
    while is_changed:
        is_changed = False
        for each in passes:
            if each(graph):
                is_changed = True
                graph.remove_unused()
                verify(graph, verified)
