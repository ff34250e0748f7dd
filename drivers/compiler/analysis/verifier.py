"""Verifies the invariants of graphs."""

from collections.abc import Iterator, Sequence

from neurald.drivers.compiler.ir.algorithm import (
    PRODUCT_LANES,
    CombinedRows,
    Distinct,
    Entropy,
    GreedySelection,
    HashSums,
    KeySearch,
    Positions,
    RescaledProduct,
    RunningSum,
    Sampling,
    Scatter,
    SoftSelection,
    StringEquality,
    StringSearch,
)
from neurald.drivers.compiler.ir.expression import (
    AccumulatorRef,
    Apply,
    Axis,
    Expression,
    Linear,
    Load,
)
from neurald.drivers.compiler.ir.extents.extent import lowest
from neurald.drivers.compiler.ir.graph import (
    Compute,
    Convolution,
    DepthwiseConvolution,
    Graph,
    MatrixProduct,
    Node,
    Procedure,
    TopK,
)
from neurald.drivers.compiler.ir.op import COMPARISONS, Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import add_free_axes, walk
from neurald.drivers.compiler.ir.value import Value
from neurald.hal.operations.machinery.broadcasting import broadcast_shapes

_ACCUMULATOR_TYPES = (Scalar.FLOAT32, Scalar.INT32, Scalar.INT64)
#: Types and number of axes of running sums.
_ADDED = (Scalar.FLOAT32, Scalar.FLOAT64, Scalar.INT32, Scalar.INT64)
_RUNNING_SUM_RANK = 3
#: Operations whose operand types differ from the result's.
_MIXED = COMPARISONS | {Op.CONVERT, Op.REINTERPRET, Op.SELECT, Op.FIXED_POINT, Op.FIXED_POINT_UP}


class InvalidGraph(Exception):
    """A graph violates an invariant, because of a bug in a lowering or in a pass."""


def verify(graph: Graph, verified: set[Node] | None = None) -> None:
    """Verifies the order of the nodes and that their shapes, types and axes agree.

    Args:
        graph: the graph to verify.
        verified: nodes that were verified before and are skipped; this graph's nodes are added.
            Nodes never change.

    Raises:
        InvalidGraph: the graph violates an invariant.
    """
    known, verified = set(graph.inputs), set() if verified is None else verified
    for value in graph.inputs:
        _require(value.constant is None, f"input {_text(value)} must not be a constant")
    for node in graph.nodes:
        what = f"{type(node).__name__} {_text(node.output)}"
        is_new = node.output not in known and node.output.constant is None
        _require(is_new, f"{what}: the output is already computed, an input, or a constant")
        for value in node.inputs:
            _check_read(value, known, what)
        if node not in verified:
            for error in _node_errors(node):
                raise InvalidGraph(f"{what}: {error}")
            verified.add(node)
        known.add(node.output)
    for value in graph.outputs:
        _check_read(value, known, "the graph's output")


def _require(holds: bool, text: str) -> None:
    if not holds:
        raise InvalidGraph(text)


def _text(value: Value) -> str:
    return f"{value.name or 'value'} {value.type.name} {list(value.shape)}"


def _check_read(value: Value, known: set[Value], what: str) -> None:
    # This runs for every input of every node, so messages are only formatted on failure.
    array = value.constant
    if array is None:
        if value not in known:
            raise InvalidGraph(f"{what}: reads {_text(value)} before it is computed")
    elif array.shape != value.shape or array.dtype != value.type.dtype:
        raise InvalidGraph(f"{what}: {_text(value)} has a constant of {array.dtype.name} {list(array.shape)}")


def _node_errors(node: Node) -> Iterator[str]:
    if isinstance(node, Compute):
        return _compute_errors(node)
    if isinstance(node, TopK):
        return _top_k_errors(node)
    if isinstance(node, Procedure):
        return _procedure_errors(node)
    return _contraction_errors(node)


def _compute_errors(node: Compute) -> Iterator[str]:
    extents = tuple(axis.extent for axis in node.axes)
    if extents != node.output.shape:
        yield f"the axes have extents {list(extents)}; expected the output's shape"
    if node.body.type is not node.output.type:
        yield f"the body has type {node.body.type.name}; expected the output's type"
    limit = node.limit
    if limit is not None and (limit.count.type is not Scalar.INT32 or limit.count.shape):
        yield f"its number of rows is {_text(limit.count)}"
    if limit is not None and (limit.bound < 1 or node.output.count % limit.bound):
        yield f"it cannot be divided into {limit.bound} rows"
    if any(condition.type is not Scalar.BOOL for condition, _ in node.requirements):
        yield "a requirement is not a BOOL"
    roots = (node.body, *(condition for condition, _ in node.requirements))
    free: dict[Expression, frozenset[Axis]] = {}
    for each in walk(*roots):
        add_free_axes(each, free)
        yield from _expression_errors(each)
    if any(free[root] - set(node.axes) for root in roots):
        yield "it depends on an axis that is neither one of its axes nor reduced"


