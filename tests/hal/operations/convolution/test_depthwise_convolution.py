import numpy as np
import pytest
from support.operations.single_operation import Given, evaluate, given, level_of, scalars, wanted
from support.operations.weighted_sums import (
    FLOAT16,
    FLOAT32,
    INT32,
    PER_CHANNEL,
    QUANT8,
    SAME,
    SIGNED,
    TYPES,
    VALID,
    assert_as_expected,
    random_case,
)
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.graph import ChannelQuant, Operand
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.convolution import depthwise_convolution

DEPTHWISE = OperationType.DEPTHWISE_CONV_2D


@sweep("multiplier", [1, 2, 3])
@sweep("seed", range(8))
@sweep("types", TYPES, ids=lambda t: f"{t[0].name}-{t[1].name}")
def test_against_the_definition(types: tuple[OperandType, OperandType], seed: int, multiplier: int) -> None:
    case = random_case(np.random.default_rng(seed), types, depth_multiplier=multiplier)
    assert_as_expected(case, evaluate(DEPTHWISE, case.inputs, case.output))


@sweep("types", TYPES, ids=lambda t: f"{t[0].name}-{t[1].name}")
def test_no_images(types: tuple[OperandType, OperandType]) -> None:
    case = random_case(np.random.default_rng(1), types, shape=(0, 5, 4, 2), depth_multiplier=2)
    result = evaluate(DEPTHWISE, case.inputs, case.output)
    assert result.shape == case.expected().shape
    assert result.size == 0


