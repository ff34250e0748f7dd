"""Kernels of the first tier give the results of references: integers bit for bit."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from support.cpu.first_tier import TARGETS_HERE, prepared, results

import neurald as nd
from neurald.drivers.cpu.prepared_model import CpuPreparedModel
from neurald.hal.execution.reference_model import ReferenceModel

FLOAT, INT32 = nd.OperandType.TENSOR_FLOAT32, nd.OperandType.TENSOR_INT32
UNSIGNED, SIGNED = nd.OperandType.TENSOR_QUANT8_ASYMM, nd.OperandType.TENSOR_QUANT8_ASYMM_SIGNED
PER_CHANNEL = nd.OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL
Array = np.ndarray[Any, Any]


def values(rng: np.random.Generator, kind: nd.OperandType, shape: Sequence[int]) -> Array:
    if kind is FLOAT:
        return rng.normal(size=shape).astype(np.float32)
    info: Any = np.iinfo(kind.dtype.name)
    return rng.integers(info.min, info.max + 1, shape).astype(kind.dtype)


class _Builder:
    """Builds a model with one input and constants.

    Args:
        seed: of the constants.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.builder = nd.ModelBuilder()

    def operand(self, kind: nd.OperandType, shape: Sequence[int], **more: Any) -> int:
        quantized = kind in (UNSIGNED, SIGNED) and "scale" not in more
        if quantized:
            low = 0 if kind is UNSIGNED else -128
            more |= {
                "scale": float(self.rng.uniform(0.01, 0.2)),
                "zero_point": int(self.rng.integers(low, low + 256)),
            }
        return self.builder.add_operand(kind, shape, **more)

    def constant(self, kind: nd.OperandType, array: Array, **more: Any) -> int:
        index = self.operand(kind, array.shape, **more)
        self.builder.set_operand_value(index, array)
        return index

    def scalar(self, value: int) -> int:
        index = self.builder.add_operand(nd.OperandType.INT32)
        self.builder.set_operand_value(index, value)
        return index

    def weights(
        self, kind: nd.OperandType, filter_: nd.OperandType, shape: Sequence[int], axis: int
    ) -> list[int]:
        """Adds input scale, filter and bias; returns the operands of filter and bias."""
        channels = shape[axis]
        if kind is FLOAT:
            return [
                self.constant(FLOAT, values(self.rng, FLOAT, shape)),
                self.constant(FLOAT, values(self.rng, FLOAT, (channels,))),
            ]
        bias = self.rng.integers(-5000, 5000, channels).astype(np.int32)
        if filter_ is PER_CHANNEL:
            quant = (axis, self.rng.uniform(0.001, 0.01, channels).tolist())
            numbers = self.rng.integers(-127, 128, shape).astype(np.int8)
            return [
                self.constant(PER_CHANNEL, numbers, channel_quant=quant),
                self.constant(INT32, bias, scale=0.0),
            ]
        scale = 0.005
        numbers = values(self.rng, filter_, shape)
        zero_point = int(self.rng.integers(100, 150)) if filter_ is UNSIGNED else 0
        return [
            self.constant(filter_, numbers, scale=scale, zero_point=zero_point),
            self.constant(INT32, bias, scale=self.input_scale * scale),
        ]

    input_scale = 0.05

    def given(self, kind: nd.OperandType, shape: Sequence[int]) -> int:
        if kind is FLOAT:
            return self.operand(FLOAT, shape)
        low = 0 if kind is UNSIGNED else -128
        return self.operand(
            kind, shape, scale=self.input_scale, zero_point=int(self.rng.integers(low, low + 256))
        )

    def model(
        self, operation: nd.OperationType, inputs: list[int], output: int, given: Sequence[int]
    ) -> nd.Model:
        self.builder.add_operation(operation, inputs, [output])
        self.builder.identify_inputs_and_outputs(list(given), [output])
        return self.builder.finish()


