"""Integer LSTM cells against the references, bit for bit."""

from collections.abc import Iterator
from itertools import cycle, product
from typing import Any

import numpy as np
from support.compiler.lowering_beside_reference import expect_same
from support.operations.recurrent import CELL_NAMES, GATES, NORM_NAMES, absent
from support.operations.single_operation import Given, given, scalars, wanted
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import evaluate
from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import load
from neurald.drivers.compiler.ir.graph import Graph
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.arithmetic.gemmlowp import inverse_square_root
from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType
from neurald.hal.operations.arithmetic import gemmlowp

INT8, SYMMETRIC8 = OperandType.TENSOR_QUANT8_ASYMM_SIGNED, OperandType.TENSOR_QUANT8_SYMM
UINT8, INT16 = OperandType.TENSOR_QUANT8_ASYMM, OperandType.TENSOR_QUANT16_SYMM
INT32 = OperandType.TENSOR_INT32

SIZE, UNITS, OUTPUTS = 4, 5, 2
INPUT, OUTPUT = (1 / 128, 5), (1 / 64, -9)
WEIGHT, PEEPHOLE, NORM, CELL = 1 / 100, 2.0**-14, 2.0**-13, 2.0**-11
INTERMEDIATE, HIDDEN = 2.0**-11 * 1.1, (1 / 120, 11)


def cell_of(seed: int, weights: OperandType, options: dict[str, Any]) -> dict[str, Given]:
    """Returns operands by name; `projection` is 0 for none, 1 without a bias, 2 with one."""
    generator = np.random.default_rng(seed)
    outputs = OUTPUTS if options.get("projection") else UNITS

    def integers(kind: OperandType, scale: float, largest: int, *shape: int) -> Given:
        return given(kind, generator.integers(-largest, largest, shape), scale)

    cell: dict[str, Given] = {}
    for gate in GATES[1:] if options.get("coupled") else GATES:
        cell[f"input_to_{gate}_weights"] = integers(weights, WEIGHT, 127, UNITS, SIZE)
        cell[f"recurrent_to_{gate}_weights"] = integers(weights, WEIGHT, 127, UNITS, outputs)
        cell[f"{gate}_gate_bias"] = integers(INT32, 0.0, 4_000_000 if options.get("norm") else 9000, UNITS)
        if options.get("peephole") and gate != "cell":
            cell[f"cell_to_{gate}_weights"] = integers(INT16, PEEPHOLE, 16000, UNITS)
        if options.get("norm"):
            cell[f"{gate}_layer_norm_weights"] = integers(INT16, NORM, 8000, UNITS)
    if options.get("projection"):
        cell["projection_weights"] = integers(weights, WEIGHT, 127, outputs, UNITS)
    if options.get("projection") == 2:
        cell["projection_bias"] = integers(INT32, 0.0, 5000, outputs)
    return cell


def operands(cell: dict[str, Given], names: tuple[str, ...], weights: OperandType) -> list[Given]:
    kinds = {name: weights if name.startswith(("input", "recurrent", "proj")) else INT16 for name in names}
    kinds |= {name: INT32 for name in names if name.endswith("bias")}
    kinds |= dict.fromkeys(NORM_NAMES, INT16)
    return [cell.get(name, absent(kinds[name])) for name in names]


def states(batch: int, options: dict[str, Any]) -> list[Given]:
    generator = np.random.default_rng(5)
    outputs = OUTPUTS if options.get("projection") else UNITS
    return [
        given(INT8, generator.integers(-80, 60, (batch, outputs)), *OUTPUT),
        given(INT16, generator.integers(-30000, 30000, (batch, UNITS)), CELL),
    ]


def source(*shape: int) -> Given:
    return given(INT8, np.random.default_rng(1).integers(-128, 128, shape), *INPUT)


def every_cell() -> Iterator[dict[str, Any]]:
    for coupled, peephole, projection, norm in product(
        (False, True), (False, True), (0, 1, 2), (False, True)
    ):
        yield {"coupled": coupled, "peephole": peephole, "projection": projection, "norm": norm}


def outputs() -> tuple[Operand, ...]:
    return wanted(INT8, *OUTPUT), wanted(INT16, CELL), wanted(INT8, *OUTPUT)