def _expression_errors(expression: Expression) -> Iterator[str]:
    if isinstance(expression, AccumulatorRef):
        yield "it reads an accumulator without a contraction"
    elif isinstance(expression, Load):
        kinds = {index.type for index in expression.index}
        if len(expression.index) != len(expression.value.shape) or not kinds <= {Scalar.INDEX}:
            count = len(expression.index)
            yield f"it reads {_text(expression.value)} with {count} indices of type {_names(kinds)}"
        if expression.guard is not None and expression.guard.type is not Scalar.BOOL:
            yield "a guard is not a BOOL"
        if expression.otherwise is not None and expression.otherwise.type is not expression.type:
            yield f"a load from {_text(expression.value)} falls back to {expression.otherwise.type.name}"
    elif isinstance(expression, Linear):
        if any(term.type is not Scalar.INDEX for term, _ in expression.terms):
            yield "a linear form has a term that is not an INDEX"
    elif isinstance(expression, Apply):
        yield from _operation_errors(expression)


def _operation_errors(expression: Apply) -> Iterator[str]:
    op, kinds = expression.op, [argument.type for argument in expression.arguments]
    if op is Op.SELECT:
        is_right = kinds == [Scalar.BOOL, expression.type, expression.type]
    elif op in COMPARISONS:
        is_right = len(set(kinds)) == 1 and expression.type is Scalar.BOOL
    elif op is Op.REINTERPRET:
        is_right = kinds[0].size_bytes == expression.type.size_bytes
    else:
        is_right = op in _MIXED or set(kinds) == {expression.type}
    if not is_right:
        yield f"{op.name} of {_names(kinds)} gives {expression.type.name}"


def _names(kinds: "set[Scalar] | list[Scalar]") -> str:
    return ", ".join(kind.name for kind in kinds) or "nothing"


def _top_k_errors(node: TopK) -> Iterator[str]:
    if node.output.type is not Scalar.INT32:
        yield "indices must be INT32"
    rows, indices = node.input.shape, node.output.shape
    if not rows or not indices or rows[:-1] != indices[:-1] or indices[-1] > rows[-1]:
        yield f"its shape does not fit the input {_text(node.input)}"


def _procedure_errors(node: Procedure) -> Iterator[str]:
    algorithm, shapes = node.algorithm, [value.shape for value in node.inputs]
    if isinstance(algorithm, Scatter):
        yield from _scatter_errors(node)
        return
    if isinstance(algorithm, Entropy):
        if {value.shape for value in (node.output, *node.inputs)} != {(2,)}:
            yield "its numbers must be two"
        if {value.type for value in (node.output, *node.inputs)} != {Scalar.UINT64}:
            yield "its numbers must be UINT64"
        return
    if isinstance(algorithm, CombinedRows):
        yield from _combined_rows_errors(node)
        return
    if isinstance(algorithm, HashSums):
        yield from _hash_sums_errors(node)
        return
    if isinstance(algorithm, Sampling):
        yield from _sampling_errors(node)
        return
    if isinstance(algorithm, SoftSelection):
        yield from _soft_selection_errors(node, algorithm)
        return
    if isinstance(algorithm, RescaledProduct):
        yield from _rescaled_product_errors(node, algorithm)
        return
    if isinstance(algorithm, RunningSum):
        yield from _running_sum_errors(node)
        return
    if isinstance(algorithm, StringEquality | StringSearch):
        yield from _string_errors(node, algorithm)
        return
    if node.output.type is not Scalar.INT32:
        yield "its numbers must be INT32"
    expected: tuple[int, ...]
    if isinstance(algorithm, GreedySelection):
        boxes, scores = node.inputs
        images, rows = boxes.shape[0], scores.shape[0]
        if boxes.shape != (images, *scores.shape[1:], 4) or not images or rows % images:
            yield f"it reads values of shapes {[list(shape) for shape in shapes]}"
        if {boxes.type, scores.type} != {Scalar.FLOAT32}:
            yield "boxes and scores must be FLOAT32"
        expected = (scores.shape[0], algorithm.limit + 1)
    elif isinstance(algorithm, Positions | Distinct):
        if len(shapes) != 1 or len(shapes[0]) != 1:
            yield f"it reads values of shapes {[list(shape) for shape in shapes]}; one row is expected"
            return
        expected = (shapes[0][0] * (1 if isinstance(algorithm, Positions) else 2) + 1,)
    elif isinstance(algorithm, KeySearch):
        if [len(shape) for shape in shapes] != [1, 1] or shapes[0] == (0,):
            yield f"it reads values of shapes {[list(shape) for shape in shapes]}; two rows are expected"
            return
        if {value.type for value in node.inputs} not in ({Scalar.INT32}, {Scalar.INT64}):
            yield "keys must be INT32 or INT64"
        expected = shapes[1]
    else:
        count = node.inputs[1].count
        if shapes != [(count, 4), (count,), (1,), (1,), (1,)]:
            yield f"it reads values of shapes {[list(shape) for shape in shapes]}"
        if any(value.type is not Scalar.FLOAT32 for value in node.inputs):
            yield "boxes, scores and limits must be FLOAT32"
        expected = (2 * algorithm.limit + 1,)
    if node.output.shape != expected:
        yield f"its shape must be {list(expected)}"


