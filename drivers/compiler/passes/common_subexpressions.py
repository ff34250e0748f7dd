"""Eliminates nodes and constants that are equal to earlier ones."""

from neurald.drivers.compiler.ir.expression import Axis, Expression, Reduce, axis, reduce
from neurald.drivers.compiler.ir.graph import Compute, Graph, Node
from neurald.drivers.compiler.ir.traversal import rewrite, walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.node_rewriting import with_inputs
from neurald.hal.records import replace

#: Size of constants that are compared.
_MAX_CONSTANT_BYTES = 1 << 16


def eliminate_common_subexpressions(graph: Graph) -> bool:
    """Replaces nodes by earlier equivalent ones. Returns True if there were any.

    One value may then be several outputs of the graph.
    """
    replaced = _equal_constants(graph)
    numbered = _NumberedAxes()
    # Keys are expensive. They are only computed for nodes that read the same values: this maps the
    # values to the position of the only node that reads them, or to None if there are several.
    only_readers: dict[tuple[object, ...], int | None] = {}
    positions: dict[tuple[object, ...], int] = {}
    kept: list[Node] = []
    for old in graph.nodes:
        node = with_inputs(old, replaced)
        reads = type(node), node.output.shape, node.output.type, frozenset(node.inputs)
        if reads not in only_readers:
            only_readers[reads] = len(kept)
            kept.append(node)
            continue
        other = only_readers[reads]
        if other is not None:
            positions[_key(kept[other], numbered)], only_readers[reads] = other, None
        position = positions.setdefault(_key(node, numbered), len(kept))
        if position == len(kept):
            kept.append(node)
            continue
        first = kept[position]
        operations = tuple(sorted({*first.operations, *node.operations}))
        kept[position] = replace(first, operations=operations)
        replaced[node.output] = first.output
    graph.nodes = kept
    graph.outputs = [replaced.get(value, value) for value in graph.outputs]
    return bool(replaced)


def _equal_constants(graph: Graph) -> dict[Value, Value]:
    """Maps each constant to the first equal one."""
    first: dict[object, Value] = {}
    replaced: dict[Value, Value] = {}
    for value in dict.fromkeys(value for node in graph.nodes for value in node.inputs):
        if value.constant is None or value.size_bytes > _MAX_CONSTANT_BYTES:
            continue
        same = first.setdefault((value.shape, value.type, value.constant.tobytes()), value)
        if same is not value:
            replaced[value] = same
    return replaced


def _key(node: Node, numbered: "_NumberedAxes") -> tuple[object, ...]:
    return _compute_key(node, numbered) if isinstance(node, Compute) else _contraction_key(node)


def _contraction_key(node: Node) -> tuple[object, ...]:
    fields = (name for name in node.__struct_fields__ if name not in ("output", "operations"))
    attributes = tuple(getattr(node, name) for name in fields)
    return (type(node), node.output.shape, node.output.type, *attributes)


def _compute_key(node: Compute, numbered: "_NumberedAxes") -> tuple[object, ...]:
    """Returns a key that is equal for equivalent nodes: their expressions over canonical axes."""
    own = {each: numbered.get("own", position, each) for position, each in enumerate(node.axes)}
    roots = (node.body, *(condition for condition, _ in node.requirements))
    reduced = dict.fromkeys(along for each in walk(*roots) if isinstance(each, Reduce) for along in each.axes)
    axes = own | {each: numbered.get("reduced", position, each) for position, each in enumerate(reduced)}

    def replacement(expression: Expression) -> Expression | None:
        if isinstance(expression, Axis):
            return axes[expression]
        if isinstance(expression, Reduce):
            return reduce(
                expression.reduction, tuple(axes[each] for each in expression.axes), expression.body
            )
        return None

    memory: dict[Expression, Expression] = {}
    same = tuple(rewrite(root, replacement, memory) for root in roots)
    texts = tuple(text for _, text in node.requirements)
    limit = None if node.limit is None else (node.limit.count, node.limit.bound)
    return Compute, node.output.shape, node.output.type, same, texts, limit


class _NumberedAxes:
    """Canonical axes, identified by purpose, position and extent."""

    def __init__(self) -> None:
        self._axes: dict[tuple[str, int, int], Axis] = {}

    def get(self, what: str, position: int, like: Axis) -> Axis:
        key = what, position, like.extent
        return self._axes.setdefault(key, axis(like.extent, like.name))