@sweep("limit", [1, 12, 100, 300])
@sweep("types", TYPES, ids=lambda t: f"{t[0].name}-{t[1].name}")
def test_the_block_size_does_not_change_results(
    types: tuple[OperandType, OperandType], limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(depthwise_convolution, "_BLOCK", limit)
    case = random_case(np.random.default_rng(limit), types, shape=(3, 7, 6, 2), depth_multiplier=2)
    assert_as_expected(case, evaluate(DEPTHWISE, case.inputs, case.output))


def test_sums_too_large_for_float32_are_exact() -> None:
    """Products that differ by one are visible only in exact sums over the whole image."""
    size = 23
    values, filter_ = np.full((1, size, size, 1), 255), np.full((1, size, size, 1), 255)
    values[0, 3, ::4], filter_[0, ::3, 5] = 1, 2
    total = int((values * filter_).sum())
    assert total > 1 << 24
    for offset in (-1, 0, 1):
        result = evaluate(
            DEPTHWISE,
            (
                given(QUANT8, values, 1.0),
                given(QUANT8, filter_, 1.0),
                given(INT32, [100 + offset - total], 1.0),
                *scalars(VALID, 1, 1, 1, 0),
            ),
            wanted(QUANT8, 1.0),
        )
        assert result.item() == 100 + offset


def floats(
    shape: tuple[int, ...] = (1, 5, 5, 2), filter_shape: tuple[int, ...] = (1, 2, 2, 4)
) -> list[Given]:
    return [
        given(FLOAT32, np.ones(shape)),
        given(FLOAT32, np.ones(filter_shape)),
        given(FLOAT32, np.ones(filter_shape[-1])),
    ]


def quantized(
    operand_type: OperandType = QUANT8, filter_type: OperandType = QUANT8, channel_dimension: int = 3
) -> list[Given]:
    per_channel = filter_type is PER_CHANNEL
    quant = ChannelQuant(dimension=channel_dimension, scales=(0.5, 0.25, 0.125, 1.0)) if per_channel else None
    return [
        given(operand_type, np.ones((1, 5, 5, 2)), 0.5, 1),
        given(filter_type, np.ones((1, 2, 2, 4)), 0.0 if per_channel else 0.25, channel_quant=quant),
        given(INT32, np.ones(4), 0.0 if per_channel else 0.125),
    ]


EXPLICIT = (0, 0, 0, 0, 1, 1, 2, 0)
IMPLICIT = (SAME, 1, 1, 2, 0)


@sweep("tail", [(), (True,), (False,), (False, 1, 2)])
@sweep("parameters", [EXPLICIT, IMPLICIT])
def test_every_number_of_inputs(parameters: tuple[int, ...], tail: tuple[int, ...]) -> None:
    inputs = [*floats((1, 2, 5, 5) if tail == (True,) else (1, 5, 5, 2)), *scalars(*parameters, *tail)]
    assert len(inputs) in (8, 9, 11, 12, 14)
    evaluate(DEPTHWISE, inputs, wanted(FLOAT32))
    expected = FeatureLevel.LEVEL_3 if tail else FeatureLevel.LEVEL_1
    assert level_of(DEPTHWISE, inputs, wanted(FLOAT32)) == expected


@sweep(
    ("inputs", "output", "level"),
    [
        (quantized(), wanted(QUANT8, 0.126), FeatureLevel.LEVEL_1),
        (quantized(), wanted(QUANT8, 0.125), FeatureLevel.LEVEL_3),
        (quantized(QUANT8, PER_CHANNEL), wanted(QUANT8, 0.9), FeatureLevel.LEVEL_3),
        (quantized(SIGNED, SIGNED), wanted(SIGNED, 0.9), FeatureLevel.LEVEL_4),
        (quantized(SIGNED, PER_CHANNEL), wanted(SIGNED, 0.9), FeatureLevel.LEVEL_4),
    ],
)
def test_levels(inputs: list[Given], output: Operand, level: FeatureLevel) -> None:
    assert level_of(DEPTHWISE, [*inputs, *scalars(*EXPLICIT)], output) == level


@sweep(
    ("parameters", "message"),
    [
        ((0, 0, 0, 0, 1, 1, 0, 0), r"operand 9 \(depth_multiplier of .*\) is 0; it must be at least 1"),
        ((0, 0, 0, 0, 1, 1, 3, 0), "has 4 output channels; 6, the input's depth 2 times .* multiplier 3"),
        ((0, 0, 0, 0, 1, 1, 2, 5), "activation of DEPTHWISE_CONV_2D. is 5"),
        ((0, 0, 2, 0, 1, 1, 2, 0), "padding_top of DEPTHWISE_CONV_2D. is 2; it must be from 0 to 1"),
        ((0, 0, 0, 0, 1, 0, 2, 0), "stride_height of DEPTHWISE_CONV_2D. is 0"),
        ((3, 1, 1, 2, 0), "padding_scheme of DEPTHWISE_CONV_2D. is 3"),
        ((0, 0, 0, 0, 1, 1, 2, 0, False, 5, 1), "a window of width 6 does not fit on an image of width 5"),
        ((SAME, 1, 1, 2, 0, False, 0, 1), "dilation_width of DEPTHWISE_CONV_2D. is 0"),
        ((SAME, 1, 1, 2, 0, False, 1), "has 10 inputs and 1 output; 8, 9, 11, 12 or 14 inputs"),
    ],
)
def test_bad_parameters(parameters: tuple[int, ...], message: str) -> None:
    with pytest.raises(BadData, match=message):
        evaluate(DEPTHWISE, [*floats(), *scalars(*parameters)], wanted(FLOAT32))


@sweep(
    ("inputs", "message"),
    [
        (floats(filter_shape=(2, 2, 2, 4)), "filter of .* has a first dimension of 2; 1 is expected"),
        (floats((1, 5, 5, 3)), "has 4 output channels; 6, the input's depth 3"),
        (floats((1, 5, 5, 0), (1, 2, 2, 0)), "has 0 output channels; at least 1 is expected"),
        (floats((1, 0, 5, 2)), "the height of the image is 0"),
        (floats(filter_shape=(1, 2, 0, 4)), "the width of the window is 0"),
        (floats((1, 5, 5)), "has rank 3; rank 4 is expected"),
        ([*floats()[:2], given(FLOAT32, np.ones(2))], r"bias of .* has shape \[2\]; \[4\]"),
        ([*floats()[:2], given(FLOAT16, np.ones(4))], "bias of .* has type TENSOR_FLOAT16"),
        ([*quantized()[:2], given(INT32, np.ones(4), 0.5)], "has scale 0.5; 0.125, the product"),
        (quantized(QUANT8, PER_CHANNEL, 0), "has its channels along dimension 0; 3 is expected"),
        (
            [
                quantized()[0],
                given(
                    PER_CHANNEL,
                    np.ones((1, 2, 2, 4)),
                    channel_quant=ChannelQuant(dimension=3, scales=(1.0, 1.0)),
                ),
                given(INT32, np.ones(4)),
            ],
            "has 2 scales; one for each of its 4 channels",
        ),
    ],
)
def test_bad_tensors(inputs: list[Given], message: str) -> None:
    operand_type = inputs[0].operand.type
    scale = 0.0 if operand_type is FLOAT32 else 1.0
    with pytest.raises(BadData, match=message):
        evaluate(DEPTHWISE, [*inputs, *scalars(*EXPLICIT)], wanted(operand_type, scale))


def test_large_dilations_need_no_time() -> None:
    wide = 1 << 30
    values = np.arange(1.0, 5.0).reshape(1, 1, 4, 1)
    inputs = [given(FLOAT32, values), given(FLOAT32, [[[[2.0], [3.0]]]]), given(FLOAT32, [0.5])]
    parameters = (wide, 0, 0, 0, wide + 4, 1, 1, 0, False, wide, 1)
    result = evaluate(DEPTHWISE, [*inputs, *scalars(*parameters)], wanted(FLOAT32))
    assert result.tolist() == [[[[3.5]]]]
