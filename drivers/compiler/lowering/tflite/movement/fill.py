"""Lowers RANGE, FILL and ZEROS_LIKE."""

from neurald.drivers.compiler.ir.algorithm import RunningSum
from neurald.drivers.compiler.ir.builder import Builder, Unsupported
from neurald.drivers.compiler.ir.expression import constant, select
from neurald.drivers.compiler.ir.extents.extent import has_extents
from neurald.drivers.compiler.ir.extents.result_types import result_types, total_bytes
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.movement.indexing import constant_results, only_element, output_shapes
from neurald.drivers.compiler.lowering.movement.tiling import fill
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call, UnknownValue
from neurald.hal.operations.machinery.working_memory import is_inflated

_ENDS = ("start", "limit", "delta")


def _range(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers RANGE, of constants or of lengths that are not known."""
    kind = Scalar.of(call.operand("output").type.dtype)
    if kind.is_float and not _is_known(call):
        return (_float_range(call, builder, kind),)
    first, limit, step = (call.array(name).item() for name in _ENDS)
    (shape,) = output_shapes(call)
    if not has_extents((first, limit, step)):
        if not is_inflated(total_bytes(result_types(call) or ()), ()):
            return constant_results(call, builder)
        if kind.is_float:
            raise Unsupported("its elements are sums of those before, which are too many for a constant")
    return (builder.compute(shape, lambda at: (at * step + first).to(kind)),)


def _is_known(call: Call) -> bool:
    try:
        return all(call.array(name).size for name in _ENDS)
    except UnknownValue:
        return False


def _float_range(call: Call, builder: Builder, kind: Scalar) -> Value:
    """Lowers a RANGE whose length the program sets: each element is that before it plus a step."""
    (length,) = call.operand("output").dimensions or ()
    start, step = (only_element(builder.value(call, name)) for name in ("start", "delta"))
    rows = 1, length, 1
    terms = builder.compute(rows, lambda _row, at, _column: select(at > 0, step, start))
    sums = builder.procedure(RunningSum(is_ordered=True), terms, output=rows, type=kind)
    return builder.reshape(sums, (length,))


def _zeros_like(call: Call, builder: Builder) -> tuple[Value, ...]:
    source = builder.value(call, "input")
    zero = constant(0, source.type)
    return (builder.compute(source.shape, lambda *_: zero),)


LOWERINGS = {
    OperationType.TFLITE_RANGE: _range,
    OperationType.TFLITE_FILL: fill,
    OperationType.TFLITE_ZEROS_LIKE: _zeros_like,
}
