"""Helpers of recurrent operations: weight products, cell activations and sequences.

Each time step has its own nodes. Products that do not depend on the state are computed for all
steps in advance. Cells compute in FLOAT32, as references do.
"""

from collections.abc import Sequence

import numpy as np

from neurald.drivers.compiler.ir.builder import Builder, Unsupported
from neurald.drivers.compiler.ir.expression import Expression, apply, clamp, load
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.arithmetic.quantized import activate, store
from neurald.drivers.compiler.lowering.arithmetic.row_quantization import products, quantize_rows
from neurald.drivers.compiler.lowering.movement.indexing import concatenated
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import FusedActivation
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.recurrent.recurrent import CellActivation

#: Longer sequences are not supported, because every step adds several kernels.
MAX_STEPS = 128

_FUSED = {
    CellActivation.NONE: FusedActivation.NONE,
    CellActivation.RELU: FusedActivation.RELU,
    CellActivation.RELU1: FusedActivation.RELU1,
    CellActivation.RELU6: FusedActivation.RELU6,
}
_CURVES = {CellActivation.TANH: Op.TANH, CellActivation.SIGMOID: Op.LOGISTIC}


def activate_cell(value: Expression, activation: CellActivation) -> Expression:
    """Applies a cell's activation."""
    if activation in _FUSED:
        return activate(value, _FUSED[activation])
    return apply(_CURVES[activation], value)


def element(value: Value, *at: Expression) -> Expression:
    """Loads a float as FLOAT32."""
    return load(value, at).to(Scalar.FLOAT32)


def to_float32(builder: Builder, value: Value) -> Value:
    """Returns floats as FLOAT32; constants are converted at compile time."""
    if value.type is Scalar.FLOAT32:
        return value
    if value.constant is not None:
        return builder.constant(value.constant.astype(np.float32), value.name)
    return builder.compute(value.shape, lambda *at: element(value, *at))


def linear(call: Call, builder: Builder, names: Sequence[str], rows: Value) -> Value:
    """Multiplies rows by several weights of the same depth in one product.

    Args:
        call: the operation.
        builder: the builder of the operation.
        names: the names of the weights, each (units, elements), all float or all quantised to 8
            bits.
        rows: FLOAT32, (n, elements).

    Returns:
        FLOAT32, (n, total units).
    """
    weights = [builder.value(call, name) for name in names]
    operands = [call.operand(name) for name in names]
    if not is_quantized(operands[0]):
        return builder.matrix_product(
            rows, concatenated(builder, [to_float32(builder, each) for each in weights])
        )
    quantized = quantize_rows(builder, rows, asymmetric=bool(call.scalar("asymmetric")))
    sums = products(builder, quantized, concatenated(builder, weights))
    units = [value.shape[0] for value in weights]
    steps = builder.constant(np.repeat(np.array([each.scale for each in operands], np.float32), units))

    def body(row: Expression, unit: Expression) -> Expression:
        scale = load(quantized.scales, (row,)) * load(steps, (unit,))
        return load(sums, (row, unit)).to(Scalar.FLOAT32) * scale

    return builder.compute(sums.shape, body)


def time_major(builder: Builder, sequence: Value, *, is_time_major: bool) -> Value:
    """Returns a float sequence as FLOAT32 (time, batch, elements).

    Raises:
        Unsupported: it has too many steps.
    """
    first, second, size = sequence.shape
    if is_time_major:
        expect_steps(first)
        return to_float32(builder, sequence)
    expect_steps(second)
    return builder.compute((second, first, size), lambda t, b, e: element(sequence, b, t, e))


def expect_steps(count: int) -> None:
    """Raises Unsupported if a sequence has too many steps."""
    if count > MAX_STEPS:
        raise Unsupported(f"a sequence has {count} steps; at most {MAX_STEPS} are supported")


def all_rows(builder: Builder, sequence: Value) -> Value:
    """Reshapes a sequence to a matrix with the rows of all steps: (time × batch, elements)."""
    time, batch, size = sequence.shape
    return builder.reshape(sequence, (time * batch, size))


def stack_outputs(builder: Builder, outputs: Sequence[Value], empty: Value) -> Value:
    """Stacks the outputs of all steps to (time, batch, elements).

    Without steps, the element count is that of `empty`, a state.
    """
    if outputs:
        return concatenated(builder, [builder.reshape(output, (1, *output.shape)) for output in outputs])
    return builder.constant(np.zeros((0, *empty.shape), empty.type.dtype))


def to_output(builder: Builder, call: Call, name: str, value: Value) -> Value:
    """Converts FLOAT32 to the type of an output."""
    operand = call.operand(name)
    if value.type is Scalar.of(operand.type.dtype):
        return value
    return builder.compute(value.shape, lambda *at: store(load(value, at), operand))


def to_output_sequence(
    builder: Builder, call: Call, name: str, sequence: Value, *, is_time_major: bool
) -> Value:
    """Converts a sequence (time, batch, elements) to an output's layout and type."""
    if is_time_major:
        return to_output(builder, call, name, sequence)
    time, batch, size = sequence.shape
    operand = call.operand(name)
    return builder.compute((batch, time, size), lambda b, t, e: store(load(sequence, (t, b, e)), operand))


def clipped(value: Expression, limit: float) -> Expression:
    """Clamps to a magnitude; a limit of 0 means none."""
    bound = float(np.float32(limit))
    return clamp(value, -bound, bound) if limit > 0 else value
