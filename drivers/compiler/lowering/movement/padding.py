"""Lowers PAD, PAD_V2 and MIRROR_PAD."""

from collections.abc import Sequence

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import (
    Constant,
    Expression,
    clamp,
    constant,
    load,
    maximum,
    minimum,
)
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.movement.indexing import only_element, output_shapes, padded
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.operations.arithmetic.quantized import quantized_limits
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.movement.padding import mirror_mode, paddings


def pad_with(call: Call, builder: Builder, value: Expression) -> tuple[Value, ...]:
    """Pads `input` by `paddings` with a value of the input's type."""
    source = builder.value(call, "input")
    before = [before for before, _ in paddings(call, len(source.shape))]
    return (padded(builder, source, before, output_shapes(call)[0], value),)


def pad(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers PAD: pads with the zero point."""
    return pad_with(
        call, builder, constant(call.operand("output").zero_point, builder.value(call, "input").type)
    )


def _pad_v2(call: Call, builder: Builder) -> tuple[Value, ...]:
    value, output = only_element(builder.value(call, "value")), call.operand("output")
    if not is_quantized(output):
        return pad_with(call, builder, value)
    kind = Scalar.of(output.type.dtype)
    if isinstance(value, Constant):
        return pad_with(call, builder, constant(value.value, kind))
    low, high = quantized_limits(output)
    fits = (value >= low) & (value <= high)
    checked = builder.compute(
        (),
        lambda: clamp(value, low, high).to(kind),
        lambda: ((fits, f"{call.name('value')} must be from {low} to {high}"),),
    )
    return pad_with(call, builder, load(checked, ()))


def mirror_pad(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers MIRROR_PAD, with or without repeating the border."""
    source = builder.value(call, "input")
    pairs = paddings(call, len(source.shape))
    border = 0 if mirror_mode(call) == "reflect" else 1

    def mirrored(at: Sequence[Expression]) -> list[Expression]:
        indexes = []
        for index, (before, _), length in zip(at, pairs, source.shape, strict=True):
            shifted = index - before
            inner = maximum(shifted, -shifted - border)
            indexes.append(minimum(inner, 2 * (length - 1) + border - inner))
        return indexes

    return (builder.compute(output_shapes(call)[0], lambda *at: load(source, tuple(mirrored(at)))),)


LOWERINGS = {
    OperationType.PAD: pad,
    OperationType.PAD_V2: _pad_v2,
    OperationType.MIRROR_PAD: mirror_pad,
}
