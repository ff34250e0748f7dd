"""Lowers REDUCE_WINDOW."""

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, apply, axis, load, maximum, minimum, reduce
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.elementwise.pointwise import widen
from neurald.drivers.compiler.lowering.machinery.reduced_axes import BOOL_REDUCTIONS
from neurald.drivers.compiler.lowering.movement.indexing import only_element, output_shapes
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.tflite.convolution.reduce_window import Reduction, window_numbers

_REDUCTIONS = {
    Reduction.ADD: ReductionOp.SUM,
    Reduction.MUL: ReductionOp.PRODUCT,
    Reduction.MINIMUM: ReductionOp.MINIMUM,
    Reduction.MAXIMUM: ReductionOp.MAXIMUM,
    Reduction.ALL: ReductionOp.ALL,
    Reduction.ANY: ReductionOp.ANY,
}


def _combined(how: ReductionOp, first: Expression, second: Expression) -> Expression:
    """Combines two elements as a reduction does."""
    if how is ReductionOp.SUM:
        return first + second
    if how is ReductionOp.PRODUCT:
        return first * second
    if how is ReductionOp.MINIMUM:
        return minimum(first, second)
    if how is ReductionOp.MAXIMUM:
        return maximum(first, second)
    return apply(Op.AND if how is ReductionOp.ALL else Op.OR, first, second)


def _reduce(call: Call, builder: Builder) -> tuple[Value, ...]:
    source, initial = builder.value(call, "input"), only_element(builder.value(call, "initial"))
    sizes, strides, dilations = (window_numbers(call, name) for name in ("window", "strides", "dilations"))
    how = _REDUCTIONS[Reduction(call.scalar("function"))]
    how = BOOL_REDUCTIONS.get(how, how) if source.type is Scalar.BOOL else how

    def element(value: Expression) -> Expression:
        return value.to(Scalar.BOOL) if how in (ReductionOp.ALL, ReductionOp.ANY) else widen(value)

    def body(*at: Expression) -> Expression:
        steps = tuple(axis(size, "r") for size in sizes)
        position = tuple(
            index * stride + step * dilation
            for index, stride, step, dilation in zip(at, strides, steps, dilations, strict=True)
        )
        reduced = reduce(how, steps, element(load(source, position)))
        return _combined(how, element(initial), reduced).to(source.type)

    return (builder.compute(output_shapes(call)[0], body),)


LOWERINGS = {OperationType.TFLITE_REDUCE_WINDOW: _reduce}
