import itertools
import math
from typing import Any

import numpy as np
import pytest
from support.operations.random_tensors import value
from support.operations.single_operation import (
    Given,
    call_of,
    evaluate,
    given,
    ints,
    level_of,
    scalars,
    unknown,
    wanted,
)
from support.operations.weighted_sums import (
    FLOAT16,
    FLOAT32,
    PER_CHANNEL,
    QUANT8,
    SAME,
    TYPES,
    VALID,
    Case,
    multiplied,
    multiplier,
    random_case,
    stored_bounds,
)
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.graph import ChannelQuant
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array, UnknownValue

TRANSPOSE = OperationType.TRANSPOSE_CONV_2D
IDS = [f"{data.name}-{weights.name}" for data, weights in TYPES]
_BOUNDS = {0: (-math.inf, math.inf), 1: (0.0, math.inf), 2: (-1.0, 1.0), 3: (0.0, 6.0)}


def expected(case: Case, stride: tuple[int, int], heads: tuple[int, int], size: tuple[int, int]) -> Array:
    """Adds the window of every input element; NHWC, raw integers or float64."""
    values, filter_, bias = (value(each) for each in (case.values, case.filter, case.bias))
    data = values.astype(object) - case.values.operand.zero_point
    weights = filter_.astype(object) - case.filter.operand.zero_point
    sums = np.empty((len(values), *size, len(bias)), object)
    sums[...] = bias.tolist()
    for b, h, w in np.ndindex(values.shape[:3]):
        for y, x in np.ndindex(filter_.shape[1:3]):
            row, column = h * stride[0] + y - heads[0], w * stride[1] + x - heads[1]
            if 0 <= row < size[0] and 0 <= column < size[1]:
                sums[b, row, column] += weights[:, y, x] @ data[b, h, w]
    output = case.output
    result = np.empty(sums.shape, np.int64 if output.scale else np.float64)
    for index in np.ndindex(sums.shape):
        if output.scale:
            low, high = stored_bounds(output, case.activation)
            real = case.values.operand.scale * case.scales[index[3]] / output.scale
            quantized = multiplied(int(sums[index]), *multiplier(real)) + output.zero_point
            result[index] = min(max(quantized, low), high)
        else:
            floor, ceiling = _BOUNDS[case.activation]
            result[index] = min(max(float(sums[index]), floor), ceiling)
    return result


def inputs(case: Case, padding: tuple[Given, ...], stride: tuple[int, int], nchw: bool) -> list[Given]:
    operand, values = case.values.operand, value(case.values)
    in_nchw = np.moveaxis(values, 3, 1) if nchw else values
    return [
        given(operand.type, in_nchw, operand.scale, operand.zero_point),
        case.filter,
        case.bias,
        *padding,
        *scalars(stride[1], stride[0], case.activation, nchw),
    ]


def assert_result(case: Case, result: Array, wanted_result: Array, *, nchw: bool) -> None:
    result = np.moveaxis(result, 1, 3) if nchw else result
    if case.output.scale:
        np.testing.assert_array_equal(result, wanted_result)
    else:
        limit = {FLOAT32: 1e-5, FLOAT16: 2.0**-10}[case.output.type]
        np.testing.assert_allclose(result, wanted_result, rtol=limit, atol=limit / 10)


def random_strides(generator: np.random.Generator) -> tuple[int, int]:
    return int(generator.integers(1, 5)), int(generator.integers(1, 5))


