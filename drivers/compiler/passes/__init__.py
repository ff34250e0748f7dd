"""Changes of a graph after which it gives the same results with less work: one kind a file.

Each is a function that changes a graph in place and says whether it did. They run in the order of `TRANSFORMATIONS`, over and
over until none of them finds anything more to change; every one takes away something that none of the others brings back.
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

#: Changes a graph in place; whether there was anything to change.
Transformation = Callable[[Graph], bool]

#: In the order in which they run. Constants come first, so that what follows sees weights as they are.
TRANSFORMATIONS: tuple[Transformation, ...] = (
    constants.fold_constants,
    uniform.know_uniform,
    arithmetic.simplify_arithmetic,
    duplicates.merge_duplicates,
    views.remove_views,
    padding.merge_padding,
    transposition.merge_transposition,
    grouped.find_depthwise,
    scaling.merge_scaling,
    pointwise_products.simplify_products,
)


def transform(graph: Graph, evaluate: Evaluate = evaluate_node) -> None:
    """Applies all transformations.

    Args:
        graph: is changed.
        evaluate: computes constants, see `constants.fold_constants`.

    Raises:
        InvalidGraph: the graph contradicts itself, at the beginning or after a transformation.
    """
    sound: set[Node] = set()
    check(graph, sound)
    # What nobody needs reads values all the same, and some transformations ask who does.
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
                check(graph, sound)
