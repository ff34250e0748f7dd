"""Computes functions of single elements of a contraction's result before these are moved.

For example, projections to the heads of an attention are often scaled after they were transposed.
Computed before, the function becomes part of the contraction's kernel, and the elements are only
moved, which costs nothing where their readers can read them in place.
"""

from neurald.drivers.compiler.ir.expression import Apply, Constant, Expression, Load, axis, load
from neurald.drivers.compiler.ir.extents.extent import same_length
from neurald.drivers.compiler.ir.graph import Compute, Graph, Node, Selection
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import free_axes, rewrite, substitute
from neurald.drivers.compiler.ir.value import Value
from neurald.hal.records import replace


def hoist_pointwise(graph: Graph) -> bool:
    """Exchanges functions of single FLOAT32 elements with the movements before them.

    Nothing else may read the moved elements. Returns True if there were any.
    """
    hoisting = _Hoisting(graph)
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes += hoisting.exchanged(node) or (node,)
    is_changed = len(nodes) > len(graph.nodes)
    graph.nodes = nodes
    return is_changed


class _Hoisting:
    def __init__(self, graph: Graph) -> None:
        self._producers, self._consumers = graph.producers(), graph.consumers()
        self._outputs = set(graph.outputs)

    def exchanged(self, node: Node) -> tuple[Node, Node] | None:
        """Returns a node that computes the function, and one that moves its results.

        Returns None if the node does not compute a function of single moved elements.
        """
        loaded = _only_load(node) if isinstance(node, Compute) else None
        moved = None if loaded is None else self._source_of(loaded)
        if not isinstance(node, Compute) or loaded is None or moved is None:
            return None
        source = moved.value
        if not same_length(source.count, node.output.count):
            return None
        axes = tuple(axis(length, f"i{dimension}") for dimension, length in enumerate(source.shape))
        first, result = load(source, axes), Value(source.shape, Scalar.FLOAT32, name=node.output.name)
        body = rewrite(node.body, lambda each: first if each is loaded else None, {})
        computed = Compute(output=result, axes=axes, body=body, operations=node.operations)
        return computed, replace(node, body=load(result, moved.index))

    def _source_of(self, loaded: Load) -> Load | None:
        """Returns the load of the contraction's result that a loaded element is a copy of.

        Returns None if there is none, or if its elements are in the same order.
        """
        is_moved = False
        while True:
            producer = self._producers.get(loaded.value)
            if producer is None or loaded.value in self._outputs or len(self._consumers[loaded.value]) != 1:
                return None
            if not isinstance(producer, Compute) or not _only_moves(producer):
                return loaded if is_moved and self._ends_contraction(producer) else None
            is_moved = is_moved or producer.aliased_input is None
            copied = substitute(producer.body, dict(zip(producer.axes, loaded.index, strict=True)))
            if not isinstance(copied, Load):
                return None
            loaded = copied

    def _ends_contraction(self, node: Node) -> bool:
        """Returns True for contractions, and for what is computed from their results."""
        if not isinstance(node, Compute):
            return not isinstance(node, Selection)
        producers = (self._producers.get(value) for value in node.inputs)
        return any(each is not None and not isinstance(each, Compute | Selection) for each in producers)


def _only_load(node: Compute) -> Load | None:
    """Returns the load on which alone an element of a FLOAT32 value depends, by a function."""
    found: Load | None = None
    pending: list[Expression] = [node.body]
    if isinstance(node.body, Load) or node.requirements or node.limit is not None:
        return None
    while pending:
        each = pending.pop()
        if isinstance(each, Load):
            if each.value.constant is not None and not free_axes(each):
                # A number.
                continue
            if each.guard is not None or each.type is not Scalar.FLOAT32 or found not in (None, each):
                return None
            found = each
        elif isinstance(each, Apply):
            pending += each.arguments
        elif not isinstance(each, Constant):
            return None
    return found if node.body.type is Scalar.FLOAT32 else None


def _only_moves(node: Compute) -> bool:
    """Returns True if each element is a copy of one element."""
    is_plain = not node.requirements and node.limit is None
    return is_plain and isinstance(node.body, Load) and node.body.guard is None
