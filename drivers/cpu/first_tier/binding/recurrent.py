"""Binds LSTM cells of floats, whose weights may have 8 bits."""

import math
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from msgspec import Struct

from neurald.drivers.cpu.first_tier.binding.convolution import factors
from neurald.drivers.cpu.first_tier.binding.convolution.factors import SIGNED_WEIGHTS, source
from neurald.drivers.cpu.first_tier.binding.convolution.products import (
    MAX_WEIGHT,
    Batches,
    BoundEpilogue,
    products,
    width_of,
)
from neurald.drivers.cpu.first_tier.binding.convolution.windows import rows_table
from neurald.drivers.cpu.first_tier.binding.movement.moving_calls import moving_call
from neurald.drivers.cpu.first_tier.binding.scope import (
    ELEMENTS_PER_NS,
    FLOAT,
    MAX_INT32,
    UNLIMITED,
    BindingScope,
    bits,
    count_of,
)
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, BoundConstant, BoundTemporary, NotBound
from neurald.drivers.cpu.first_tier.product_kind import Products
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.operations.recurrent.lstm import GATES, LSTM_ACTIVATIONS, is_coupled
from neurald.hal.operations.recurrent.recurrent import CellActivation, cell_activation, is_given

#: Steps of a sequence, each of which has calls of its own.
_MAX_STEPS: Final = 2048
_OPTIONAL: Final = ("projection_weights", *(f"{gate}_layer_norm_weights" for gate in GATES))


class _Rows(Struct, frozen=True, kw_only=True):
    """Places of the rows of steps in a sequence.

    Attributes:
        steps, batch: number of steps, and of rows of each.
        step, row: rows from one step to the next, and from one row of a step to the next.
    """

    steps: int
    batch: int
    step: int
    row: int