@sweep("seed", range(12))
@sweep("types", TYPES, ids=IDS)
def test_explicit_padding(types: tuple[OperandType, OperandType], seed: int) -> None:
    """The padding after the image may be negative, and paddings may exceed the window."""
    generator = np.random.default_rng(seed)
    case, stride, nchw = random_case(generator, types), random_strides(generator), bool(seed % 2)
    spans = [
        (n - 1) * s + k
        for n, s, k in zip(value(case.values).shape[1:3], stride, value(case.filter).shape[1:3], strict=True)
    ]
    heads = [int(generator.integers(0, span)) for span in spans]
    tails = [int(generator.integers(-3, span - head)) for span, head in zip(spans, heads, strict=True)]
    padding = scalars(heads[1], tails[1], heads[0], tails[0])
    sizes = [span - head - tail for span, head, tail in zip(spans, heads, tails, strict=True)]
    result = evaluate(TRANSPOSE, inputs(case, padding, stride, nchw), case.output)
    assert_result(case, result, expected(case, stride, (heads[0], heads[1]), (sizes[0], sizes[1])), nchw=nchw)


def implicit(length: int, kernel: int, stride: int, scheme: int) -> list[tuple[int, int]]:
    """Returns the (output length, padding before it) for which CONV_2D has `length` positions."""
    found = []
    for size in range(1, length * stride + kernel + stride):
        if scheme == SAME:
            positions = math.ceil(size / stride)
            head = max(0, (positions - 1) * stride + kernel - size) // 2
        else:
            positions, head = (size - kernel) // stride + 1 if size >= kernel else 0, 0
        if positions == length:
            found.append((size, head))
    return found


@sweep("scheme", [SAME, VALID])
@sweep("seed", range(10))
@sweep("types", TYPES, ids=IDS)
def test_implicit_padding(types: tuple[OperandType, OperandType], seed: int, scheme: int) -> None:
    generator = np.random.default_rng(seed)
    case, stride, nchw = random_case(generator, types), random_strides(generator), bool(seed % 2)
    shape, kernel = value(case.values).shape, value(case.filter).shape
    choices = [implicit(shape[1 + a], kernel[1 + a], stride[a], scheme) for a in (0, 1)]
    (height, top), (width, left) = (choice[int(generator.integers(len(choice)))] for choice in choices)
    target = (shape[0], kernel[0], height, width) if nchw else (shape[0], height, width, kernel[0])
    padding = (ints(*target), *scalars(scheme))
    result = evaluate(TRANSPOSE, inputs(case, padding, stride, nchw), case.output)
    assert result.shape == target
    assert_result(case, result, expected(case, stride, (top, left), (height, width)), nchw=nchw)


@sweep("scheme", [SAME, VALID])
def test_implicit_padding_refuses_impossible_output_shapes(scheme: int) -> None:
    for length, kernel, stride in itertools.product((1, 2, 3), (1, 2, 4), (1, 2, 3)):
        allowed = {size for size, _ in implicit(length, kernel, stride, scheme)}
        for size in range(1, max(allowed) + 3):
            call = call_of(
                TRANSPOSE,
                [
                    given(FLOAT32, np.zeros((1, length, 1, 1))),
                    given(FLOAT32, np.zeros((1, kernel, 1, 1))),
                    given(FLOAT32, [0]),
                    ints(1, size, 1, 1),
                    *scalars(scheme, 1, stride, 0, False),
                ],
                wanted(FLOAT32),
            )
            if size in allowed:
                assert DEFINITIONS[TRANSPOSE].shape(call) == ((1, size, 1, 1),)
            else:
                with pytest.raises(BadData, match=f"output_shape .* has height {size}; {min(allowed)} to "):
                    DEFINITIONS[TRANSPOSE].shape(call)


@sweep("nchw", [False, True])
@sweep("types", TYPES, ids=IDS)
def test_no_images(types: tuple[OperandType, OperandType], nchw: bool) -> None:
    case = random_case(np.random.default_rng(1), types, shape=(0, 2, 3, 2))
    channels, height, width, _ = value(case.filter).shape
    result = evaluate(TRANSPOSE, inputs(case, scalars(0, 0, 0, 0), (2, 2), nchw), case.output)
    size = (2 + height, 4 + width)
    assert result.shape == ((0, channels, *size) if nchw else (0, *size, channels))


