"""Windows over images: AVERAGE_POOL_2D, MAX_POOL_2D, L2_POOL_2D. What padding adds is never counted."""

from collections.abc import Callable

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import (
    Axis,
    Expression,
    apply,
    axis,
    load,
    maximum,
    minimum,
    reduce,
)
from neurald.drivers.compiler.ir.graph import inside
from neurald.drivers.compiler.ir.op import Fold, Op, fold_start
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Shape, Value
from neurald.drivers.compiler.lowering.arithmetic.quantized import activate, saturate, store
from neurald.drivers.compiler.lowering.elementwise.pointwise import widen
from neurald.drivers.compiler.lowering.machinery.layout import from_nhwc, to_nhwc
from neurald.drivers.compiler.lowering.machinery.reduced_axes import along, divide_rounded, exact_sum
from neurald.drivers.compiler.lowering.machinery.table import Lowering
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.arithmetic.quantized import is_quantized, stored_limits
from neurald.hal.operations.convolution.pooling import geometry
from neurald.hal.operations.convolution.windowing import Window, is_nchw
from neurald.hal.operations.machinery.call import Call

#: Gives what is folded from an element.
_Element = Callable[[Expression], Expression]
#: Gives the result from what the fold gives and how many elements that are, INDEX.
_Finish = Callable[[Expression, Expression], Expression]
#: What the elements of one call are folded from, and the result from the fold.
_Pool = Callable[[Call, Window], tuple[_Element, _Finish]]


def _average(call: Call, place: Window) -> tuple[_Element, _Finish]:
    """Stored values as they are: integers are rounded to the nearest, ties away from zero."""
    output = call.operand("output")
    if not is_quantized(output):
        return widen, lambda total, count: total / count.to(Scalar.FLOAT32)
    largest = max(map(abs, stored_limits(output)))
    # One more for the rounding.
    kind = exact_sum(place.kernel[0] * place.kernel[1], largest + 1)
    return (
        lambda value: value.to(kind),
        lambda total, count: divide_rounded(total, count.to(kind)),
    )


def _maximum(call: Call, place: Window) -> tuple[_Element, _Finish]:
    return widen, lambda value, _: value


def _norm(call: Call, place: Window) -> tuple[_Element, _Finish]:
    """The root of the mean of the squares."""
    return (
        lambda value: widen(value) * widen(value),
        lambda total, count: apply(Op.SQRT, total / count.to(Scalar.FLOAT32)),
    )


def _is_better_in_two(place: Window, shape: Shape) -> bool:
    """Whether folding along the height first, and then along the width, takes less than half of the work."""
    rows, columns = place.kernel
    height, width = place.output
    return 2 * height * (shape[2] * rows + width * columns) < height * width * rows * columns


def _pooling(how: Fold, pool: _Pool) -> Lowering:
    def lower(call: Call, builder: Builder) -> tuple[Value, ...]:
        source = to_nhwc(builder, builder.value(call, "input"), is_nchw(call))
        (place, shape), output = geometry(call), call.operand("output")
        element, finish = pool(call, place)
        dimensions: tuple[int, ...] = (1, 2)
        if _is_better_in_two(place, shape):
            source = _fold_rows(builder, source, place, how, element)
            dimensions, element = (2,), _same

        def body(*at: Expression) -> Expression:
            total = _fold_windows(source, place, at, dimensions, how, element)
            result = finish(total, _count(place, at, shape))
            if is_quantized(output):
                return saturate(result, output, call.activation)
            return store(activate(result, call.activation), output)

        pooled = builder.compute((shape[0], *place.output, shape[3]), body)
        return (from_nhwc(builder, pooled, is_nchw(call)),)

    return lower


def _same(value: Expression) -> Expression:
    return value


def _fold_rows(builder: Builder, source: Value, place: Window, how: Fold, element: _Element) -> Value:
    """What the window sees of each column."""
    batches, _, width, channels = source.shape
    return builder.compute(
        (batches, place.output[0], width, channels),
        lambda *at: _fold_windows(source, place, at, (1,), how, element),
    )


def _fold_windows(
    source: Value,
    place: Window,
    at: tuple[Expression, ...],
    dimensions: tuple[int, ...],
    how: Fold,
    element: _Element,
) -> Expression:
    """The elements that the window sees along the dimensions, folded."""
    position, taps = at, []
    for dimension in dimensions:
        tap = axis(place.kernel[dimension - 1], "r")
        position = along(position, dimension, _begin(place, at, dimension) + tap)
        taps.append(tap)
    guard = inside(position, source.shape)
    axes: tuple[Axis, ...] = tuple(taps)
    # What lies outside counts as what the fold starts with; squared and in a wider type, 0 is 0 still.
    start = fold_start(how, source.type)
    return reduce(how, axes, element(load(source, position, guard, start)))


def _begin(place: Window, at: tuple[Expression, ...], dimension: int) -> Expression:
    """Where the window begins, maybe before the image."""
    return at[dimension] * place.stride[dimension - 1] - place.padding[dimension - 1][0]


def _count(place: Window, at: tuple[Expression, ...], shape: Shape) -> Expression:
    """How many elements of the image a position sees."""
    counts = []
    for dimension in (1, 2):
        begin = _begin(place, at, dimension)
        end = minimum(begin + place.kernel[dimension - 1], shape[dimension])
        counts.append(end - maximum(begin, 0))
    return counts[0] * counts[1]


LOWERINGS = {
    OperationType.AVERAGE_POOL_2D: _pooling(Fold.SUM, _average),
    OperationType.MAX_POOL_2D: _pooling(Fold.MAXIMUM, _maximum),
    OperationType.L2_POOL_2D: _pooling(Fold.SUM, _norm),
}
