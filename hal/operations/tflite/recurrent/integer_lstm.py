"""8-bit LSTM cells with a 16-bit cell state, for one step or a sequence.

They are the cells of `neurald.hal.operations.recurrent.quantized_lstm_cell`. The operation is that
on floats with 8-bit weights, whose arguments are followed by the quantisation of internal values:
the scales of the gate sums, which are used only with layer normalisation, and zero point and scale
of the projection's input (without a projection, of the output). The activation is always the
hyperbolic tangent, regardless of its number. An input of rank 2 is one step.
"""

from collections.abc import Callable

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Check, Definition
from neurald.hal.operations.machinery.signature import Form, row, scalar, tensor
from neurald.hal.operations.recurrent.lstm import (
    GATES,
    SETTINGS,
    cell_parameters,
    expect_cell,
    norm_parameters,
    state_parameters,
)
from neurald.hal.operations.recurrent.quantized_lstm_arguments import (
    expect_cell_scale,
    expect_inner_scales,
    read_cell,
    read_gate,
)
from neurald.hal.operations.recurrent.quantized_lstm_cell import (
    QuantizedGate,
    QuantizedLstmCell,
    run_quantized_lstm,
)
from neurald.hal.operations.recurrent.recurrent import is_given, swap_batch
from neurald.hal.records import replace

#: A variance below 1 is replaced by the scale of the norm's weights times this, to avoid overflow.
_GUARD = 10000

_ROW = row(
    FeatureLevel.LEVEL_1,
    I=OperandType.TENSOR_QUANT8_ASYMM_SIGNED,
    V=OperandType.TENSOR_QUANT16_SYMM,
    B=OperandType.TENSOR_INT32,
    S=OperandType.FLOAT32,
)

_FORM = Form(
    inputs=(
        tensor("input", "I", rank=(2, 3)),
        *cell_parameters(weights="I", vectors="V", bias="B"),
        *state_parameters(output="I", cell="V"),
        *SETTINGS,
        scalar("time_major", OperandType.BOOL),
        *norm_parameters(types="V"),
        *(scalar(f"{gate}_intermediate_scale", OperandType.FLOAT32) for gate in GATES),
        scalar("hidden_state_zero_point"),
        scalar("hidden_state_scale", OperandType.FLOAT32),
    ),
    outputs=(
        tensor("output", "I", rank=(2, 3)),
        tensor("output_state_out", "I", rank=2),
        tensor("cell_state_out", "V", rank=2),
    ),
)


def with_integers(definition: Definition) -> Definition:
    """Extends a sequence of floating-point cells by integer cells."""

    def shape(call: Call) -> tuple[Shape, ...]:
        return _shape(call) if is_integer(call) else definition.shape(call)

    def reference(call: Call) -> tuple[Array, ...]:
        return _reference(call) if is_integer(call) else definition.reference(call)

    return replace(
        definition,
        forms=(*definition.forms, _FORM),
        rows=(*definition.rows, _ROW),
        checks=(*definition.checks, *map(_if_integer, (_scales, expect_inner_scales))),
        shape=shape,
        reference=reference,
    )


def is_integer(call: Call) -> bool:
    """Returns True if the cell is an integer cell."""
    return is_quantized(call.operand("input"))


def _if_integer(check: Callable[[Call], None]) -> Check:
    def checked(call: Call) -> None:
        if is_integer(call):
            check(call)

    return checked


def _scales(call: Call) -> None:
    """Checks that states keep their scales; the cell state's is a supported power of two."""
    expect_cell_scale(call)
    for name in ("output_state", "cell_state"):
        before, after = call.operand(f"{name}_in"), call.operand(f"{name}_out")
        if (before.scale, before.zero_point) != (after.scale, after.zero_point):
            raise BadData(
                f"{call.name(f'{name}_out')} has scale {after.scale:g} and zero point {after.zero_point}; "
                f"those of the input state, {before.scale:g} and {before.zero_point}, are expected"
            )


def _shape(call: Call) -> tuple[Shape, ...]:
    *steps, size = call.shape("input")
    batch = steps[_batch_axis(call, len(steps))]
    units, outputs = expect_cell(call, batch, size)
    if outputs > units and is_given(call, "cell_to_output_weights"):
        raise BadData(
            f"{call.name('recurrent_to_output_weights')} is for {outputs} outputs; "
            f"at most {units}, as many as there are units, are expected with the peephole optimisation"
        )
    return (*steps, outputs), (batch, outputs), (batch, units)


def _batch_axis(call: Call, axes: int) -> int:
    return 1 if axes > 1 and call.scalar("time_major") else 0


def _runs_rows_separately(call: Call) -> bool:
    """Returns True if LiteRT runs the cell separately for each row of the batch."""
    return len(call.shape("input")) > 2 and not call.scalar("time_major")


def _gate(call: Call, name: str) -> QuantizedGate:
    # LiteRT's peephole uses as many cell states as there are outputs.
    _, outputs = call.shape("output_state_in")
    gate, norm = read_gate(call, name), f"{name}_layer_norm_weights"
    seen = gate.peephole
    if seen is not None:
        seen = replace(seen, values=np.where(np.arange(len(seen.values)) < outputs, seen.values, 0))
    norm_scale = np.float32(1 if gate.norm is None else call.operand(norm).scale)
    return replace(
        gate,
        peephole=seen,
        peephole_width=None if _runs_rows_separately(call) else outputs,
        variance_guard=max(1, int(min(np.float32(_GUARD) * norm_scale, np.float32(1 << 30)))),
    )


def _quantized_clip(call: Call, name: str, of: str, largest: int) -> int | None:
    """Returns a clip as a quantised magnitude; None if it is missing or less than one step."""
    with np.errstate(all="ignore"):
        steps = np.float32(call.scalar(name)) / np.float32(call.operand(of).scale)
    return int(min(steps, np.float32(largest))) or None


def read_clipped_cell(call: Call) -> QuantizedLstmCell:
    """Reads the cell of an integer operation."""
    cell = read_cell(call, _gate)
    cell = replace(cell, cell_clip=_quantized_clip(call, "cell_clip", "cell_state_in", (1 << 15) - 1))
    if cell.projection is None:
        return cell
    # The raw value is clipped, as if the zero point were 0.
    clip = _quantized_clip(call, "projection_clip", "output", (1 << 7) - 1)
    return replace(
        cell,
        # LiteRT subtracts it before a projection and adds it inside: equivalent except for
        # saturation.
        hidden_zero_point=-cell.hidden_zero_point,
        output_limits=(-128, 127) if clip is None else (-clip, clip),
    )


def _reference(call: Call) -> tuple[Array, ...]:
    values = call.array("input")
    is_step = values.ndim == 2
    time_major = is_step or call.scalar("time_major")
    outputs, output_state, cell_state = run_quantized_lstm(
        read_clipped_cell(call),
        swap_batch(values[np.newaxis] if is_step else values, time_major=time_major),
        call.array("output_state_in"),
        call.array("cell_state_in"),
    )
    return output_state if is_step else swap_batch(outputs, time_major=time_major), output_state, cell_state
