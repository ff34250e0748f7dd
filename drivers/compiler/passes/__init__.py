"""Graph transformations that keep the results and reduce work, one kind per file.

Each is a function that changes a graph in place and returns True if it did. They run in the order
of `TRANSFORMATIONS` until a fixed point. No transformation restores what another one removes.
"""

from collections.abc import Callable
from functools import partial

from neurald.drivers.compiler.analysis.interpreter import Evaluate, evaluate_node
from neurald.drivers.compiler.analysis.verifier import check
from neurald.drivers.compiler.ir.graph import Graph, Node
from neurald.drivers.compiler.passes import (
    arithmetic,
    constants,
    duplicates,
    grouped,
    padding,
    pointwise_products,
    scaling,
    transposition,
    uniform,
    views,
)

#: Changes a graph in place. Returns True if it did.
Transformation = Callable[[Graph], bool]

#: Constants come first, so that the others see final weights.
TRANSFORMATIONS: tuple[Transformation, ...] = (
    constants.fold_constants,
    uniform.replace_splat_constants,
    arithmetic.simplify_arithmetic,
    duplicates.merge_duplicates,
    views.remove_views,
    padding.merge_padding,
    transposition.merge_transposition,
    grouped.canonicalize_depthwise,
    scaling.merge_scaling,
    pointwise_products.canonicalize_matrix_products,
)


def transform(graph: Graph, evaluate: Evaluate = evaluate_node) -> None:
    """Applies all transformations to a fixed point.

    Args:
        graph: is changed.
        evaluate: computes constants; see `constants.fold_constants`.

    Raises:
        InvalidGraph: the graph is invalid at the start or after a transformation.
    """
    checked: set[Node] = set()
    check(graph, checked)
    # Dead nodes still count as readers, which some transformations inspect.
    graph.remove_unused()
    fold = partial(constants.fold_constants, evaluate=evaluate)
    transformations = [fold if each is constants.fold_constants else each for each in TRANSFORMATIONS]
    is_changed = True
    while is_changed:
        is_changed = False
        for transformation in transformations:
            if transformation(graph):
                is_changed = True
                graph.remove_unused()
                check(graph, checked)
