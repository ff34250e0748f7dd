"""Lowers RANGE, FILL and ZEROS_LIKE."""

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import constant
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.movement.indexing import constant_results
from neurald.drivers.compiler.lowering.movement.tiling import fill
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call


def _zeros_like(call: Call, builder: Builder) -> tuple[Value, ...]:
    source = builder.value(call, "input")
    zero = constant(0, source.type)
    return (builder.compute(source.shape, lambda *_: zero),)


LOWERINGS = {
    OperationType.TFLITE_RANGE: constant_results,
    OperationType.TFLITE_FILL: fill,
    OperationType.TFLITE_ZEROS_LIKE: _zeros_like,
}
