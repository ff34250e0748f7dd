import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from support.operations.exact import away_from_zero, cut, multiplier, times
from support.operations.recurrent import CELL_NAMES, GATES, NORM_NAMES, Cell, absent, check, lstm_sequence
from support.operations.single_operation import Given, evaluate_all, given, level_of, omitted, wanted
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.arithmetic.gemmlowp import inverse_square_root, sigmoid16, tanh16
from neurald.hal.operations.machinery.call import Array

LSTM8, LSTM16 = OperationType.QUANTIZED_LSTM, OperationType.QUANTIZED_16BIT_LSTM
SIGNED8, SYMMETRIC8 = OperandType.TENSOR_QUANT8_ASYMM_SIGNED, OperandType.TENSOR_QUANT8_SYMM
SYMMETRIC16, INT32 = OperandType.TENSOR_QUANT16_SYMM, OperandType.TENSOR_INT32
UNSIGNED8 = OperandType.TENSOR_QUANT8_ASYMM

BATCH, SIZE, UNITS, OUTPUTS = 3, 4, 5, 2
INPUT, OUTPUT = (1 / 128, 5), (1 / 64, -9)
WEIGHT, PEEPHOLE, NORM, CELL = 1 / 100, 2.0**-14, 2.0**-13, 2.0**-11
INTERMEDIATE, HIDDEN = 2.0**-11 * 1.1, (1 / 120, 11)


def random_cell(
    generator: np.random.Generator, *, coupled: bool, peephole: bool, projection: int, norm: bool
) -> Cell:
    """Returns raw weights; `projection` is 0 for none, 1 without a bias, 2 with one."""
    outputs = OUTPUTS if projection else UNITS
    cell: Cell = dict.fromkeys((*CELL_NAMES, *NORM_NAMES))
    for gate in GATES[1:] if coupled else GATES:
        cell[f"input_to_{gate}_weights"] = generator.integers(-127, 128, (UNITS, SIZE))
        cell[f"recurrent_to_{gate}_weights"] = generator.integers(-127, 128, (UNITS, outputs))
        cell[f"{gate}_gate_bias"] = generator.integers(-9000, 9000, UNITS) * (400 if norm else 1)
        if peephole and gate != "cell":
            cell[f"cell_to_{gate}_weights"] = generator.integers(-16000, 16000, UNITS)
        if norm:
            cell[f"{gate}_layer_norm_weights"] = generator.integers(-8000, 8000, UNITS)
    if projection:
        cell["projection_weights"] = generator.integers(-127, 128, (outputs, UNITS))
    if projection == 2:
        cell["projection_bias"] = generator.integers(-5000, 5000, outputs)
    return cell


def scale_of(name: str) -> tuple[OperandType, float]:
    """Returns type and scale of an operand of a cell."""
    if name.endswith("bias"):
        return INT32, 0.0
    if name in NORM_NAMES:
        return SYMMETRIC16, NORM
    return (SYMMETRIC16, PEEPHOLE) if name.startswith("cell_to") else (SYMMETRIC8, WEIGHT)


def operand_of(name: str, value: Array | None) -> Given:
    operand_type, scale = scale_of(name)
    return absent(operand_type) if value is None else given(operand_type, value, scale)


def arguments(
    cell: Cell,
    values: Array,
    output_state: Array,
    cell_state: Array,
    *,
    clips: tuple[float, float] = (0.0, 0.0),
    cell_scale: float = CELL,
    intermediate: float = INTERMEDIATE,
    hidden: tuple[float, int] = HIDDEN,
) -> list[Given]:
    reals = (*clips, *[intermediate] * 4)
    return [
        given(SIGNED8, values, *INPUT),
        *(operand_of(name, cell[name]) for name in CELL_NAMES),
        given(SIGNED8, output_state, *OUTPUT),
        given(SYMMETRIC16, cell_state, cell_scale),
        *(operand_of(name, cell[name]) for name in NORM_NAMES),
        *(given(OperandType.FLOAT32, real) for real in reals),
        given(OperandType.INT32, hidden[1]),
        given(OperandType.FLOAT32, hidden[0]),
    ]


