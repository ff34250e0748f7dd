"""Compiles operations whose number of results follows from data.

WHERE, UNIQUE and SEGMENT_SUM have at most as many results as elements, and operations that select
boxes at most as many as there are boxes. Their results get the shape of this upper bound, and a
`Limit`: the number of rows that exist. The operations that follow compute all rows of the upper
bound where each row only depends on the same row of their inputs. The number of rows of a result of
the model is read after the execution.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from neurald.drivers.compiler.frontend.lengths.open_lengths import as_lengths
from neurald.drivers.compiler.ir.builder import Builder, Limit, Unsupported
from neurald.drivers.compiler.ir.expression import Expression, constant, load, select
from neurald.drivers.compiler.ir.extents.extent import estimate
from neurald.drivers.compiler.ir.graph import BoundedOutput, Graph, linearize
from neurald.drivers.compiler.ir.op import ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Shape, Value
from neurald.drivers.compiler.lowering import BOUNDED_LOWERINGS
from neurald.drivers.compiler.lowering.machinery.table import BoundedValue, Lowering
from neurald.drivers.compiler.lowering.reduction.reduction import of_nothing
from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operation
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.operation_type import OperationType as T
from neurald.hal.model.types import byte_size
from neurald.hal.operations import DEFINITIONS, FAMILIES
from neurald.hal.operations.machinery.call import Call, UnknownValue
from neurald.hal.records import replace

#: Operations that compute each row of a result from the same rows of their inputs, unless the
#: number of rows of the result says otherwise. Rows keep their order.
_ROW_WISE: frozenset[OperationType] = frozenset(
    (
        *(
            kind
            for family, kinds in FAMILIES.items()
            if family.startswith(("elementwise.", "tflite.elementwise."))
            for kind in kinds
        ),
        T.RESHAPE,
        T.SQUEEZE,
        T.EXPAND_DIMS,
        T.GATHER,
        T.EMBEDDING_LOOKUP,
        T.FULLY_CONNECTED,
        T.SLICE,
        T.TRANSPOSE,
        T.AXIS_ALIGNED_BBOX_TRANSFORM,
        T.HEATMAP_MAX_KEYPOINT,
        T.ROI_ALIGN,
        T.ROI_POOLING,
        T.TFLITE_RESHAPE,
        T.TFLITE_SQUEEZE,
        T.TFLITE_EXPAND_DIMS,
        T.TFLITE_TRANSPOSE,
        T.TFLITE_UNPACK,
        T.TFLITE_SLICE,
        T.TFLITE_GATHER,
        T.TFLITE_GATHER_ND,
        T.TFLITE_EMBEDDING_LOOKUP,
        T.TFLITE_ONE_HOT,
        T.TFLITE_FULLY_CONNECTED,
        T.TFLITE_ZEROS_LIKE,
    )
)
_CONCATENATIONS = frozenset((T.CONCATENATION, T.TFLITE_CONCATENATION))
_STRIDED = frozenset((T.STRIDED_SLICE, T.TFLITE_STRIDED_SLICE))
#: Operations along one dimension, by default the last one.
_ALONG_AXIS = frozenset(
    (
        T.SOFTMAX,
        T.LOG_SOFTMAX,
        T.L2_NORMALIZATION,
        T.TFLITE_SOFTMAX,
        T.TFLITE_LOG_SOFTMAX,
        T.TFLITE_L2_NORMALIZATION,
    )
)
#: Operations that compute each row from the same row, unless their results have no rows.
_FOLDING = frozenset((T.MEAN, T.ARGMAX, T.ARGMIN, T.TFLITE_MEAN, T.TFLITE_ARG_MAX, T.TFLITE_ARG_MIN))
#: Reductions of all rows if their results have none, and what combines elements.
_REDUCTIONS: Mapping[OperationType, ReductionOp] = {
    T.REDUCE_SUM: ReductionOp.SUM,
    T.REDUCE_PROD: ReductionOp.PRODUCT,
    T.REDUCE_MAX: ReductionOp.MAXIMUM,
    T.REDUCE_MIN: ReductionOp.MINIMUM,
    T.REDUCE_ANY: ReductionOp.ANY,
    T.REDUCE_ALL: ReductionOp.ALL,
    T.TFLITE_SUM: ReductionOp.SUM,
    T.TFLITE_REDUCE_PROD: ReductionOp.PRODUCT,
    T.TFLITE_REDUCE_MAX: ReductionOp.MAXIMUM,
    T.TFLITE_REDUCE_MIN: ReductionOp.MINIMUM,
    T.TFLITE_REDUCE_ANY: ReductionOp.ANY,
    T.TFLITE_REDUCE_ALL: ReductionOp.ALL,
}


#: Operations that repeat elements, and their inputs with the lengths of the result.
_REPEATING: Mapping[OperationType, str] = {T.TFLITE_BROADCAST_TO: "shape", T.TFLITE_FILL: "dimensions"}
#: Operations that only move the elements of their input.
_MOVEMENTS = frozenset(
    (
        T.RESHAPE,
        T.SQUEEZE,
        T.EXPAND_DIMS,
        T.SLICE,
        T.STRIDED_SLICE,
        T.GATHER,
        T.TFLITE_RESHAPE,
        T.TFLITE_SQUEEZE,
        T.TFLITE_EXPAND_DIMS,
        T.TFLITE_SLICE,
        T.TFLITE_STRIDED_SLICE,
        T.TFLITE_GATHER,
        T.TFLITE_CAST,
    )
)
#: Limits on results if all rows existed: bytes, or else bytes for each byte of the inputs.
_MAX_BOUND_BYTES, _MAX_GROWTH = 1 << 26, 8
_SEGMENT_REDUCTIONS = frozenset(
    (
        T.TFLITE_UNSORTED_SEGMENT_MAX,
        T.TFLITE_UNSORTED_SEGMENT_MIN,
        T.TFLITE_UNSORTED_SEGMENT_PROD,
        T.TFLITE_UNSORTED_SEGMENT_SUM,
    )
)


def _counts_rows(call: Call) -> bool:
    """Returns True if the number of rows of an operation's results follows from data.

    Some types of operations count rows, unless they know what determines them.
    """
    kind = call.binding.type
    return kind in BOUNDED_LOWERINGS and DEFINITIONS[kind].known_output_shapes(call) is None


class BoundedShapes:
    """The operands of a graph whose number of rows follows from data.

    Attributes:
        limits: the limits of each such operand, by index.

    Args:
        builder: the builder of the graph.
        shape_of: returns the shape of an operand, by index, if it is known; the upper bound of
            those in `limits`.
    """

    def __init__(self, builder: Builder, shape_of: Callable[[int], Shape | None]) -> None:
        self.limits: dict[int, Limit] = {}
        #: Values that replace those of operands while an operation is lowered.
        self.replaced: dict[int, Value] = {}
        #: The elements of operands that are made of lengths, some of which are numbers of rows.
        self._lengths: dict[int, tuple[int | Limit, ...]] = {}
        self._builder = builder
        self._shape_of = shape_of

    def limits_input(self, call: Call) -> bool:
        """Returns True if an operation has an input with a limit."""
        return bool(self.limits and self._limited(call))

    def concerns(self, call: Call) -> bool:
        """Returns True if an operation has an input or result with a limit."""
        if _counts_rows(call) or self.limits_input(call):
            return True
        return any(index in self._lengths for indexes in call.binding.inputs.values() for index in indexes)

    def _limited(self, call: Call) -> list[int]:
        return [
            index
            for name, indexes in call.binding.inputs.items()
            if call.has(name)
            for index in indexes
            if index in self.limits
        ]

    def lower_all(self, operation: Operation, call: Call, lower: Lowering) -> Sequence[Value]:
        """Lowers an operation as `lower` does, and keeps the limits of its results."""
        results = self.lower(call, lower)
        for index, result in zip(operation.outputs, results, strict=True):
            if result.limit is not None:
                self.limits[index] = result.limit
                self._builder.restrict(result.value, result.limit)
        return [result.value for result in results]

    def add_counts(self, graph: Graph, outputs: Sequence[int]) -> None:
        """Adds the numbers of rows to the outputs of a graph.

        Args:
            graph: the graph, with the values of its outputs.
            outputs: the operands that are its outputs.
        """
        bounded: list[BoundedOutput] = []
        counts = dict.fromkeys(self.limits[index].count for index in outputs if index in self.limits)
        places = {count: len(graph.outputs) + number for number, count in enumerate(counts)}
        for position, index in enumerate(outputs):
            if index in self.limits:
                limit = self.limits[index]
                bounded.append(
                    BoundedOutput(output=position, dimension=limit.dimension, count=places[limit.count])
                )
        graph.outputs += counts
        graph.bounded = tuple(bounded)

    def lower(self, call: Call, lower: Lowering) -> Sequence[BoundedValue]:
        """Lowers an operation that this class `concerns`; returns its results.

        Args:
            call: the operation, with upper bounds as the shapes of operands with limits.
            lower: lowers an operation without regard to limits.

        Raises:
            Unsupported: results depend on the number of rows in another way.
        """
        limited, kind = self._limited(call), call.binding.type
        if not limited:
            bounded = BOUNDED_LOWERINGS.get(kind)
            return self._of_lengths(call, lower) if bounded is None else bounded(call, self._builder)
        if kind in (T.TFLITE_SHAPE, T.RANK, T.TFLITE_RANK):
            return (
                BoundedValue(
                    value=self._lowered_lengths(call)
                    if kind is T.TFLITE_SHAPE
                    else lower(call, self._builder)[0]
                ),
            )
        if kind in BOUNDED_LOWERINGS:
            raise self._unsupported(call)
        limit = self.limits[limited[0]]
        if any(self.limits[each].count is not limit.count for each in limited):
            raise Unsupported(f"{kind.name} of inputs whose numbers of rows differ is not supported")
        shapes = self._result_shapes(call, limited)
        if all(shape == shapes[0] for shape in shapes):
            if kind is T.TFLITE_SCATTER_ND:
                return self._scattered(call, lower)
            return self._reduced(call, lower, limited)
        return self._row_wise(call, lower, limit, shapes)

    def _unsupported(self, call: Call) -> Unsupported:
        return Unsupported(
            f"{call.binding.type.name} of an input whose number of rows follows from data is not supported"
        )

    def _result_shapes(self, call: Call, limited: Sequence[int]) -> list[tuple[Shape, ...]]:
        """Returns the results' shapes with the upper bound, one row more, one row, and no row."""
        found = []
        for change in _CHANGES:

            def shape_of(index: int, change: Callable[[int], int] = change) -> Shape | None:
                shape = self._shape_of(index)
                if index not in limited or shape is None:
                    return shape
                at = self.limits[index].dimension
                return (*shape[:at], change(shape[at]), *shape[at + 1 :])

            try:
                found.append(DEFINITIONS[call.binding.type].output_shapes(call.with_shapes(shape_of)))
            except (BadData, UnknownValue):
                raise self._unsupported(call) from None
        return found

    def _row_wise(
        self, call: Call, lower: Lowering, limit: Limit, shapes: Sequence[tuple[Shape, ...]]
    ) -> Sequence[BoundedValue]:
        """Lowers an operation that computes each row from the same row of its inputs."""
        self._require_row_wise(call)
        self._require_memory(call, shapes[0])
        found = [self._rows(call, limit, each) for each in zip(*shapes, strict=True)]
        # Before the results, whose computation is limited by them.
        limits = [self._multiplied(limit, dimension, factor) for dimension, factor in found]
        self._builder.limit = limit
        try:
            results = lower(call, self._builder)
        finally:
            self._builder.limit = None
        return [BoundedValue(value=value, limit=each) for value, each in zip(results, limits, strict=True)]

    def _require_memory(self, call: Call, shapes: Sequence[Shape]) -> None:
        """Refuses results that are large and much larger than the inputs, if all rows existed."""

        def size_bytes(index: int, shape: Shape) -> int:
            return estimate(byte_size(call.operand_at(index).type, shape))

        limited = self._limited(call)
        given = max(size_bytes(index, self._shape_of(index) or ()) for index in limited)
        outputs = (index for indexes in call.binding.outputs.values() for index in indexes)
        needed = max(size_bytes(index, shape) for index, shape in zip(outputs, shapes, strict=True))
        if needed > max(_MAX_BOUND_BYTES, _MAX_GROWTH * given):
            raise Unsupported(
                f"{call.binding.type.name} of up to {self.limits[limited[0]].bound} rows, for which its results "
                f"take {needed} bytes, is not supported"
            )

    def _require_row_wise(self, call: Call) -> None:
        kind = call.binding.type
        limited = {
            self.limits[index].dimension: len(self._shape_of(index) or ()) for index in self._limited(call)
        }
        if kind in _ROW_WISE or kind in _FOLDING or kind in _REDUCTIONS:
            return
        if kind in _CONCATENATIONS:
            (rank,) = set(limited.values())
            axis = call.scalar("axis")
            if (axis + rank if axis < 0 else axis) not in limited:
                return
        if kind in _STRIDED and (call.array("strides") > 0).all():
            return
        if kind in _ALONG_AXIS:
            ((dimension, rank),) = limited.items()
            axis = call.scalar("axis")
            if (-1 if axis is None else axis) % rank != dimension:
                return
        raise self._unsupported(call)

    def _rows(self, call: Call, limit: Limit, shapes: Sequence[Shape]) -> tuple[int, int]:
        """Returns the dimension of a result's rows, and how many there are for each input's.

        Args:
            call: the operation.
            limit: the limit of its inputs.
            shapes: the shapes of the result, for each number of rows of `_CHANGES`.
        """
        bound = shapes[0]
        if all(len(shape) == len(bound) for shape in shapes):
            differing = [n for n, lengths in enumerate(zip(*shapes, strict=True)) if len(set(lengths)) > 1]
            if len(differing) == 1 and limit.bound:
                (at,) = differing
                factor = bound[at] // limit.bound
                expected = [factor * change(limit.bound) for change in _CHANGES]
                if factor and [shape[at] for shape in shapes] == expected and math.prod(bound[:at]) == 1:
                    return at, factor
        raise self._unsupported(call)

    def _multiplied(self, limit: Limit, dimension: int, factor: int) -> Limit:
        count = limit.count
        if factor > 1:
            count = self._builder.compute((), lambda: load(limit.count, ()) * factor)
        return Limit(dimension=dimension, bound=limit.bound * factor, count=count)

    def _lowered_lengths(self, call: Call) -> Value:
        """Lowers SHAPE."""
        shape, limit = call.shape("input"), self.limits[call.index("input")]
        kind = Scalar.of(call.operand("output").type.dtype)

        self._lengths[call.index("output")] = (
            *shape[: limit.dimension],
            limit,
            *shape[limit.dimension + 1 :],
        )

        def body(at: Expression) -> Expression:
            result = load(limit.count, ()).to(kind)
            for dimension, length in enumerate(shape):
                if dimension != limit.dimension:
                    result = select(at.equals(dimension), constant(length, kind), result)
            return result

        return self._builder.compute((len(shape),), body)

    def _of_lengths(self, call: Call, lower: Lowering) -> Sequence[BoundedValue]:
        """Lowers an operation on lengths: one that moves them, or that makes this many results."""
        kind = call.binding.type
        if kind in _SEGMENT_REDUCTIONS:
            found = self._lengths.get(call.index("count"), ())
            if len(found) == 1 and isinstance(found[0], Limit):
                return self._segments(call, lower, found[0])
        elif kind in _REPEATING:
            found = self._lengths.get(call.index(_REPEATING[kind]), ())
            if sum(isinstance(each, Limit) for each in found) == 1:
                return self._repeated(call, lower, found)
        elif kind in _MOVEMENTS or kind in _REDUCTIONS:
            self._move(call)
        return [BoundedValue(value=value) for value in lower(call, self._builder)]

    def _move(self, call: Call) -> None:
        """Finds the lengths in the result of an operation that moves them."""
        source, (result, *_) = next(iter(call.binding.inputs)), call.binding.outputs
        given = self._lengths.get(call.index(source))
        # A reduction moves a single length.
        if given is None or (call.binding.type in _REDUCTIONS and len(given) > 1):
            return
        positions = np.arange(len(given)).reshape(self._shape_of(call.index(source)) or ())
        try:
            (found,) = DEFINITIONS[call.binding.type].reference(call.replaced(source, positions))
        except (BadData, UnknownValue):
            return
        self._lengths[call.index(result)] = tuple(given[each] for each in found.reshape(-1).tolist())

    def _segments(self, call: Call, lower: Lowering, limit: Limit) -> Sequence[BoundedValue]:
        """Lowers a segment reduction with as many segments as there are rows of another value."""
        segments = self._builder.value(call, "segments")

        def requirements(*at: Expression) -> list[tuple[Expression, str]]:
            message = f"{call.name('segments')}: less than the number of segments is expected"
            return [(load(segments, at) < load(limit.count, ()), message)]

        checked = self._builder.compute(segments.shape, lambda *at: load(segments, at), requirements)
        self.replaced[call.index("segments")] = checked
        try:
            known = call.replaced("count", as_lengths(limit.bound))
            (value,) = lower(known, self._builder)
        finally:
            self.replaced.clear()
        return (BoundedValue(value=value, limit=Limit(dimension=0, bound=limit.bound, count=limit.count)),)

    def _repeated(
        self, call: Call, lower: Lowering, lengths: Sequence[int | Limit]
    ) -> Sequence[BoundedValue]:
        """Lowers an operation that repeats elements, so that there are as many rows as elsewhere.

        Args:
            call, lower: see `lower`.
            lengths: the lengths of the result, of which one is a limit.
        """
        (dimension,) = (at for at, each in enumerate(lengths) if isinstance(each, Limit))
        bounds: list[int] = [each.bound if isinstance(each, Limit) else each for each in lengths]
        limit = lengths[dimension]
        if not isinstance(limit, Limit) or math.prod(bounds[:dimension]) != 1:
            raise self._unsupported(call)
        (value,) = lower(call.replaced(_REPEATING[call.binding.type], as_lengths(bounds)), self._builder)
        return (BoundedValue(value=value, limit=replace(limit, dimension=dimension)),)

    def _scattered(self, call: Call, lower: Lowering) -> Sequence[BoundedValue]:
        """Lowers a SCATTER_ND: rows that do not exist add 0 to the first element."""
        names = ("indices", "updates")
        rows = [self._existing_rows(call, name, 0) for name in names]
        self.replaced.update(zip(map(call.index, names), rows, strict=True))
        try:
            return [BoundedValue(value=value) for value in lower(call, self._builder)]
        finally:
            self.replaced.clear()

    def _reduced(self, call: Call, lower: Lowering, limited: Sequence[int]) -> Sequence[BoundedValue]:
        """Lowers a reduction of all rows: those that do not exist become neutral."""
        if "input" not in call.binding.inputs:
            # The rows are those of a table that a GATHER reads, for example.
            raise self._unsupported(call)
        how, operand = _REDUCTIONS.get(call.binding.type), call.operand("input")
        if how is None or list(limited) != [call.index("input")] or operand.scale or operand.channel_quant:
            raise self._unsupported(call)
        neutral = of_nothing(how, self._builder.value(call, "input").type)
        self.replaced[limited[0]] = self._existing_rows(call, "input", neutral)
        try:
            return [BoundedValue(value=value) for value in lower(call, self._builder)]
        finally:
            self.replaced.clear()

    def _existing_rows(self, call: Call, name: str, otherwise: float) -> Value:
        """Returns an input in which the elements of rows that do not exist are another number."""
        source, limit = self._builder.value(call, name), self.limits[call.index(name)]
        inner = math.prod(source.shape[limit.dimension + 1 :])

        def body(*at: Expression) -> Expression:
            row = linearize(at, source.shape) // inner
            exists = row < load(limit.count, ()).to(Scalar.INDEX)
            return select(exists, load(source, at), constant(otherwise, source.type))

        return self._builder.compute(source.shape, body)


#: Numbers of rows with which shape rules are evaluated, from the upper bound.
_CHANGES: tuple[Callable[[int], int], ...] = (
    lambda bound: bound,
    lambda bound: bound + 1,
    lambda _: 1,
    lambda _: 0,
)
