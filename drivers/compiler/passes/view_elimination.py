"""Eliminates reshapes that change nothing, and reshapes of reshapes."""

from neurald.drivers.compiler.ir.graph import Compute, Graph, Node
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.node_rewriting import view, with_inputs


def eliminate_views(graph: Graph) -> bool:
    """Replaces reshaped values by their sources. Returns True if there were any.

    Outputs of the graph stay.
    """
    outputs = set(graph.outputs)
    #: Maps each reshaped value to the value that it reshapes.
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