def results_wanted(cell_scale: float = CELL) -> list[Operand]:
    return [
        wanted(SIGNED8, *OUTPUT, rank=2),
        wanted(SYMMETRIC16, cell_scale, rank=2),
        wanted(SIGNED8, *OUTPUT, rank=2),
    ]


def states_of(generator: np.random.Generator, batch: int, outputs: int) -> tuple[Array, Array]:
    return generator.integers(-80, 60, (batch, outputs)), generator.integers(-3000, 3000, (batch, UNITS))


def single(value: float) -> float:
    return float(np.float32(value))


def ratio(first: float, second: float, result: float) -> tuple[int, int]:
    """Returns the multiplier of a ratio of scales, in float32."""
    return multiplier(float(np.float32(first) * np.float32(second) / np.float32(result)))


def normalized(sums: list[int], weights: Array, bias: Array) -> list[int]:
    """Computes layer normalisation in integers, one step after another."""
    count = len(sums)
    mean = int(Fraction(sum(sums) * 1024, count))
    squares = sum(total * total for total in sums) * ((1 << 20) // count)
    variance = max(1, int(Fraction(squares - mean * mean, 1 << 20)))
    mantissas, exponents = inverse_square_root(np.array([variance]))
    scale_mantissa, scale_exponent = multiplier(single(NORM))
    results = []
    for total, weight, shift in zip(sums, weights.tolist(), bias.tolist(), strict=True):
        deviation = times(1024 * total - mean, int(mantissas[0]), int(exponents[0]))
        rounded = away_from_zero(Fraction(deviation * weight + shift, 1024))
        results.append(cut(times(rounded, scale_mantissa, scale_exponent + 12), "int16"))
    return results


def step(
    cell: Cell, row: list[int], output: list[int], state: list[int], clips: tuple[float, float]
) -> tuple[list[int], list[int]]:
    """Computes one row of a batch with Python's integers."""
    has_norm = cell["output_layer_norm_weights"] is not None
    gate_scale = INTERMEDIATE if has_norm else 2.0**-12

    def products(values: list[int], zero_point: int, weights: Array | None, index: int) -> int:
        assert weights is not None
        return sum((v - zero_point) * int(w) for v, w in zip(values, weights[index], strict=True))

    def gate(kind: str, seen: list[int]) -> list[int]:
        bias = cell[f"{kind}_gate_bias"]
        assert bias is not None
        sums = []
        for unit in range(UNITS):
            total = products(row, INPUT[1], cell[f"input_to_{kind}_weights"], unit)
            total += 0 if has_norm else int(bias[unit])
            total = cut(times(total, *ratio(WEIGHT, INPUT[0], gate_scale)), "int16")
            recurrent = products(output, OUTPUT[1], cell[f"recurrent_to_{kind}_weights"], unit)
            total = cut(total + times(recurrent, *ratio(WEIGHT, OUTPUT[0], gate_scale)), "int16")
            peephole = cell.get(f"cell_to_{kind}_weights")
            if peephole is not None:
                seen_part = times(int(peephole[unit]) * seen[unit], *ratio(PEEPHOLE, CELL, gate_scale))
                total = cut(total + seen_part, "int16")
            sums.append(total)
        norm = cell[f"{kind}_layer_norm_weights"]
        return sums if norm is None else normalized(sums, norm, bias)

    def curve(values: list[int], *, integer_bits: int | None = None) -> list[int]:
        array = np.array(values)
        curved = sigmoid16(array) if integer_bits is None else tanh16(array, integer_bits)
        return [int(value) for value in curved]

    forget = curve(gate("forget", state))
    coupled = cell["input_to_input_weights"] is None
    admit = [32767 - value for value in forget] if coupled else curve(gate("input", state))
    candidate = curve(gate("cell", state), integer_bits=3)
    limit = int(np.float32(clips[0]) / np.float32(CELL)) if clips[0] else 32768
    following = []
    for unit in range(UNITS):
        kept = away_from_zero(Fraction(forget[unit] * state[unit], 1 << 15))
        new = away_from_zero(Fraction(admit[unit] * candidate[unit], 1 << 19))
        following.append(min(max(cut(kept + new, "int16"), -limit), limit))
    emit = curve(gate("output", following))
    curved = curve(following, integer_bits=4)
    projection, bias = cell["projection_weights"], cell["projection_bias"]
    hidden_scale, hidden_zero = HIDDEN
    to_hidden = ratio(2.0**-15, 2.0**-15, hidden_scale)
    hidden = [cut(times(e * c, *to_hidden) + hidden_zero, "int8") for e, c in zip(emit, curved, strict=True)]
    if projection is None:
        return hidden, following
    results = []
    for index in range(OUTPUTS):
        total = products(hidden, hidden_zero, projection, index) + (0 if bias is None else int(bias[index]))
        quantized = cut(times(total, *ratio(WEIGHT, hidden_scale, OUTPUT[0])) + OUTPUT[1], "int8")
        if clips[1]:
            bound = int(np.float32(clips[1]) / np.float32(OUTPUT[0]))
            quantized = min(max(quantized, OUTPUT[1] - bound), OUTPUT[1] + bound)
        results.append(quantized)
    return results, following


OPTIONS = [
    {"coupled": coupled, "peephole": peephole, "projection": projection, "norm": norm}
    for coupled in (False, True)
    for peephole in (False, True)
    for projection in (0, 1, 2)
    for norm in (False, True)
]


@sweep("clips", [(0.0, 0.0), (0.4, 0.3)])
@sweep("options", OPTIONS, ids=str)
def test_every_combination(options: dict[str, Any], clips: tuple[float, float]) -> None:
    generator = np.random.default_rng(1)
    cell = random_cell(generator, **options)
    values = generator.integers(-128, 128, (BATCH, SIZE))
    states = states_of(generator, BATCH, OUTPUTS if options["projection"] else UNITS)
    inputs = arguments(cell, values, *states, clips=clips)
    output_state, cell_state, output = evaluate_all(LSTM8, inputs, *results_wanted())
    for row in range(BATCH):
        expected = step(cell, values[row].tolist(), states[0][row].tolist(), states[1][row].tolist(), clips)
        assert (output[row].tolist(), cell_state[row].tolist()) == expected
    np.testing.assert_array_equal(output_state, output)


def real_cell(cell: Cell) -> Cell:
    """Dequantises the weights of a cell."""
    reals: Cell = dict.fromkeys(cell)
    for name, value in cell.items():
        if value is None:
            continue
        scale = scale_of(name)[1]
        if name.endswith("gate_bias"):
            norm = cell["output_layer_norm_weights"] is not None
            scale = NORM / 1024 if norm else WEIGHT * INPUT[0]
        elif name == "projection_bias":
            scale = WEIGHT * HIDDEN[0]
        reals[name] = value * scale
    return reals


@sweep("options", OPTIONS, ids=str)
def test_is_close_to_the_float_cell(options: dict[str, Any]) -> None:
    generator = np.random.default_rng(2)
    cell = random_cell(generator, **options)
    values = generator.integers(-60, 60, (BATCH, SIZE))
    states = states_of(generator, BATCH, OUTPUTS if options["projection"] else UNITS)
    _, cell_state, output = evaluate_all(LSTM8, arguments(cell, values, *states), *results_wanted())
    expected = lstm_sequence(
        real_cell(cell),
        ((values - INPUT[1]) * INPUT[0])[np.newaxis],
        (states[0] - OUTPUT[1]) * OUTPUT[0],
        states[1] * CELL,
    )
    np.testing.assert_allclose(cell_state * CELL, expected[2], atol=0.01)
    # Without a projection, the outputs are the raw hidden values.
    scale, zero_point = OUTPUT if options["projection"] else HIDDEN
    quantized = np.clip(expected[1] / scale + zero_point, -128, 127)
    np.testing.assert_allclose(output, quantized, atol=2.5)


def test_no_batch() -> None:
    generator = np.random.default_rng(3)
    cell = random_cell(generator, coupled=False, peephole=True, projection=2, norm=True)
    inputs = arguments(cell, np.zeros((0, SIZE)), *states_of(generator, 0, OUTPUTS))
    results = evaluate_all(LSTM8, inputs, *results_wanted())
    assert [result.shape for result in results] == [(0, OUTPUTS), (0, UNITS), (0, OUTPUTS)]


def test_equal_sums_are_normalized_to_the_bias() -> None:
    generator = np.random.default_rng(4)
    cell = random_cell(generator, coupled=True, peephole=False, projection=0, norm=True)
    for name in CELL_NAMES[:8]:
        if cell[name] is not None:
            cell[name] = np.full_like(cell[name], 3)
    values, states = np.full((1, SIZE), 7), (np.zeros((1, UNITS), int), np.zeros((1, UNITS), int))
    _, cell_state, output = evaluate_all(LSTM8, arguments(cell, values, *states), *results_wanted())
    expected = step(cell, [7] * SIZE, [0] * UNITS, [0] * UNITS, (0.0, 0.0))
    assert (output[0].tolist(), cell_state[0].tolist()) == expected


@sweep("bits", range(7))
def test_scales_of_the_cell_state(bits: int) -> None:
    generator = np.random.default_rng(5)
    cell = random_cell(generator, coupled=False, peephole=False, projection=0, norm=False)
    values, states = generator.integers(-60, 60, (2, SIZE)), states_of(generator, 2, UNITS)
    scale = 2.0 ** (bits - 15)
    inputs = arguments(cell, values, *states, cell_scale=scale)
    _, cell_state, _ = evaluate_all(LSTM8, inputs, *results_wanted(scale))
    expected = lstm_sequence(
        real_cell(cell),
        ((values - INPUT[1]) * INPUT[0])[np.newaxis],
        (states[0] - OUTPUT[1]) * OUTPUT[0],
        states[1] * scale,
    )[2]
    limits = -(2.0**bits), 2.0**bits - scale
    np.testing.assert_allclose(cell_state * scale, np.clip(expected, *limits), atol=0.01 + scale)


def test_clips_may_be_omitted() -> None:
    generator = np.random.default_rng(6)
    cell = random_cell(generator, coupled=False, peephole=False, projection=1, norm=False)
    inputs = arguments(cell, np.ones((1, SIZE)), *states_of(generator, 1, OUTPUTS))
    expected = evaluate_all(LSTM8, inputs, *results_wanted())
    for position in (24, 25):
        inputs[position] = omitted(OperandType.FLOAT32)
    for result, same in zip(evaluate_all(LSTM8, inputs, *results_wanted()), expected, strict=True):
        np.testing.assert_array_equal(result, same)


@sweep(
    ("name", "message"),
    [
        ("recurrent_to_input_weights", r"operand 5 \(recurrent_to_input_weights .* is omitted"),
        ("input_gate_bias", r"operand 12 \(input_gate_bias of QUANTIZED_LSTM\) is omitted"),
        ("cell_to_output_weights", r"operand 11 \(cell_to_output_weights .* is omitted"),
        ("projection_weights", r"operand 17 \(projection_bias .* is given; it must be omitted"),
        ("cell_layer_norm_weights", r"operand 22 \(cell_layer_norm_weights .* is omitted"),
    ],
)
def test_refuses_inconsistent_operands(name: str, message: str) -> None:
    generator = np.random.default_rng(7)
    cell = random_cell(generator, coupled=False, peephole=True, projection=2, norm=True)
    cell[name] = None
    inputs = arguments(cell, np.zeros((1, SIZE)), *states_of(generator, 1, OUTPUTS))
    with pytest.raises(BadData, match=message):
        check(LSTM8, inputs, *results_wanted())


@sweep(
    ("changes", "message"),
    [
        ({"clips": (-1.0, 0.0)}, r"operand 24 \(cell_clip of QUANTIZED_LSTM\) is -1; at least 0"),
        ({"clips": (0.0, math.nan)}, r"operand 25 \(projection_clip .* is nan"),
        ({"cell_scale": 2.0**-11 * 1.01}, r"operand 19 \(cell_state_in .* has scale .*; a power of two"),
        ({"cell_scale": 2.0**-8}, r"operand 19 .* has scale 0\.0039.*; a power of two from 2\^-15 to 2\^-9"),
        ({"cell_scale": 2.0**-16}, r"operand 19 .* has scale 1\.5.*e-05"),
        ({"intermediate": 0.0}, r"operand 26 \(input_intermediate_scale .* is 0; it must be positive"),
        ({"intermediate": math.inf}, "operand 26 .* is inf"),
        ({"hidden": (0.0, 0)}, r"operand 31 \(hidden_state_scale .* is 0; it must be positive"),
        ({"hidden": (0.1, 128)}, r"operand 30 \(hidden_state_zero_point .* is 128; it must be from -128"),
    ],
)
def test_refuses_settings(changes: dict[str, Any], message: str) -> None:
    generator = np.random.default_rng(8)
    cell = random_cell(generator, coupled=False, peephole=True, projection=2, norm=True)
    inputs = arguments(cell, np.zeros((1, SIZE)), *states_of(generator, 1, OUTPUTS), **changes)
    with pytest.raises(BadData, match=message):
        check(LSTM8, inputs, *results_wanted(changes.get("cell_scale", CELL)))


@sweep(
    ("position", "output", "message"),
    [
        (0, wanted(SIGNED8, 1 / 64, -8, rank=2), r"\(output_state_out .* zero point -8; 0\.015625 and -9"),
        (1, wanted(SYMMETRIC16, 2.0**-12, rank=2), r"\(cell_state_out .* has scale 0\.00024"),
        (2, wanted(SIGNED8, 1 / 32, -9, rank=2), r"\(output of .* has scale 0\.03125 and zero point -9"),
    ],
)
def test_states_keep_their_scales(position: int, output: Operand, message: str) -> None:
    generator = np.random.default_rng(9)
    cell = random_cell(generator, coupled=False, peephole=False, projection=0, norm=False)
    outputs = results_wanted()
    outputs[position] = output
    inputs = arguments(cell, np.zeros((1, SIZE)), *states_of(generator, 1, UNITS))
    with pytest.raises(BadData, match=message):
        check(LSTM8, inputs, *outputs)


def test_refuses_shapes() -> None:
    generator = np.random.default_rng(10)
    cell = random_cell(generator, coupled=False, peephole=True, projection=2, norm=True)
    inputs = arguments(cell, np.zeros((2, SIZE)), *states_of(generator, 2, OUTPUTS))
    for position, source in enumerate(inputs[:24]):
        assert source.value is not None
        wrong = list(inputs)
        for axis in range(source.value.ndim):
            value = np.repeat(source.value, 2, axis=axis)
            operand = source.operand
            wrong[position] = given(operand.type, value, operand.scale, operand.zero_point)
            with pytest.raises(BadData, match=r"operand \d+ \(\w+ of QUANTIZED_LSTM\) has shape"):
                check(LSTM8, wrong, *results_wanted())


def test_levels() -> None:
    generator = np.random.default_rng(11)
    cell = random_cell(generator, coupled=False, peephole=False, projection=0, norm=False)
    inputs = arguments(cell, np.zeros((1, SIZE)), *states_of(generator, 1, UNITS))
    assert level_of(LSTM8, inputs, *results_wanted()) == FeatureLevel.LEVEL_4
    inputs = arguments16(*random_16bit(generator, 1, 2, 3))
    assert level_of(LSTM16, inputs, *wanted16()) == FeatureLevel.LEVEL_3


WEIGHT16, ZERO16 = 1 / 200, 120
CELL16 = 2.0**-11
#: Weights of all gates (input, then recurrent), biases, input, cell state, output state.
Operands16 = tuple[list[Array], list[Array], Array, Array, Array]


def random_16bit(generator: np.random.Generator, batch: int, size: int, units: int) -> Operands16:
    return (
        [generator.integers(0, 256, (units, columns)) for columns in [size] * 4 + [units] * 4],
        [generator.integers(-9000, 9000, units) for _ in GATES],
        generator.integers(0, 256, (batch, size)),
        generator.integers(-4000, 4000, (batch, units)),
        generator.integers(0, 256, (batch, units)),
    )


def arguments16(
    weights: list[Array], biases: list[Array], values: Array, cell_state: Array, output_state: Array
) -> list[Given]:
    return [
        given(UNSIGNED8, values, 1 / 128, 128),
        *(given(UNSIGNED8, matrix, WEIGHT16, ZERO16) for matrix in weights),
        *(given(INT32, bias, WEIGHT16 / 128) for bias in biases),
        given(SYMMETRIC16, cell_state, CELL16),
        given(UNSIGNED8, output_state, 1 / 128, 128),
    ]


def wanted16() -> list[Operand]:
    return [wanted(SYMMETRIC16, CELL16, rank=2), wanted(UNSIGNED8, 1 / 128, 128, rank=2)]


@sweep(("batch", "size", "units"), [(2, 2, 4), (1, 5, 3), (3, 1, 1), (0, 2, 3)])
def test_16_bits(batch: int, size: int, units: int) -> None:
    generator = np.random.default_rng(12)
    operands = random_16bit(generator, batch, size, units)
    weights, biases, values, cell_state, output_state = operands
    state, output = evaluate_all(LSTM16, arguments16(*operands), *wanted16())
    factor = multiplier(single(WEIGHT16 / 128) * 4096)

    def gate(kind: int, row: int, unit: int) -> int:
        # Weights are concatenated as (recurrent, input), values as (input, output).
        columns = [*weights[4 + kind][unit].tolist(), *weights[kind][unit].tolist()]
        joined = [*values[row].tolist(), *output_state[row].tolist()]
        products = ((v - 128) * (w - ZERO16) for v, w in zip(joined, columns, strict=True))
        return cut(times(int(biases[kind][unit]) + sum(products), *factor), "int16")

    def sigmoid(value: int) -> int:
        return int(sigmoid16(np.array([value]))[0])

    def tanh(value: int) -> int:
        return int(tanh16(np.array([value]), 3)[0])

    def product(first: int, second: int) -> int:
        return (first * second + (1 << 14)) // (1 << 15)

    for row, unit in np.ndindex(batch, units):
        admit, forget, candidate, emit = (gate(kind, row, unit) for kind in range(4))
        new = away_from_zero(Fraction(product(sigmoid(admit), tanh(candidate)), 16))
        kept = product(sigmoid(forget), int(cell_state[row, unit]))
        following = cut(new + kept, "int16")
        result = product(sigmoid(emit), tanh(cut(2 * following, "int16")))
        assert state[row, unit] == following
        assert output[row, unit] == cut(away_from_zero(Fraction(result, 256)), "int8") + 128


def test_16_bits_are_close_to_the_float_cell() -> None:
    generator = np.random.default_rng(13)
    size = units = 3
    weights, biases, values, cell_state, output_state = random_16bit(generator, 2, size, units)
    state, output = evaluate_all(
        LSTM16, arguments16(weights, biases, values, cell_state, output_state), *wanted16()
    )
    cell: Cell = dict.fromkeys((*CELL_NAMES, *NORM_NAMES))
    for kind, gate in enumerate(GATES):
        # With as many inputs as units, the two matrices are just exchanged.
        cell[f"input_to_{gate}_weights"] = (weights[4 + kind] - ZERO16) * WEIGHT16
        cell[f"recurrent_to_{gate}_weights"] = (weights[kind] - ZERO16) * WEIGHT16
        cell[f"{gate}_gate_bias"] = biases[kind] * (WEIGHT16 / 128)
    expected = lstm_sequence(
        cell, ((values - 128) / 128)[np.newaxis], (output_state - 128) / 128, cell_state * CELL16
    )
    np.testing.assert_allclose(state * CELL16, expected[2], atol=0.005)
    np.testing.assert_allclose(output, np.clip(expected[1] * 128, -128, 127) + 128, atol=1.2)


@sweep(
    ("position", "scale", "zero_point", "message"),
    [
        (0, 1 / 127, 128, r"operand 0 \(input of QUANTIZED_16BIT_LSTM\) has scale .*; 0\.0078125 and 128"),
        (0, 1 / 128, 127, "operand 0 .* zero point 127"),
        (3, WEIGHT16, ZERO16 + 1, r"operand 3 \(input_to_cell_weights .* zero point 121; 0\.005 and 120"),
        (8, WEIGHT16 * 1.1, ZERO16, r"operand 8 \(recurrent_to_output_weights .* has scale 0\.0055"),
        (10, WEIGHT16 / 127, 0, r"operand 10 \(forget_gate_bias .* 3\.90625e-05 and 0"),
        (13, 2.0**-12, 0, r"operand 13 \(cell_state_in .* has scale 0\.00024.*; 2\^-11 is expected"),
        (13, 0.0005, 0, r"operand 13 .* has scale 0\.0005; 2\^-11 is expected"),
        (14, 1 / 64, 128, r"operand 14 \(output_state_in .* has scale 0\.015625"),
    ],
)
def test_16_bits_refuse_scales(position: int, scale: float, zero_point: int, message: str) -> None:
    inputs = arguments16(*random_16bit(np.random.default_rng(14), 2, 2, 3))
    source = inputs[position]
    inputs[position] = given(source.operand.type, source.value, scale, zero_point)
    with pytest.raises(BadData, match=message):
        check(LSTM16, inputs, *wanted16())


@sweep(
    ("outputs", "message"),
    [
        ([wanted(SYMMETRIC16, 2.0**-12, rank=2), wanted16()[1]], r"\(cell_state_out .* 0\.000488281 and 0"),
        ([wanted16()[0], wanted(UNSIGNED8, 1 / 128, 0, rank=2)], r"\(output of .* zero point 0; 0\.0078125"),
    ],
)
def test_16_bits_refuse_scales_of_outputs(outputs: list[Operand], message: str) -> None:
    inputs = arguments16(*random_16bit(np.random.default_rng(15), 2, 2, 3))
    with pytest.raises(BadData, match=message):
        check(LSTM16, inputs, *outputs)


def test_16_bits_refuse_shapes() -> None:
    inputs = arguments16(*random_16bit(np.random.default_rng(16), 2, 2, 3))
    for position, source in enumerate(inputs):
        assert source.value is not None
        operand = source.operand
        for axis in range(source.value.ndim):
            wrong = list(inputs)
            value = np.repeat(source.value, 2, axis=axis)
            wrong[position] = given(operand.type, value, operand.scale, operand.zero_point)
            with pytest.raises(BadData, match=r"operand \d+ \(\w+ of QUANTIZED_16BIT_LSTM\) has shape"):
                check(LSTM16, wrong, *wanted16())
        wrong[position] = omitted(operand.type)
        with pytest.raises(BadData, match=rf"operand {position} .* is omitted; it is not optional"):
            check(LSTM16, wrong, *wanted16())
