"""What lowerings of recurrent operations share: products of weights, activations of cells, and sequences.

Every step of a sequence has nodes of its own. What does not depend on the state is computed for all steps at once before
them. Cells compute in FLOAT32, as references do.
"""

from collections.abc import Sequence

import numpy as np

from neurald.drivers.compiler.ir.builder import Builder, Unsupported
from neurald.drivers.compiler.ir.expression import Expression, apply, clamp, load
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.arithmetic.quantized import activate, store
from neurald.drivers.compiler.lowering.movement.indexing import joined
from neurald.drivers.compiler.lowering.tflite.convolution import hybrid
from neurald.hal.model.types import FusedActivation
from neurald.hal.operations.arithmetic.quantized import is_quantized
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.recurrent.recurrent import CellActivation

#: A sequence of more steps has no kernel: every step is a few kernels of its own.
MAXIMUM_STEPS = 128

_FUSED = {
    CellActivation.NONE: FusedActivation.NONE,
    CellActivation.RELU: FusedActivation.RELU,
    CellActivation.RELU1: FusedActivation.RELU1,
    CellActivation.RELU6: FusedActivation.RELU6,
}
_CURVES = {CellActivation.TANH: Op.TANH, CellActivation.SIGMOID: Op.LOGISTIC}


def activate_cell(value: Expression, activation: CellActivation) -> Expression:
    """The activation inside of a cell."""
    if activation in _FUSED:
        return activate(value, _FUSED[activation])
    return apply(_CURVES[activation], value)


def element(value: Value, *at: Expression) -> Expression:
    """An element of floats as FLOAT32."""
    return load(value, at).to(Scalar.FLOAT32)


def floats(builder: Builder, value: Value) -> Value:
    """Floats as FLOAT32; constants right away."""
    if value.type is Scalar.FLOAT32:
        return value
    if value.constant is not None:
        return builder.constant(value.constant.astype(np.float32), value.name)
    return builder.compute(value.shape, lambda *at: element(value, *at))


def linear(call: Call, builder: Builder, names: Sequence[str], rows: Value) -> Value:
    """Products of rows with several weights of one depth, in one go.

    Args:
        call: the operation.
        builder: of the operation.
        names: of the weights, (units, elements) each, that are floats, or all stored in 8 bits.
        rows: FLOAT32, (n, elements).

    Returns:
        FLOAT32, (n, units of all weights).
    """
    weights = [builder.value(call, name) for name in names]
    operands = [call.operand(name) for name in names]
    if not is_quantized(operands[0]):
        return builder.matrix_product(rows, joined(builder, [floats(builder, each) for each in weights]))
    stored = hybrid.quantize_rows(builder, rows, asymmetric=bool(call.scalar("asymmetric")))
    sums = hybrid.products(builder, stored, joined(builder, weights))
    units = [value.shape[0] for value in weights]
    steps = builder.constant(np.repeat(np.array([each.scale for each in operands], np.float32), units))

    def body(row: Expression, unit: Expression) -> Expression:
        scale = load(stored.scales, (row,)) * load(steps, (unit,))
        return load(sums, (row, unit)).to(Scalar.FLOAT32) * scale

    return builder.compute(sums.shape, body)


def time_major(builder: Builder, sequence: Value, *, is_time_major: bool) -> Value:
    """A sequence of floats as FLOAT32 of shape (time, batch, elements).

    Raises:
        Unsupported: it has too many steps.
    """
    first, second, size = sequence.shape
    if is_time_major:
        expect_steps(first)
        return floats(builder, sequence)
    expect_steps(second)
    return builder.compute((second, first, size), lambda t, b, e: element(sequence, b, t, e))


def expect_steps(count: int) -> None:
    """Raises Unsupported if a sequence has too many steps."""
    if count > MAXIMUM_STEPS:
        raise Unsupported(f"a sequence of {count} steps has no kernel; at most {MAXIMUM_STEPS} have")


def all_rows(builder: Builder, sequence: Value) -> Value:
    """The rows of all steps of a sequence as one matrix: (time × batch, elements)."""
    time, batch, size = sequence.shape
    return builder.reshape(sequence, (time * batch, size))


def of_sequence(builder: Builder, outputs: Sequence[Value], empty: Value) -> Value:
    """(time, batch, elements) from the output of every step; of no steps as many elements as `empty`, a state, has."""
    if outputs:
        return joined(builder, [builder.reshape(output, (1, *output.shape)) for output in outputs])
    return builder.constant(np.zeros((0, *empty.shape), empty.type.dtype))


def stored(builder: Builder, call: Call, name: str, value: Value) -> Value:
    """FLOAT32 as an output stores it."""
    operand = call.operand(name)
    if value.type is Scalar.of(operand.type.dtype):
        return value
    return builder.compute(value.shape, lambda *at: store(load(value, at), operand))


def stored_sequence(
    builder: Builder, call: Call, name: str, sequence: Value, *, is_time_major: bool
) -> Value:
    """A sequence (time, batch, elements) as an output has it."""
    if is_time_major:
        return stored(builder, call, name, sequence)
    time, batch, size = sequence.shape
    operand = call.operand(name)
    return builder.compute((batch, time, size), lambda b, t, e: store(load(sequence, (t, b, e)), operand))


def clipped(value: Expression, limit: float) -> Expression:
    """Cut off at a magnitude, unless that is 0."""
    bound = float(np.float32(limit))
    return clamp(value, -bound, bound) if limit > 0 else value
