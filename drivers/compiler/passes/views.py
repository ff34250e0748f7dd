"""Removes no-op nodes, and makes reshapes read the original value instead of another reshape."""

from neurald.drivers.compiler.ir.graph import Compute, Graph, Node
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.replacing import view, with_inputs


def remove_views(graph: Graph) -> bool:
    """Replaces reshaped values by their sources. Outputs of the graph stay."""
    outputs = set(graph.outputs)
    #: Maps each reshaped value to the value that it was computed as.
    sources: dict[Value, Value] = {}
    replaced: dict[Value, Value] = {}
    kept: list[Node] = []
    is_changed = False
    for old in graph.nodes:
        node = with_inputs(old, replaced)
        source = node.aliased_input if isinstance(node, Compute) else None
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
