"""Lowers RESHAPE, SQUEEZE, EXPAND_DIMS, CONCATENATION, PACK, UNPACK, TRANSPOSE, SHAPE and RANK."""

from functools import partial

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.movement.concatenation import concatenate
from neurald.drivers.compiler.lowering.movement.indexing import (
    constant_results,
    output_shapes,
    reshaped,
    split,
)
from neurald.drivers.compiler.lowering.movement.tiling import pack
from neurald.drivers.compiler.lowering.movement.transpose import transpose
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.tflite.movement.stacking import unpack_axis


def _unpack(call: Call, builder: Builder) -> tuple[Value, ...]:
    source, axis = builder.value(call, "input"), unpack_axis(call)
    parts = split(builder, source, axis, [1] * source.shape[axis])
    return tuple(builder.reshape(part, shape) for part, shape in zip(parts, output_shapes(call), strict=True))


LOWERINGS = {
    OperationType.TFLITE_RESHAPE: reshaped,
    OperationType.TFLITE_SQUEEZE: reshaped,
    OperationType.TFLITE_EXPAND_DIMS: reshaped,
    OperationType.TFLITE_CONCATENATION: concatenate,
    OperationType.TFLITE_PACK: pack,
    OperationType.TFLITE_UNPACK: _unpack,
    OperationType.TFLITE_TRANSPOSE: partial(transpose, from_end=True),
    OperationType.TFLITE_SHAPE: constant_results,
    OperationType.TFLITE_RANK: constant_results,
}
