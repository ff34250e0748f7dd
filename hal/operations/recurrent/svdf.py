"""SVDF: a layer over recent inputs whose weights are factored into feature and time filters."""

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.arithmetic.quantized import real
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.rules import data_rows
from neurald.hal.operations.machinery.signature import Form, scalar, tensor
from neurald.hal.operations.recurrent.recurrent import (
    BASIC_ACTIVATIONS,
    CellActivation,
    LinearMap,
    cast_results,
    cell_activation,
    expect_elements,
    expect_shapes,
    is_given,
    known_cell_activation,
    linear_map,
)

_FORM = Form(
    inputs=(
        tensor("input", rank=2),
        tensor("weights_feature", rank=2),
        tensor("weights_time", rank=2),
        tensor("bias", rank=1, optional=True),
        tensor("state_in", rank=2),
        scalar("rank"),
        scalar("cell_activation"),
    ),
    outputs=(tensor("state_out", rank=2), tensor("output", rank=2)),
)


def run_svdf(
    features: LinearMap,
    time_weights: Array,
    bias: Array | None,
    values: Array,
    state: Array,
    *,
    rank: int,
    activation: CellActivation,
) -> tuple[Array, Array]:
    """Computes one step: stores an input's features in a memory, and weights its content by age.

    Args:
        features: linear map from an input to one value per filter.
        time_weights: float32, shape (filters, memory); the last column belongs to the newest input.
        bias: shape (units,), where filters = units × rank; filters of the same unit are adjacent.
        values: the input, float32, shape (batch, elements).
        state: shape (batch, filters × memory): the memory; the last column of each filter is free.
        rank: number of filters per unit.
        activation: the activation of the output.

    Returns:
        The next state, with its last columns free (0), and the output, shape (batch, units).
    """
    filters, length = time_weights.shape
    with np.errstate(over="ignore", invalid="ignore"):
        memory = state.reshape(len(values), filters, length).copy()
        memory[:, :, -1] = features(values)
        sums = (memory * time_weights).sum(axis=2)
        output = sums.reshape(len(values), filters // rank, rank).sum(axis=2)
        if bias is not None:
            output = output + bias
        output = activation(output)
    following = np.zeros_like(memory)
    following[:, :, :-1] = memory[:, :, 1:]
    return following.reshape(state.shape), output


def _units(call: Call) -> int:
    """Returns the number of units that the filters form."""
    filters, _ = call.shape("weights_feature")
    rank = call.scalar_in("rank", 1)
    if filters % rank:
        raise BadData(
            f"{call.name('rank')} is {rank}; a divisor of {filters}, the rows of "
            f"{call.name('weights_feature')}, is expected"
        )
    return int(filters // rank)


def _positive_rank(call: Call) -> None:
    """Checks that every unit has at least one filter."""
    call.scalar_in("rank", 1)


def _shape(call: Call) -> tuple[Shape, ...]:
    batch, size = call.shape("input")
    filters, length = call.shape("weights_time")
    expect_elements(call, "weights_time")
    state = (batch, filters * length)
    expect_shapes(call, {"weights_feature": (filters, size), "state_in": state})
    units = _units(call)
    expect_shapes(call, {"bias": (units,)})
    return state, (batch, units)


def _reference(call: Call) -> tuple[Array, ...]:
    state, output = run_svdf(
        linear_map(call, "weights_feature"),
        real(call, "weights_time"),
        real(call, "bias") if is_given(call, "bias") else None,
        real(call, "input"),
        real(call, "state_in"),
        rank=call.scalar("rank"),
        activation=cell_activation(call, BASIC_ACTIVATIONS),
    )
    return cast_results(call, state, output)


DEFINITIONS = (
    Definition(
        type=OperationType.SVDF,
        forms=(_FORM,),
        rows=data_rows(),
        checks=(_positive_rank, known_cell_activation(BASIC_ACTIVATIONS)),
        shape=_shape,
        reference=_reference,
    ),
)