def check(model: nd.Model, target: str, seed: int = 0, threads: int = 1, rtol: float = 1e-4) -> None:
    rng = np.random.default_rng(seed)
    kinds = [model.main.operands[index] for index in model.main.inputs]
    inputs = [values(rng, each.type, each.dimensions or ()) for each in kinds]
    found = prepared(model, target, threads)
    assert isinstance(found, CpuPreparedModel), "an operation has no kernel"
    (expected,), (result,) = results(ReferenceModel(model), model, inputs), results(found, model, inputs)
    if result.dtype == np.float32:
        np.testing.assert_allclose(result, expected, rtol=rtol, atol=1e-4)
    else:
        np.testing.assert_array_equal(result, expected)


TYPES = [
    (FLOAT, FLOAT),
    (UNSIGNED, UNSIGNED),
    (SIGNED, SIGNED),
    (SIGNED, PER_CHANNEL),
    (UNSIGNED, PER_CHANNEL),
]
#: Batch, height, width, depth, kernel, channels, strides, dilations, explicit padding, activation.
WINDOWS = [
    ((1, 1, 1, 1), (1, 1), 1, (1, 1), (1, 1), 1, 0),
    ((2, 5, 7, 3), (3, 3), 33, (2, 1), (1, 1), 1, 1),
    ((1, 9, 8, 17), (3, 5), 5, (1, 2), (2, 1), 2, 2),
    ((1, 12, 13, 32), (1, 1), 64, (1, 1), (1, 1), 1, 3),
    ((3, 4, 4, 65), (2, 2), 31, (3, 3), (1, 2), 1, 0),
    ((1, 1, 1, 40), (1, 1), 130, (1, 1), (1, 1), 2, 1),
]


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("kinds", TYPES, ids=lambda kinds: "-".join(each.name for each in kinds))
@pytest.mark.parametrize("window", WINDOWS, ids=range(len(WINDOWS)))
def test_convolutions(target: str, kinds: tuple[nd.OperandType, nd.OperandType], window: Any) -> None:
    shape, kernel, channels, strides, dilations, scheme, activation = window
    for is_depthwise in (False, True):
        build = _Builder(7)
        kind = kinds[0]
        given = build.given(kind, shape)
        if is_depthwise:
            weights = build.weights(kind, kinds[1], (1, *kernel, shape[3]), 3)
            more = [build.scalar(1)]
            operation = nd.OperationType.DEPTHWISE_CONV_2D
        else:
            weights = build.weights(kind, kinds[1], (channels, *kernel, shape[3]), 0)
            more = []
            operation = nd.OperationType.CONV_2D
        lengths = []
        for length, size, stride, dilation in zip(shape[1:3], kernel, strides, dilations, strict=True):
            extent = (size - 1) * dilation + 1
            lengths.append(-(-length // stride) if scheme == 1 else (length - extent) // stride + 1)
        if min(lengths) < 1:
            continue
        outputs = shape[3] if is_depthwise else channels
        scale = {} if kind is FLOAT else {"scale": 0.4}
        if scale:
            scale["zero_point"] = 3
        output = build.operand(kind, (shape[0], *lengths, outputs), **scale)
        layout = build.builder.add_operand(nd.OperandType.BOOL)
        build.builder.set_operand_value(layout, False)
        inputs = [given, *weights, build.scalar(scheme), build.scalar(strides[1]), build.scalar(strides[0])]
        inputs += [*more, build.scalar(activation), layout]
        inputs += [build.scalar(dilations[1]), build.scalar(dilations[0])]
        check(build.model(operation, inputs, output, [given]), target, threads=2)


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("kinds", TYPES[:3], ids=lambda kinds: kinds[0].name)
def test_fully_connected_layers(target: str, kinds: tuple[nd.OperandType, nd.OperandType]) -> None:
    for rows, depth, channels in ((1, 1, 1), (1, 70, 131), (3, 65, 7), (9, 128, 64), (2, 33, 300)):
        build = _Builder(depth)
        given = build.given(kinds[0], (rows, depth))
        weights = build.weights(*kinds, (channels, depth), 0)
        scale = {} if kinds[0] is FLOAT else {"scale": 0.3, "zero_point": 1}
        output = build.operand(kinds[0], (rows, channels), **scale)
        inputs = [given, *weights, build.scalar(0)]
        check(build.model(nd.OperationType.FULLY_CONNECTED, inputs, output, [given]), target)


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("kind", [FLOAT, UNSIGNED, SIGNED], ids=lambda kind: kind.name)
@pytest.mark.parametrize("operation", ["ADD", "SUB", "MUL"])
def test_operations_on_two_values(target: str, kind: nd.OperandType, operation: str) -> None:
    for activation in (0, 1, 3):
        for shape in ((1,), (3, 67), (2, 4099), (2, 1, 2, 5)):
            build = _Builder(activation)
            first = build.given(kind, shape)
            second = build.operand(kind, shape)
            # Products are not finer than the output.
            scale = {} if kind is FLOAT else {"scale": 0.31, "zero_point": 5}
            output = build.operand(kind, shape, **scale)
            model = build.model(
                nd.OperationType[operation],
                [first, second, build.scalar(activation)],
                output,
                [first, second],
            )
            check(model, target, threads=2)


def test_constants_are_repeated() -> None:
    build = _Builder(0)
    first = build.operand(FLOAT, (3, 5))
    row = build.constant(FLOAT, values(build.rng, FLOAT, (5,)))
    output = build.operand(FLOAT, (3, 5))
    model = build.model(nd.OperationType.MUL, [first, row, build.scalar(0)], output, [first])
    for target in TARGETS_HERE:
        check(model, target)


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("operation", ["RELU", "RELU6", "LOGISTIC", "TANH", "HARD_SWISH"])
def test_functions_of_bytes(target: str, operation: str) -> None:
    kind = UNSIGNED if operation == "RELU6" else SIGNED
    scales = {"LOGISTIC": (1 / 256, 0 if kind is UNSIGNED else -128), "TANH": (1 / 128, 0)}
    build = _Builder(3)
    given = build.given(kind, (3, 1371))
    same = {"scale": 0.05, "zero_point": build.builder._operands[given].zero_point}
    scale, zero_point = scales.get(operation, (same["scale"], same["zero_point"]))
    output = build.operand(kind, (3, 1371), scale=scale, zero_point=zero_point)
    check(build.model(nd.OperationType[operation], [given], output, [given]), target)


@pytest.mark.parametrize("kind", [FLOAT, INT32, SIGNED], ids=lambda kind: kind.name)
def test_reshaping_copies(kind: nd.OperandType) -> None:
    build = _Builder(1)
    scale = {"scale": 0.1, "zero_point": 2} if kind is SIGNED else {}
    given = build.operand(kind, (3, 1371), **scale)
    output = build.operand(kind, (1371, 3), **scale)
    shape = build.constant(INT32, np.array([1371, 3], np.int32))
    model = build.model(nd.OperationType.RESHAPE, [given, shape], output, [given])
    array = (np.random.default_rng(0).integers(0, 2, (3, 1371))).astype(kind.dtype)
    for target in TARGETS_HERE:
        found = prepared(model, target)
        assert isinstance(found, CpuPreparedModel)
        np.testing.assert_array_equal(results(found, model, [array])[0], array.reshape(1371, 3))


def test_infinities_and_nan_pass_through_activations() -> None:
    build = _Builder(1)
    given = build.operand(FLOAT, (4,))
    other = build.constant(FLOAT, np.zeros(4, np.float32))
    output = build.operand(FLOAT, (4,))
    model = build.model(nd.OperationType.ADD, [given, other, build.scalar(3)], output, [given])
    array = np.array([np.nan, np.inf, -np.inf, 7], np.float32)
    for target in TARGETS_HERE:
        (found,) = results(prepared(model, target), model, [array])
        np.testing.assert_array_equal(found, np.array([np.nan, 6, 0, 6], np.float32))


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("operation", ["RELU", "RELU1", "RELU6", "LOGISTIC", "TANH", "EXP", "HARD_SWISH"])
def test_functions_of_floats(target: str, operation: str) -> None:
    build = _Builder(3)
    given = build.given(FLOAT, (3, 1371))
    output = build.operand(FLOAT, (3, 1371))
    model = build.model(nd.OperationType[operation], [given], output, [given])
    check(model, target, rtol=1e-5)
    special = np.array([np.nan, np.inf, -np.inf, 0, -0.0, 1e30, -1e30, 90, -90] * 457, np.float32)
    array = special.reshape(3, 1371)
    (expected,) = results(ReferenceModel(model), model, [array])
    (found,) = results(prepared(model, target), model, [array])
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("operation", ["DIV", "ADD", "MUL"])
def test_operands_are_repeated(operation: str) -> None:
    for first, second, shape in (
        ((2, 3, 5), (5,), (2, 3, 5)),
        ((2, 1, 5), (3, 1), (2, 3, 5)),
        ((1,), (4, 4), (4, 4)),
    ):
        build = _Builder(0)
        one, other = build.operand(FLOAT, first), build.operand(FLOAT, second)
        output = build.operand(FLOAT, shape)
        inputs = [one, other, build.scalar(0)]
        check(build.model(nd.OperationType[operation], inputs, output, [one, other]), TARGETS_HERE[0])


def moving_model(operation: str, kind: nd.OperandType) -> nd.Model:
    """Builds a model that moves the elements of (3, 4, 5) values."""
    build = _Builder(0)
    scale = {"scale": 0.1, "zero_point": 7} if kind in (UNSIGNED, SIGNED) else {}
    given = build.operand(kind, (3, 4, 5), **scale)

    def integers(*numbers: Any) -> int:
        return build.constant(INT32, np.array(numbers, np.int32))

    forms: dict[str, Callable[[], tuple[list[int], tuple[int, ...]]]] = {
        "TRANSPOSE": lambda: ([given, integers(2, 0, 1)], (5, 3, 4)),
        "SLICE": lambda: ([given, integers(1, 0, 2), integers(2, 4, 3)], (2, 4, 3)),
        "PAD": lambda: ([given, integers([1, 0], [0, 2], [1, 1])], (4, 6, 7)),
        "TILE": lambda: ([given, integers(1, 2, 2)], (3, 8, 10)),
        "CONCATENATION": lambda: ([given, given, build.scalar(1)], (3, 8, 5)),
    }
    inputs, shape = forms[operation]()
    output = build.operand(kind, shape, **scale)
    return build.model(nd.OperationType[operation], inputs, output, [given])


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("operation", ["TRANSPOSE", "SLICE", "PAD", "TILE", "CONCATENATION"])
def test_movements(target: str, operation: str) -> None:
    for kind in (FLOAT, SIGNED, UNSIGNED):
        check(moving_model(operation, kind), target, threads=2)


def test_concatenations_that_requantise_are_no_movements() -> None:
    build = _Builder(0)
    parts = [build.operand(SIGNED, (2, 3), scale=0.1 * n, zero_point=n) for n in (1, 2)]
    output = build.operand(SIGNED, (2, 6), scale=0.3, zero_point=1)
    model = build.model(nd.OperationType.CONCATENATION, [*parts, build.scalar(1)], output, parts)
    assert isinstance(prepared(model), ReferenceModel)


def test_weights_may_be_computed_from_constants() -> None:
    """Models with 16-bit weights convert them before they are read."""
    build = _Builder(0)
    half = nd.OperandType.TENSOR_FLOAT16
    given = build.operand(FLOAT, (3, 8))
    stored = build.constant(half, build.rng.normal(size=(5, 8)).astype(np.float16))
    weights = build.operand(FLOAT, (5, 8))
    build.builder.add_operation(nd.OperationType.CAST, [stored], [weights])
    bias = build.constant(FLOAT, values(build.rng, FLOAT, (5,)))
    output = build.operand(FLOAT, (3, 5))
    inputs = [given, weights, bias, build.scalar(0)]
    model = build.model(nd.OperationType.FULLY_CONNECTED, inputs, output, [given])
    found = prepared(model)
    assert isinstance(found, ReferenceModel)
    assert found.compiled_operations == {0, 1}
    array = values(build.rng, FLOAT, (3, 8))
    (expected,) = results(ReferenceModel(model), model, [array])
    np.testing.assert_allclose(results(found, model, [array])[0], expected, rtol=1e-5)


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("kind", [FLOAT, UNSIGNED, SIGNED], ids=lambda kind: kind.name)
def test_largest_values(target: str, kind: nd.OperandType) -> None:
    scale = {} if kind is FLOAT else {"scale": 0.05, "zero_point": 3}
    for shape, size, stride, scheme, activation in (
        ((1, 5, 7, 3), 3, 2, 1, 0),
        ((2, 8, 8, 70), 2, 2, 2, 1),
        ((1, 4, 4, 17), 4, 1, 2, 3),
    ):
        build = _Builder(0)
        given = build.operand(kind, shape, **scale)
        lengths = [-(-n // stride) if scheme == 1 else (n - size) // stride + 1 for n in shape[1:3]]
        output = build.operand(kind, (shape[0], *lengths, shape[3]), **scale)
        numbers = (scheme, stride, stride, size, size, activation)
        inputs = [given, *(build.scalar(number) for number in numbers)]
        model = build.model(nd.OperationType.MAX_POOL_2D, inputs, output, [given])
        check(model, target, threads=2)
        if kind is FLOAT:
            array = values(np.random.default_rng(1), kind, shape)
            array[0, 0, 0, 0] = np.nan
            array[0, 1, 1, 1] = -np.inf
            (expected,) = results(ReferenceModel(model), model, [array])
            np.testing.assert_array_equal(results(prepared(model, target), model, [array])[0], expected)


@pytest.mark.parametrize("target", TARGETS_HERE)
def test_slopes(target: str) -> None:
    build = _Builder(0)
    given = build.operand(FLOAT, (2, 5, 7))
    slope = build.constant(FLOAT, values(build.rng, FLOAT, (1, 1, 7)))
    output = build.operand(FLOAT, (2, 5, 7))
    check(build.model(nd.OperationType.PRELU, [given, slope], output, [given]), target)


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (2, 5, 64), (1, 1001)])
def test_softmax_and_means_of_rows(target: str, shape: tuple[int, ...]) -> None:
    build = _Builder(0)
    given, output = build.operand(FLOAT, shape), build.operand(FLOAT, shape)
    beta = build.builder.add_operand(nd.OperandType.FLOAT32)
    build.builder.set_operand_value(beta, 0.7)
    model = build.model(nd.OperationType.SOFTMAX, [given, beta], output, [given])
    check(model, target, threads=2)
    array = values(np.random.default_rng(1), FLOAT, shape)
    for special in (np.nan, np.inf, -np.inf, 1e30):
        array.reshape(-1)[0] = special
        (expected,) = results(ReferenceModel(model), model, [array])
        np.testing.assert_allclose(results(prepared(model, target), model, [array])[0], expected, atol=1e-6)
    build = _Builder(0)
    given, output = build.operand(FLOAT, shape), build.operand(FLOAT, (*shape[:-1], 1))
    inputs = [given, build.constant(INT32, np.array([-1], np.int32)), build.scalar(1)]
    check(build.model(nd.OperationType.MEAN, inputs, output, [given]), target, threads=2)


@pytest.mark.parametrize("kind", [FLOAT, SIGNED], ids=lambda kind: kind.name)
def test_a_layer_without_bias(kind: nd.OperandType) -> None:
    build = _Builder(0)
    given = build.given(kind, (2, 3, 33))
    weights, _ = build.weights(kind, kind, (7, 33), 0)
    no_bias = build.builder.add_operand(FLOAT if kind is FLOAT else INT32, (0,))
    build.builder.set_operand_value(no_bias, None)
    output = build.operand(kind, (2, 3, 7), **({} if kind is FLOAT else {"scale": 0.3, "zero_point": 1}))
    keeps = build.builder.add_operand(nd.OperandType.BOOL)
    build.builder.set_operand_value(keeps, True)
    inputs = [given, weights, no_bias, build.scalar(0), keeps]
    model = build.model(nd.OperationType.TFLITE_FULLY_CONNECTED, inputs, output, [given])
    for target in TARGETS_HERE:
        check(model, target)