@sweep(("options", "clip"), list(zip(every_cell(), cycle((0.0, 0.3, 0.3)), strict=False)))
def test_quantized_lstm(options: dict[str, Any], clip: float) -> None:
    cell = cell_of(0, SYMMETRIC8, options)
    inputs = [
        source(3, SIZE),
        *operands(cell, CELL_NAMES, SYMMETRIC8),
        *states(3, options),
        *operands(cell, NORM_NAMES, SYMMETRIC8),
        *scalars(clip, clip, *[INTERMEDIATE] * 4, HIDDEN[1], HIDDEN[0]),
    ]
    data = (0, len(CELL_NAMES) + 1, len(CELL_NAMES) + 2)
    expect_same(OperationType.QUANTIZED_LSTM, inputs, *outputs(), data=data)


@sweep("options", list(every_cell())[::7])
@sweep(
    ("shape", "time_major"),
    [
        ((3, SIZE), False),
        ((2, 3, SIZE), True),
        ((3, 4, SIZE), False),
        ((0, 3, SIZE), True),
        ((2, 0, SIZE), True),
    ],
)
def test_integer_sequences(options: dict[str, Any], shape: tuple[int, ...], *, time_major: bool) -> None:
    cell = cell_of(0, INT8, options)
    batch = shape[1] if time_major else shape[0]
    inputs = [
        source(*shape),
        *operands(cell, CELL_NAMES, INT8),
        *states(batch, options),
        *scalars(4, 0.4, 0.0, time_major),
        *operands(cell, NORM_NAMES, INT8),
        *scalars(*[INTERMEDIATE] * 4, *HIDDEN[::-1]),
    ]
    last, state, output = outputs()
    operation = OperationType.TFLITE_UNIDIRECTIONAL_SEQUENCE_LSTM
    expect_same(operation, inputs, output, last, state)


def bytes_of(seed: int) -> dict[str, Given]:
    """Returns the inputs, weights and biases of a cell with 16-bit sums."""
    generator = np.random.default_rng(seed)
    scale = float(np.float32(2.0**-7 * 1.1))
    return {
        "input": given(UINT8, generator.integers(0, 256, (3, SIZE)), 1 / 128, 128),
        "output": given(UINT8, generator.integers(0, 256, (3, UNITS)), 1 / 128, 128),
        "state": given(INT16, generator.integers(-(2**15), 2**15, (3, UNITS)), CELL),
        "weights": given(UINT8, generator.integers(0, 256, (4 * UNITS, SIZE + UNITS)), scale, 120),
        "bias": given(INT32, generator.integers(-3000, 3000, 4 * UNITS), scale / 128),
    }


@sweep("seed", range(4))
@sweep("are_fed", [False, True])
def test_cells_of_16_bit_sums(seed: int, *, are_fed: bool) -> None:
    parts = bytes_of(seed)
    weights, bias = parts["weights"], parts["bias"]
    basic = [parts["input"], parts["output"], weights, bias, parts["state"]]
    results = wanted(UINT8, 1 / 128, 128), wanted(INT16, CELL)
    data = range(5) if are_fed else (0, 1, 4)
    expect_same(OperationType.TFLITE_LSTM, basic, *results, data=data)
    assert weights.value is not None
    assert bias.value is not None
    matrices = np.split(weights.value, 4)
    scale, zero_point = weights.operand.scale, weights.operand.zero_point
    android = [
        parts["input"],
        *(given(UINT8, matrix[:, UNITS:], scale, zero_point) for matrix in matrices),
        *(given(UINT8, matrix[:, :UNITS], scale, zero_point) for matrix in matrices),
        *(given(INT32, part, bias.operand.scale) for part in np.split(bias.value, 4)),
        parts["state"],
        parts["output"],
    ]
    data = range(15) if are_fed else (0, 13, 14)
    expect_same(OperationType.QUANTIZED_16BIT_LSTM, android, *results[::-1], data=data)


def test_inverse_square_roots() -> None:
    generator = np.random.default_rng(0)
    numbers = [0, 1, 2, 3, (1 << 29) - 1, 1 << 29, (1 << 31) - 1, *generator.integers(0, 1 << 31, 50)]
    values = np.array([*numbers, *(1 << np.arange(31)), *generator.integers(0, 5000, 50)], np.int64)
    graph, fed = Graph(inputs=[], outputs=[]), Value(values.shape, Scalar.INT64)
    builder = Builder(graph, lambda _: fed)
    graph.inputs = [fed]
    graph.outputs = [
        builder.compute(values.shape, lambda at, part=part: inverse_square_root(load(fed, (at,)))[part])
        for part in (0, 1)
    ]
    for found, expected in zip(evaluate(graph, [values]), gemmlowp.inverse_square_root(values), strict=True):
        np.testing.assert_array_equal(found, expected)