def bind_sequence(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds UNIDIRECTIONAL_SEQUENCE_LSTM."""
    first, second, _ = call.shape("input")
    if call.scalar("time_major"):
        rows = _Rows(steps=first, batch=second, step=second, row=1)
    else:
        rows = _Rows(steps=second, batch=first, step=1, row=second)
    return _bind(scope, call, rows)


def bind_step(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds LSTM, which is one step. The scratch buffer is an unused output that is filled with zeros."""
    batch, _ = call.shape("input")
    calls = _bind(scope, call, _Rows(steps=1, batch=batch, step=batch, row=1))
    units, _ = call.shape("input_to_output_weights")
    width = (len(GATES) - is_coupled(call)) * units
    zeros = scope.zeros(np.uint32, width)
    return [
        *calls,
        moving_call(call.index("scratch_buffer"), zeros, 4, (batch, width), (width, 1), (0, 1)),
    ]


def _bind(scope: BindingScope, call: Call, rows: _Rows) -> list[BoundCall]:
    kind = _kind(call)
    units, size = call.shape("input_to_output_weights")
    count, width = rows.steps * rows.batch, len(GATES) * units
    if not count or not units or not size or rows.steps > _MAX_STEPS:
        raise NotBound("there are no steps, or too many")
    given = source(
        call, kind, size, row_length=size, repeats=1, asymmetric=_is_asymmetric(call, kind), name="input"
    )
    of_inputs = BoundTemporary(size_bytes=4 * count * width)
    calls = products(
        scope,
        kind,
        (count, width, 1, size),
        given,
        _packed(scope, call, kind, "input_to", count),
        _epilogue(scope, call, kind, "input_to", count),
        rows_table(scope, count, given.padded),
        Batches.single(width),
        of_inputs,
    )
    of_state = _packed(scope, call, kind, "recurrent_to", rows.batch)
    epilogue = _epilogue(scope, call, kind, "recurrent_to", rows.batch)
    peephole, words = _peephole(scope, call, units), _words(call)
    state: int | BoundTemporary = call.index("output_state_in")
    cell: int | BoundTemporary = call.index("cell_state_in")
    sequence = call.index("output")
    for number in range(rows.steps):
        is_last = number == rows.steps - 1
        sums = BoundTemporary(size_bytes=4 * rows.batch * width)
        before = source(
            call,
            kind,
            units,
            name="output_state_in",
            row_length=units,
            repeats=1,
            asymmetric=_is_asymmetric(call, kind),
            moved=state,
        )
        calls += products(
            scope,
            kind,
            (rows.batch, width, 1, units),
            before,
            of_state,
            epilogue,
            rows_table(scope, rows.batch, before.padded),
            Batches.single(width),
            sums,
        )
        outputs = [
            call.index(name)
            if is_last and name in call.binding.outputs
            else BoundTemporary(size_bytes=4 * rows.batch * units)
            for name in ("output_state_out", "cell_state_out")
        ]
        begin = number * rows.step
        places = (begin * width, rows.row * width, begin * units, rows.row * units)
        calls.append(
            BoundCall(
                function="first_lstm_step",
                arguments=(*outputs, sequence, of_inputs, sums, cell, peephole),
                words=(units, *places, *words),
                work_items=rows.batch,
                cost_ns=rows.batch * width * 4 / ELEMENTS_PER_NS,
            )
        )
        state, cell = outputs
    return calls


def _kind(call: Call) -> Products:
    """Returns what is multiplied.

    Raises:
        NotBound: the cell has no kernel.
    """
    if any(name in call.binding.inputs and is_given(call, name) for name in _OPTIONAL):
        raise NotBound("projections and layer normalisation have no kernel")
    if cell_activation(call, LSTM_ACTIVATIONS) is not CellActivation.TANH:
        raise NotBound("the activation has no kernel")
    operands = [call.operand(name) for name in ("input", "output_state_in", "cell_state_in", "output")]
    if any(each.type is not FLOAT for each in operands):
        raise NotBound("the types have no kernel")
    kinds = {call.operand(name).type for name in _weights(call, "input_to") + _weights(call, "recurrent_to")}
    if kinds == {FLOAT}:
        return Products.FLOAT
    if len(kinds) == 1 and kinds <= set(SIGNED_WEIGHTS):
        depth = max(call.shape("input_to_output_weights"))
        if depth * MAX_WEIGHT * MAX_WEIGHT > MAX_INT32:
            raise NotBound("sums may exceed 32 bits")
        return Products.HYBRID
    raise NotBound("the types have no kernel")


def _is_asymmetric(call: Call, kind: Products) -> bool:
    return kind is Products.HYBRID and bool(call.scalar("asymmetric"))


def _weights(call: Call, prefix: str) -> list[str]:
    """Returns the names of the gates' weights; a coupled input gate has none."""
    gates = GATES[1:] if is_coupled(call) else GATES
    return [f"{prefix}_{gate}_weights" for gate in gates]


def _packed(scope: BindingScope, call: Call, kind: Products, prefix: str, rows: int) -> BoundConstant:
    """Returns the weights of all gates in panels; those of a coupled input gate are 0."""
    parts = [scope.constant(call, name) for name in _weights(call, prefix)]
    if len(parts) < len(GATES):
        parts.insert(0, np.zeros_like(parts[0]))
    whole = np.concatenate(parts)
    return factors.packed(kind, whole[np.newaxis, :, np.newaxis], call, width_of(scope, rows, len(whole)))


def _epilogue(scope: BindingScope, call: Call, kind: Products, prefix: str, rows: int) -> BoundEpilogue:
    """Returns the parameters of products: the biases are added to those of inputs."""
    units, _ = call.shape("input_to_output_weights")
    width = width_of(scope, rows, len(GATES) * units)
    padded = -(-len(GATES) * units // width) * width
    table = np.zeros((2 if kind is Products.HYBRID else 1, padded), np.float32)
    first = len(GATES) - len(_weights(call, prefix))
    for number, gate in enumerate(GATES[first:], start=first):
        place = slice(number * units, (number + 1) * units)
        if prefix == "input_to":
            table[0, place] = scope.constant(call, f"{gate}_gate_bias")
        if kind is Products.HYBRID:
            table[1, place] = call.operand(f"{prefix}_{gate}_weights").scale
    return BoundEpilogue(constants=(BoundConstant.of(table),), words=(*UNLIMITED, padded))


def _peephole(scope: BindingScope, call: Call, units: int) -> BoundConstant:
    """Returns the weights of the cell state for the gates input, forget and output."""
    found = np.zeros((3, units), np.float32)
    for row, gate in zip(found, ("input", "forget", "output"), strict=True):
        name = f"cell_to_{gate}_weights"
        if is_given(call, name):
            row[:] = _real(scope, call, name)
    return BoundConstant.of(found)


def _real(scope: BindingScope, call: Call, name: str) -> Array:
    if call.operand(name).type is not FLOAT or count_of(call, name) == 0:
        raise NotBound("the types have no kernel")
    return scope.constant(call, name)


def _words(call: Call) -> tuple[int, ...]:
    clip = float(call.scalar("cell_clip")) or math.inf
    own = 0.0 if is_coupled(call) else 1.0
    return bits(own), bits(1.0 - own), bits(-clip), bits(clip)


BINDINGS: Final[Mapping[OperationType, Callable[[BindingScope, Call], list[BoundCall]]]] = {
    OperationType.UNIDIRECTIONAL_SEQUENCE_LSTM: bind_sequence,
    OperationType.TFLITE_UNIDIRECTIONAL_SEQUENCE_LSTM: bind_sequence,
    OperationType.LSTM: bind_step,
    OperationType.TFLITE_LSTM: bind_step,
}