def small_inputs(**changes: Any) -> list[Given]:
    values: dict[str, Any] = {
        "values": given(FLOAT32, np.zeros((1, 2, 3, 2))),
        "filter": given(FLOAT32, np.zeros((4, 3, 3, 2))),
        "bias": given(FLOAT32, np.zeros(4)),
        "output_shape": ints(1, 4, 6, 4),
        "scheme": SAME,
        "stride_width": 2,
        "stride_height": 2,
        "activation": 0,
        "nchw": False,
    }
    values.update(changes)
    return [each if isinstance(each, Given) else scalars(each)[0] for each in values.values()]


@sweep(
    ("changes", "message"),
    [
        (
            {"filter": given(FLOAT32, np.zeros((4, 3, 3, 1)))},
            "filter .* has depth 1 and .* has 2; the same depth",
        ),
        ({"bias": given(FLOAT32, np.zeros(3))}, r"bias .* has shape \[3\]; \[4\]"),
        ({"filter": given(FLOAT32, np.zeros((4, 0, 3, 2)))}, "height of the window is 0"),
        ({"values": given(FLOAT32, np.zeros((1, 2, 0, 2)))}, "width of the image is 0"),
        ({"output_shape": ints(4, 6, 4)}, r"output_shape .* has shape \[3\]; \[4\]"),
        ({"output_shape": ints(2, 4, 6, 4)}, r"is \[2, 4, 6, 4\]; 1 images of depth 4 are expected"),
        ({"output_shape": ints(1, 4, 6, 3)}, r"is \[1, 4, 6, 3\]; 1 images of depth 4"),
        ({"output_shape": ints(1, -4, 6, 4)}, "has height -4; 3 to 4"),
        ({"scheme": 3}, "padding_scheme of TRANSPOSE_CONV_2D.* is 3"),
        ({"stride_width": 0}, "stride_width .* is 0; it must be at least 1"),
        ({"activation": 9}, "activation .* is 9"),
    ],
)
def test_refuses(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BadData, match=message):
        evaluate(TRANSPOSE, small_inputs(**changes), wanted(FLOAT32))


@sweep(
    ("padding", "message"),
    [
        ((-1, 0, 0, 0), "padding_left .* is -1; it must be at least 0"),
        ((0, 0, 3, 2), "padding 3 and 2 removes the whole output, whose height without padding is 5"),
        ((0, -(2**31), 0, -(2**31)), r"more than 2\^32 - 1 bytes"),
    ],
)
def test_refuses_padding(padding: tuple[int, int, int, int], message: str) -> None:
    arguments = small_inputs()
    arguments[3:5] = scalars(*padding)
    with pytest.raises(BadData, match=message):
        DEFINITIONS[TRANSPOSE].output_shapes(call_of(TRANSPOSE, arguments, wanted(FLOAT32)))


def test_refuses_channel_dimensions() -> None:
    quant = ChannelQuant(dimension=3, scales=(1.0, 1.0))
    arguments = small_inputs(
        values=given(QUANT8, np.zeros((1, 2, 3, 2)), 1.0),
        filter=given(PER_CHANNEL, np.zeros((4, 3, 3, 2)), channel_quant=quant),
        bias=given(OperandType.TENSOR_INT32, np.zeros(4)),
    )
    with pytest.raises(BadData, match=r"channels along dimension 3; 0 is expected"):
        DEFINITIONS[TRANSPOSE].check(call_of(TRANSPOSE, arguments, wanted(QUANT8, 1.0)))


def test_level_counts_and_unknown_values() -> None:
    arguments = small_inputs()
    assert level_of(TRANSPOSE, arguments, wanted(FLOAT32)) == FeatureLevel.LEVEL_3
    with pytest.raises(BadData, match=r"TRANSPOSE_CONV_2D has 10 inputs and 1 output; 9 or 11 inputs"):
        level_of(TRANSPOSE, [*arguments, *scalars(False)], wanted(FLOAT32))
    arguments[3] = unknown(arguments[3])
    with pytest.raises(UnknownValue):
        DEFINITIONS[TRANSPOSE].shape(call_of(TRANSPOSE, arguments, wanted(FLOAT32)))
