"""Lowers DEPTH_TO_SPACE, SPACE_TO_DEPTH, BATCH_TO_SPACE_ND and SPACE_TO_BATCH_ND.

The latter two also work on images with one axis.
"""

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.movement import space_depth
from neurald.drivers.compiler.lowering.movement.indexing import output_shapes
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.movement.padding import paddings
from neurald.hal.operations.tflite.movement.space_depth import block_lengths, crop_pairs


def _batch_to_space(call: Call, builder: Builder) -> tuple[Value, ...]:
    source, block = builder.value(call, "input"), block_lengths(call)
    crops = [before for before, _ in crop_pairs(call)]
    return (space_depth.batch_to_space(builder, source, block, crops, output_shapes(call)[0]),)


def _space_to_batch(call: Call, builder: Builder) -> tuple[Value, ...]:
    source, block = builder.value(call, "input"), block_lengths(call)
    before = [before for before, _ in paddings(call, len(block))]
    zero = call.operand("output").zero_point
    return (space_depth.space_to_batch(builder, source, block, before, output_shapes(call)[0], zero),)


LOWERINGS = {
    OperationType.TFLITE_DEPTH_TO_SPACE: space_depth.depth_to_space,
    OperationType.TFLITE_SPACE_TO_DEPTH: space_depth.space_to_depth,
    OperationType.TFLITE_BATCH_TO_SPACE_ND: _batch_to_space,
    OperationType.TFLITE_SPACE_TO_BATCH_ND: _space_to_batch,
}
