"""Common parts of bidirectional operations: linking of the auxiliary input, and the outputs.

Without an auxiliary input both cells use the input. With an auxiliary input and auxiliary weights
(cross-linking) both cells use both inputs; without such weights (parallel linking) the forward cell
uses the input, the backward cell the auxiliary input.
"""

from collections.abc import Sequence

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.types import FeatureLevel
from neurald.hal.operations.arithmetic.quantized import real
from neurald.hal.operations.machinery.call import Array, Call, Shape, UnknownValue
from neurald.hal.operations.machinery.signature import Form, Parameter, tensor
from neurald.hal.operations.recurrent.recurrent import (
    all_or_none,
    cast_results,
    expect_shape,
    is_given,
    swap_batch,
)

#: The auxiliary input. If it is omitted, models declare it with any rank.
AUXILIARY = tensor("aux_input", rank=(1, 3), optional=True)


def bidirectional_forms(inputs: Sequence[Parameter], states: Sequence[str]) -> tuple[Form, ...]:
    """Returns the forms with separate or merged outputs, without and with final states."""
    apart = (tensor("fw_output", rank=3), tensor("bw_output", rank=3))
    last = tuple(tensor(name, rank=2) for name in states)
    return tuple(
        Form(inputs=tuple(inputs), outputs=(*outputs, *more), level=level)
        for more, level in (((), FeatureLevel.LEVEL_3), (last, FeatureLevel.LEVEL_4))
        for outputs in (apart, apart[:1])
    )


def check_merge_outputs(call: Call) -> None:
    """Checks that the number of outputs agrees with `merge_outputs`."""
    merged = bool(call.scalar("merge_outputs"))
    if merged != is_merged(call):
        count = len(call.binding.outputs)
        raise BadData(
            f"{call.name('merge_outputs')} is {merged}; an operation of {count} outputs needs {not merged}"
        )


def expect_linking(call: Call, weights: Sequence[str]) -> None:
    """Checks that auxiliary weights are given for both cells or none, with an auxiliary input.

    Raises:
        BadData: only some of the weights are given, or no auxiliary input.
        UnknownValue: see `is_given`.
    """
    if all_or_none(call, weights, "cross-linking") and not is_given(call, "aux_input"):
        raise BadData(
            f"{call.name('aux_input')} is omitted, {call.name(weights[0])} is given; "
            "auxiliary weights need an auxiliary input"
        )


def auxiliary_size(call: Call) -> int | None:
    """Returns the number of elements per step of the auxiliary input.

    None if omitted or unknown.

    Raises:
        BadData: its number of steps or batch size differs from the input's.
    """
    try:
        if not is_given(call, "aux_input"):
            return None
        expect_shape(call, "aux_input", (*call.shape("input")[:2], None))
        return call.shape("aux_input")[2]
    except UnknownValue:
        return None


def backward_size(call: Call, auxiliary_weights: str) -> int | None:
    """Returns the number of elements per step of the backward cell's main input.

    None if unknown.
    """
    try:
        is_parallel = is_given(call, "aux_input") and not is_given(call, auxiliary_weights)
    except UnknownValue:
        return None
    return auxiliary_size(call) if is_parallel else call.shape("input")[2]


def sequences(call: Call, auxiliary_weights: str) -> tuple[Array, Array, Array | None]:
    """Returns main inputs of forward and backward cell, and auxiliary input, all time-major."""
    time_major = call.scalar("time_major")
    forward = swap_batch(real(call, "input"), time_major=time_major)
    if not is_given(call, "aux_input"):
        return forward, forward, None
    auxiliary = swap_batch(real(call, "aux_input"), time_major=time_major)
    if is_given(call, auxiliary_weights):
        return forward, forward, auxiliary
    return forward, auxiliary, None


def output_shapes(call: Call, sizes: tuple[int, int], states: Sequence[Shape]) -> tuple[Shape, ...]:
    """Returns the shapes of all outputs.

    Args:
        call: the operation.
        sizes: elements per step of the forward and the backward output.
        states: the shapes of the states, even if they are not outputs.
    """
    leading = call.shape("input")[:2]
    lengths = (sum(sizes),) if is_merged(call) else sizes
    return (*((*leading, length) for length in lengths), *(states if has_states(call) else ()))


def store_outputs(call: Call, forward: Array, backward: Array, states: Sequence[Array]) -> tuple[Array, ...]:
    """Returns all outputs, from time-major outputs of both cells and the states.

    See `output_shapes`.
    """
    both = (np.concatenate((forward, backward), axis=2),) if is_merged(call) else (forward, backward)
    time_major = call.scalar("time_major")
    results = [swap_batch(output, time_major=time_major) for output in both]
    results += states if has_states(call) else ()
    return cast_results(call, *results)


def is_merged(call: Call) -> bool:
    """Returns True if both cells share one output."""
    return "bw_output" not in call.binding.outputs


def has_states(call: Call) -> bool:
    """Returns True if the final states are outputs."""
    return len(call.binding.outputs) > 2