def _read_errors(node: Procedure, *kinds: Scalar) -> Iterator[str]:
    """Yields an error unless the inputs have these types."""
    if tuple(value.type for value in node.inputs) != kinds:
        yield f"it reads {', '.join(map(_text, node.inputs))}; expected types are {_listed(kinds)}"


def _listed(kinds: Sequence[Scalar]) -> str:
    return ", ".join(kind.name for kind in kinds)


def _combined_rows_errors(node: Procedure) -> Iterator[str]:
    yield from _read_errors(node, Scalar.INT32, Scalar.INT32, Scalar.FLOAT32, Scalar.FLOAT32)
    *lists, table = node.inputs
    if {value.shape for value in lists} != {(lists[0].count,)} or len(table.shape) != 2:
        yield "destinations, rows and weights must be as many, and the table must have rows"
    if node.output.type is not Scalar.FLOAT32 or node.output.shape[1:] != table.shape[1:]:
        yield "its rows must be those of the table"


def _hash_sums_errors(node: Procedure) -> Iterator[str]:
    yield from _read_errors(node, Scalar.UINT32, Scalar.UINT8, Scalar.FLOAT64)
    seeds, rows, weights = node.inputs
    if len(rows.shape) != 2 or not rows.shape[0] or weights.shape != rows.shape[:1]:
        yield f"the weights {_text(weights)} do not fit the rows {_text(rows)}"
    if node.output.shape != seeds.shape or node.output.type is not Scalar.FLOAT64:
        yield "its sums must be FLOAT64, one for each seed"


def _sampling_errors(node: Procedure) -> Iterator[str]:
    yield from _read_errors(node, Scalar.FLOAT64, Scalar.FLOAT64)
    weights, points = node.inputs
    if len(weights.shape) != 2 or not weights.shape[1] or weights.shape[:1] != points.shape[:1]:
        yield f"the points {_text(points)} do not fit the weights {_text(weights)}"
    if node.output.type is not Scalar.INT32 or node.output.shape != points.shape:
        yield "its classes must be INT32, one for each point"


def _soft_selection_errors(node: Procedure, algorithm: SoftSelection) -> Iterator[str]:
    yield from _read_errors(node, Scalar.FLOAT32, Scalar.FLOAT32, Scalar.INT32)
    boxes, scores, images = node.inputs
    if boxes.shape != (*scores.shape, 4) or images.shape != scores.shape[:1] or len(scores.shape) != 2:
        yield f"boxes {_text(boxes)} and images {_text(images)} do not fit the scores {_text(scores)}"
        return
    rows, classes = scores.shape
    if node.output.type is not Scalar.INT32 or node.output.shape != (3 * algorithm.bound(rows, classes) + 1,):
        yield "its numbers must be INT32, three for each box and their number"


def _rescaled_product_errors(node: Procedure, algorithm: RescaledProduct) -> Iterator[str]:
    (factors,) = node.inputs
    if {factors.type, node.output.type} != {Scalar.INT32}:
        yield "factors and products must be INT32"
    if (
        len(factors.shape) != 2
        or not factors.shape[0]
        or (factors.shape[1] != 1 and factors.shape[1] % PRODUCT_LANES)
    ):
        yield f"the factors are {_text(factors)}"
    if node.output.shape != factors.shape[1:]:
        yield "there must be a product for each column"
    if not 0 <= algorithm.multiplier < 1 << 15 or not 1 <= algorithm.bits <= 62:
        yield f"the multiplier {algorithm.multiplier} or the {algorithm.bits} bits are out of range"


