"""Nodes that change nothing are dropped, and those that only change the shape see what was computed, not each other."""

from neurald.drivers.compiler.ir.graph import Compute, Graph, Node
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.replacing import view, with_inputs


def remove_views(graph: Graph) -> bool:
    """Replaces values by what they are the same elements of. Outputs of the graph stay."""
    outputs = set(graph.outputs)
    #: What is seen in another shape, to what it was at first.
    sources: dict[Value, Value] = {}
    replaced: dict[Value, Value] = {}
    kept: list[Node] = []
    is_changed = False
    for old in graph.nodes:
        node = with_inputs(old, replaced)
        source = node.viewed if isinstance(node, Compute) else None
        if source is not None:
            first = sources.get(source, source)
            same = next((each for each in (source, first) if each.shape == node.output.shape), None)
            if same is not None and node.output not in outputs:
                replaced[node.output] = same
                continue
            if first is not source:
                node, is_changed = view(first, node.output, node.operations), True
            sources[node.output] = first
        kept.append(node)
    graph.nodes = kept
    return is_changed or bool(replaced)
