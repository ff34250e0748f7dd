"""Recurrent cells as dictionaries, computed in simple loops with Python's floats."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from support.operations.single_operation import Given, call_of, given

from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Lifetime, OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array

GATES = ("input", "forget", "cell", "output")
#: The operands of an LSTM cell up to the projection, in their order.
CELL_NAMES = (
    *(f"input_to_{gate}_weights" for gate in GATES),
    *(f"recurrent_to_{gate}_weights" for gate in GATES),
    *(f"cell_to_{gate}_weights" for gate in GATES if gate != "cell"),
    *(f"{gate}_gate_bias" for gate in GATES),
    "projection_weights",
    "projection_bias",
)
NORM_NAMES = tuple(f"{gate}_layer_norm_weights" for gate in GATES)
AUXILIARY_NAMES = tuple(f"aux_input_to_{gate}_weights" for gate in GATES)
OPTIONAL_NAMES = (
    "input_to_input_weights",
    "recurrent_to_input_weights",
    "input_gate_bias",
    *(name for name in CELL_NAMES if name.startswith("cell_to")),
    "projection_weights",
    "projection_bias",
    *NORM_NAMES,
)

NONE, RELU, RELU1, RELU6, TANH, SIGN_BIT, SIGMOID = range(7)

Cell = dict[str, Array | None]


def activated(number: int, value: float) -> float:
    """Applies an activation by its number."""
    functions: dict[int, Callable[[float], float]] = {
        NONE: lambda x: x,
        RELU: lambda x: max(x, 0.0),
        RELU1: lambda x: min(max(x, -1.0), 1.0),
        RELU6: lambda x: min(max(x, 0.0), 6.0),
        TANH: math.tanh,
        SIGMOID: lambda x: 1 / (1 + math.exp(-x)),
    }
    return functions[number](value)


def check(operation_type: OperationType, inputs: Sequence[Given], *outputs: Operand) -> None:
    """Runs the checks and the shape rule only."""
    call = call_of(operation_type, inputs, *outputs)
    DEFINITIONS[operation_type].check(call)
    DEFINITIONS[operation_type].shape(call)


def floats(generator: np.random.Generator, operand_type: OperandType, *shape: int) -> Array:
    """Returns random numbers of a float type."""
    return generator.normal(scale=0.7, size=shape).astype(operand_type.dtype)


def random_cell(
    generator: np.random.Generator,
    operand_type: OperandType,
    sizes: tuple[int, int, int],
    *,
    coupled: bool = False,
    peephole: bool = False,
    projection: int = 0,
    norm: bool = False,
    auxiliary: int = 0,
) -> Cell:
    """Creates an LSTM cell.

    Args:
        generator: of the random numbers.
        operand_type: of all operands.
        sizes: elements of an input row, units, outputs.
        coupled: whether the cell has no input gate (CIFG).
        peephole, norm: whether the cell has these weights.
        projection: 0 for none, 1 without a bias, 2 with a bias.
        auxiliary: elements of a row of the auxiliary input; 0 for no auxiliary weights.
    """
    size, units, outputs = sizes
    cell: Cell = dict.fromkeys((*CELL_NAMES, *NORM_NAMES, *AUXILIARY_NAMES))
    for gate in GATES[1:] if coupled else GATES:
        cell[f"input_to_{gate}_weights"] = floats(generator, operand_type, units, size)
        cell[f"recurrent_to_{gate}_weights"] = floats(generator, operand_type, units, outputs)
        cell[f"{gate}_gate_bias"] = floats(generator, operand_type, units)
        if peephole and gate != "cell":
            cell[f"cell_to_{gate}_weights"] = floats(generator, operand_type, units)
        if norm:
            cell[f"{gate}_layer_norm_weights"] = floats(generator, operand_type, units)
        if auxiliary:
            cell[f"aux_input_to_{gate}_weights"] = floats(generator, operand_type, units, auxiliary)
    if projection:
        cell["projection_weights"] = floats(generator, operand_type, outputs, units)
    if projection == 2:
        cell["projection_bias"] = floats(generator, operand_type, outputs)
    return cell


def absent(operand_type: OperandType) -> Given:
    """Creates an omitted optional vector, declared as empty."""
    operand = Operand(type=operand_type, dimensions=(0,), lifetime=Lifetime.NO_VALUE)
    return Given(operand=operand, value=None)


def givens(cell: Mapping[str, Array | None], names: Sequence[str], operand_type: OperandType) -> list[Given]:
    """Returns the operands of a cell in the order of `names`."""
    values = (cell[name] for name in names)
    return [absent(operand_type) if v is None else given(operand_type, v) for v in values]


def dot(row: Sequence[float], weights: Any, index: int) -> float:
    """Returns the product of a row and one row of weights, in double precision."""
    return math.fsum(float(value) * float(weight) for value, weight in zip(row, weights[index], strict=True))


def lstm_step(
    cell: Mapping[str, Array | None],
    row: Sequence[float],
    output: Sequence[float],
    state: Sequence[float],
    *,
    activation: int = TANH,
    cell_clip: float = 0.0,
    projection_clip: float = 0.0,
    auxiliary: Sequence[float] = (),
) -> tuple[list[float], list[float]]:
    """Computes the next output and cell state of one row of a batch."""
    units = len(state)

    def gate(kind: str, seen: Sequence[float]) -> list[float]:
        sums = []
        for unit in range(units):
            total = dot(row, cell[f"input_to_{kind}_weights"], unit)
            total += dot(output, cell[f"recurrent_to_{kind}_weights"], unit)
            if auxiliary:
                total += dot(auxiliary, cell[f"aux_input_to_{kind}_weights"], unit)
            peephole = cell.get(f"cell_to_{kind}_weights")
            if peephole is not None:
                total += float(peephole[unit]) * seen[unit]
            sums.append(total)
        norm = cell[f"{kind}_layer_norm_weights"]
        if norm is not None:
            mean = math.fsum(sums) / units
            variance = math.fsum((total - mean) ** 2 for total in sums) / units
            sums = [
                float(norm[unit]) * (sums[unit] - mean) / math.sqrt(variance + 1e-8) for unit in range(units)
            ]
        bias = cell[f"{kind}_gate_bias"]
        assert bias is not None
        return [total + float(bias[unit]) for unit, total in enumerate(sums)]

    def clipped(value: float, clip: float) -> float:
        return min(max(value, -clip), clip) if clip else value

    forget = [activated(SIGMOID, total) for total in gate("forget", state)]
    if cell["input_to_input_weights"] is None:
        admit = [1 - value for value in forget]
    else:
        admit = [activated(SIGMOID, total) for total in gate("input", state)]
    candidate = [activated(activation, total) for total in gate("cell", state)]
    following = [
        clipped(forget[unit] * state[unit] + admit[unit] * candidate[unit], cell_clip)
        for unit in range(units)
    ]
    emit = [activated(SIGMOID, total) for total in gate("output", following)]
    hidden = [emit[unit] * activated(activation, following[unit]) for unit in range(units)]
    projection, bias = cell["projection_weights"], cell["projection_bias"]
    if projection is None:
        return hidden, following
    results = []
    for index in range(len(projection)):
        total = dot(hidden, projection, index) + (0.0 if bias is None else float(bias[index]))
        results.append(clipped(total, projection_clip))
    return results, following


def lstm_sequence(
    cell: Mapping[str, Array | None],
    sequence: Array,
    output_state: Array,
    cell_state: Array,
    *,
    auxiliary: Array | None = None,
    backward: bool = False,
    **settings: Any,
) -> tuple[Array, Array, Array]:
    """Computes the outputs of a time-major sequence and the last states, in float64."""
    time, batch, _ = sequence.shape
    outputs = np.zeros((time, *output_state.shape))
    last_output, last_cell = output_state.astype(np.float64), cell_state.astype(np.float64)
    for step in reversed(range(time)) if backward else range(time):
        for row in range(batch):
            following = lstm_step(
                cell,
                sequence[step, row].tolist(),
                last_output[row].tolist(),
                last_cell[row].tolist(),
                auxiliary=() if auxiliary is None else auxiliary[step, row].tolist(),
                **settings,
            )
            outputs[step, row] = last_output[row] = following[0]
            last_cell[row] = following[1]
    return outputs, last_output, last_cell


def assert_close(result: Array, expected: Array, operand_type: OperandType) -> None:
    """Asserts equality up to the rounding of a few steps."""
    assert result.shape == expected.shape
    tolerance = 2e-5 if operand_type is OperandType.TENSOR_FLOAT32 else 2e-3
    np.testing.assert_allclose(result.astype(np.float64), expected, rtol=tolerance, atol=tolerance)
