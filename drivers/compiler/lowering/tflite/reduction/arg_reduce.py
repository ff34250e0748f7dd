"""Lowers ARG_MAX, ARG_MIN, TOPK_V2, WHERE and UNIQUE."""

from neurald.drivers.compiler.ir.algorithm import Distinct, Positions
from neurald.drivers.compiler.ir.builder import Builder, Limit
from neurald.drivers.compiler.ir.complex_numbers import is_complex
from neurald.drivers.compiler.ir.expression import Expression, clamp, constant, index, load, select
from neurald.drivers.compiler.ir.extents.extent import larger
from neurald.drivers.compiler.ir.graph import delinearize
from neurald.drivers.compiler.ir.op import ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.machinery.table import BoundedLowerings, BoundedValue
from neurald.drivers.compiler.lowering.reduction.arg_reduce import lower_extreme, lower_top
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call


def _number(builder: Builder, found: Value, position: int) -> Value:
    """Returns an element of a row as a value of rank 0."""
    return builder.compute((), lambda: load(found, (index(position),)))


def _where(call: Call, builder: Builder) -> tuple[BoundedValue, ...]:
    """Lowers WHERE: the indices of the elements that are not 0."""
    if is_complex(call.operand("condition").type):
        pairs = builder.pairs(call, "condition")

        def is_not_zero(*at: Expression) -> Expression:
            real, imaginary = (load(pairs, (*at, index(part))).equals(0.0) for part in range(2))
            return ~(real & imaginary)

        source = builder.compute(pairs.shape[:-1], is_not_zero)
    else:
        source = builder.value(call, "condition")
    count, shape = source.count, source.shape
    found = builder.procedure(Positions(), builder.reshape(source, (count,)), output=(count + 1,))

    def body(row: Expression, dimension: Expression) -> Expression:
        position = clamp(load(found, (row,)).to(Scalar.INDEX), 0, larger(count - 1, 0))
        result: Expression = constant(0, Scalar.INT64)
        for number, coordinate in enumerate(delinearize(position, shape)):
            result = select(dimension.equals(number), coordinate.to(Scalar.INT64), result)
        return result

    # Before the value, whose computation is limited by it.
    limit = Limit(dimension=0, bound=count, count=_number(builder, found, count))
    return (BoundedValue(value=builder.compute((count, len(shape)), body), limit=limit),)


def _unique(call: Call, builder: Builder) -> tuple[BoundedValue, ...]:
    """Lowers UNIQUE: the distinct elements, and the number of each element among them."""
    source = builder.value(call, "input")
    (count,) = source.shape
    found = builder.procedure(Distinct(), source, output=(2 * count + 1,))
    kind = Scalar.of(call.operand("indices").type.dtype)

    def element(at: Expression) -> Expression:
        return load(source, (clamp(load(found, (at + count,)).to(Scalar.INDEX), 0, larger(count - 1, 0)),))

    limit = Limit(dimension=0, bound=count, count=_number(builder, found, 2 * count))
    numbers = builder.compute((count,), lambda at: load(found, (at,)).to(kind))
    return BoundedValue(value=builder.compute((count,), element), limit=limit), BoundedValue(value=numbers)


LOWERINGS = {
    OperationType.TFLITE_ARG_MAX: lower_extreme(ReductionOp.MAXIMUM),
    OperationType.TFLITE_ARG_MIN: lower_extreme(ReductionOp.MINIMUM),
    OperationType.TFLITE_TOPK_V2: lower_top(prefers_lower_index=True),
}
BOUNDED_LOWERINGS: BoundedLowerings = {
    OperationType.TFLITE_UNIQUE: _unique,
    OperationType.TFLITE_WHERE: _where,
}
