"""Lowers PAD, PADV2, MIRROR_PAD, DILATE and STABLEHLO_PAD."""

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.movement.indexing import only_element, output_shapes, padded
from neurald.drivers.compiler.lowering.movement.padding import mirror_pad, pad, pad_with
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.tflite.movement.padding import checked_dilations, interior_paddings


def _pad_v2(call: Call, builder: Builder) -> tuple[Value, ...]:
    return pad_with(call, builder, only_element(builder.value(call, "value")))


def _dilate(call: Call, builder: Builder) -> tuple[Value, ...]:
    source, value = builder.value(call, "input"), only_element(builder.value(call, "value"))
    before = (0,) * len(source.shape)
    return (padded(builder, source, before, output_shapes(call)[0], value, checked_dilations(call)),)


def _stablehlo_pad(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers STABLEHLO_PAD: pads around and between elements; negative padding crops."""
    source, value = builder.value(call, "input"), only_element(builder.value(call, "value"))
    paddings = interior_paddings(call)
    before, steps = [low for low, _, _ in paddings], [between + 1 for _, _, between in paddings]
    return (padded(builder, source, before, output_shapes(call)[0], value, steps),)


LOWERINGS = {
    OperationType.TFLITE_PAD: pad,
    OperationType.TFLITE_PADV2: _pad_v2,
    OperationType.TFLITE_MIRROR_PAD: mirror_pad,
    OperationType.TFLITE_DILATE: _dilate,
    OperationType.TFLITE_STABLEHLO_PAD: _stablehlo_pad,
}
