"""Lowers AVERAGE_POOL_2D, MAX_POOL_2D and L2_POOL_2D. Padding is never counted."""

from collections.abc import Callable

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import (
    Axis,
    Expression,
    apply,
    axis,
    index,
    load,
    maximum,
    minimum,
    reduce,
)
from neurald.drivers.compiler.ir.extents.extent import estimate, has_extents
from neurald.drivers.compiler.ir.graph import inside
from neurald.drivers.compiler.ir.op import Op, ReductionOp, reduction_identity
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Shape, Value
from neurald.drivers.compiler.lowering.arithmetic.quantized import activate, saturate, store
from neurald.drivers.compiler.lowering.elementwise.pointwise import widen
from neurald.drivers.compiler.lowering.machinery.layout import from_nhwc, to_nhwc
from neurald.drivers.compiler.lowering.machinery.reduced_axes import along, divide_rounded, exact_sum
from neurald.drivers.compiler.lowering.machinery.table import Lowering
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.operations.arithmetic.quantized import quantized_limits
from neurald.hal.operations.convolution.pooling import geometry
from neurald.hal.operations.convolution.windowing import Window
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.machinery.layout import is_nchw

#: Maps an element to the operand of the reduction.
_Element = Callable[[Expression], Expression]
#: Maps the reduction and its number of elements (INDEX) to the result.
_Finish = Callable[[Expression, Expression], Expression]
#: Returns both functions for one call.
_Pool = Callable[[Call, Window], tuple[_Element, _Finish]]


def _average(call: Call, window: Window) -> tuple[_Element, _Finish]:
    """Averages values as stored; integers round to nearest with ties away from zero."""
    output = call.operand("output")
    if not is_quantized(output):
        return widen, lambda total, count: total / count.to(Scalar.FLOAT32)
    largest = max(map(abs, quantized_limits(output)))
    # Adds 1 for the rounding.
    kind = exact_sum(window.kernel[0] * window.kernel[1], largest + 1)
    return (
        lambda value: value.to(kind),
        lambda total, count: divide_rounded(total, count.to(kind)),
    )


def _maximum(call: Call, window: Window) -> tuple[_Element, _Finish]:
    return widen, lambda value, _: value


def _norm(call: Call, window: Window) -> tuple[_Element, _Finish]:
    """Returns the root mean square."""
    return (
        lambda value: widen(value) * widen(value),
        lambda total, count: apply(Op.SQRT, total / count.to(Scalar.FLOAT32)),
    )


def _is_better_in_two(window: Window, shape: Shape) -> bool:
    """Returns True if reducing along height first, then width, takes less than half of the work."""
    rows, columns = window.kernel
    height, width, length = (estimate(each) for each in (*window.output, shape[2]))
    return 2 * height * (length * rows + width * columns) < height * width * rows * columns


def _pooling(how: ReductionOp, pool: _Pool) -> Lowering:
    def lower(call: Call, builder: Builder) -> tuple[Value, ...]:
        source = to_nhwc(builder, builder.value(call, "input"), is_nchw(call))
        (window, shape), output = geometry(call), call.operand("output")
        element, finish = pool(call, window)
        dimensions: tuple[int, ...] = (1, 2)
        if _is_better_in_two(window, shape):
            source = _reduce_rows(builder, source, window, how, element)
            dimensions, element = (2,), _same

        def body(*at: Expression) -> Expression:
            total = _reduce_windows(source, window, at, dimensions, how, element)
            result = finish(total, _count(window, at, shape))
            if is_quantized(output):
                return saturate(result, output, call.activation)
            return store(activate(result, call.activation), output)

        pooled = builder.compute((shape[0], *window.output, shape[3]), body)
        return (from_nhwc(builder, pooled, is_nchw(call)),)

    return lower


def _same(value: Expression) -> Expression:
    return value


def _reduce_rows(
    builder: Builder, source: Value, window: Window, how: ReductionOp, element: _Element
) -> Value:
    """Reduces the window along the height, for each column."""
    batches, _, width, channels = source.shape
    return builder.compute(
        (batches, window.output[0], width, channels),
        lambda *at: _reduce_windows(source, window, at, (1,), how, element),
    )


def _reduce_windows(
    source: Value,
    window: Window,
    at: tuple[Expression, ...],
    dimensions: tuple[int, ...],
    how: ReductionOp,
    element: _Element,
) -> Expression:
    """Reduces the window along the given dimensions."""
    position, taps = at, []
    for dimension in dimensions:
        tap = axis(window.kernel[dimension - 1], "r")
        position = along(position, dimension, _begin(window, at, dimension) + tap)
        taps.append(tap)
    guard = inside(position, source.shape)
    axes: tuple[Axis, ...] = tuple(taps)
    # Elements outside the image count as the identity; 0 stays 0 when squared or widened.
    start = reduction_identity(how, source.type)
    return reduce(how, axes, element(load(source, position, guard, start)))


def _begin(window: Window, at: tuple[Expression, ...], dimension: int) -> Expression:
    """Returns the start of the window, which may lie before the image."""
    return at[dimension] * window.stride[dimension - 1] - window.padding[dimension - 1][0]


def _count(window: Window, at: tuple[Expression, ...], shape: Shape) -> Expression:
    """Returns the number of image elements in a window."""
    counts = []
    for dimension in (1, 2):
        begin = _begin(window, at, dimension)
        taps = window.kernel[dimension - 1]
        count = minimum(begin + taps, shape[dimension]) - maximum(begin, 0)
        if has_extents((count.low, count.high)):
            # It is not less than 1 and not more than the taps anyway, but its bounds do not tell.
            least = apply(Op.MAXIMUM, count, index(1), low=1, high=count.high)
            count = apply(Op.MINIMUM, least, index(taps), low=1, high=taps)
        counts.append(count)
    return counts[0] * counts[1]


LOWERINGS = {
    OperationType.AVERAGE_POOL_2D: _pooling(ReductionOp.SUM, _average),
    OperationType.MAX_POOL_2D: _pooling(ReductionOp.MAXIMUM, _maximum),
    OperationType.L2_POOL_2D: _pooling(ReductionOp.SUM, _norm),
}