def _running_sum_errors(node: Procedure) -> Iterator[str]:
    (source,) = node.inputs
    if source.type is not node.output.type or source.type not in _ADDED:
        yield f"it adds {source.type.name} to {node.output.type.name}"
    if len(source.shape) != _RUNNING_SUM_RANK or source.shape != node.output.shape:
        yield f"its shape does not fit {_text(source)}"


def _string_errors(node: Procedure, algorithm: StringEquality | StringSearch) -> Iterator[str]:
    is_search = isinstance(algorithm, StringSearch)
    result = Scalar.INT32 if is_search else Scalar.BOOL
    expected = [Scalar.INT64, *((Scalar.INT32, Scalar.INT64, Scalar.UINT8) if is_search else (Scalar.INT64,))]
    kinds = [value.type for value in node.inputs]
    if kinds != expected or node.output.type is not result:
        yield f"it reads {_names(kinds)} and writes {node.output.type.name}"
    if any(len(value.shape) != 1 for value in (node.output, *node.inputs)):
        yield "it reads or writes something else than rows"
    strings = node.inputs[: 1 if is_search else 2]
    if any(value.shape != node.output.shape for value in strings):
        yield "it has another number of results than of strings"


def _scatter_errors(node: Procedure) -> Iterator[str]:
    destinations, updates, *base = node.inputs
    if destinations.type not in (Scalar.INT32, Scalar.INT64):
        yield f"the destinations are {destinations.type.name}; expected INT32 or INT64"
    if len(node.output.shape) != 2 or updates.shape != (destinations.count, node.output.shape[1]):
        yield f"its shape does not fit the updates {_text(updates)}"
    if any(value.type is not node.output.type for value in (updates, *base)):
        yield "its type is not that of the updates"
    if any(value.shape != node.output.shape for value in base):
        yield "the rows to begin with have another shape"


def _contraction_errors(node: Convolution | DepthwiseConvolution | MatrixProduct) -> Iterator[str]:
    if node.output.type not in _ACCUMULATOR_TYPES:
        yield "sums must be FLOAT32, INT32 or INT64"
    if isinstance(node, MatrixProduct):
        yield from _matrix_errors(node)
        return
    ranks = 4, 4 if isinstance(node, Convolution) else 3, 4
    if (len(node.input.shape), len(node.weights.shape), len(node.output.shape)) != ranks:
        yield f"wrong ranks of {_text(node.input)} or {_text(node.weights)}"
        return
    channels, depth = node.output.shape[3], node.input.shape[3]
    if isinstance(node, Convolution):
        is_right = (
            node.groups > 0
            and depth == node.groups * node.weights.shape[3]
            and channels == node.weights.shape[0]
            and channels % node.groups == 0
        )
    else:
        is_right = depth > 0 and channels % depth == 0 and channels == node.weights.shape[2]
    if not is_right or node.input.shape[0] != node.output.shape[0]:
        yield f"channels or images do not fit {_text(node.input)} and {_text(node.weights)}"
    if (
        min(*node.stride, *node.dilation) < 1
        or min(lowest(each) for pair in node.padding for each in pair) < 0
    ):
        yield f"invalid stride {node.stride}, dilation {node.dilation}, padding {node.padding}"
    for length, indexes, kernel, stride, dilation, pads in zip(
        node.input.shape[1:3],
        node.output.shape[1:3],
        node.kernel,
        node.stride,
        node.dilation,
        node.padding,
        strict=True,
    ):
        if indexes and (indexes - 1) * stride + (kernel - 1) * dilation + 1 > length + sum(pads):
            yield f"its windows exceed {_text(node.input)} with padding {node.padding}"


def _matrix_errors(node: MatrixProduct) -> Iterator[str]:
    left, right = node.left.shape, node.right.shape
    if len(left) < 2 or len(right) < 2:
        yield f"wrong ranks of {_text(node.left)} or {_text(node.right)}"
        return
    rows, depth = left[:-3:-1] if node.left_transposed else left[-2:]
    columns, other = right[:-3:-1] if node.right_transposed else right[-2:]
    try:
        batches = broadcast_shapes(left[:-2], right[:-2])
    except ValueError:
        batches = ()
    if depth != other or node.output.shape != (*batches, rows, columns):
        yield f"its shape is not that of {_text(node.left)} × {_text(node.right)}"
