import numpy as np
import pytest
from support.operations.single_operation import (
    Given,
    call_of,
    evaluate,
    given,
    level_of,
    scalars,
    unknown,
    wanted,
)
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
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.convolution import convolution
from neurald.hal.operations.machinery.call import UnknownValue
from neurald.hal.records import replace

CONV_2D = OperationType.CONV_2D


@sweep("seed", range(20))
@sweep("types", TYPES, ids=lambda t: f"{t[0].name}-{t[1].name}")
def test_against_the_definition(types: tuple[OperandType, OperandType], seed: int) -> None:
    case = random_case(np.random.default_rng(seed), types)
    assert_as_expected(case, evaluate(CONV_2D, case.inputs, case.output))


@sweep("types", TYPES, ids=lambda t: f"{t[0].name}-{t[1].name}")
def test_no_images(types: tuple[OperandType, OperandType]) -> None:
    case = random_case(np.random.default_rng(1), types, shape=(0, 5, 4, 2))
    result = evaluate(CONV_2D, case.inputs, case.output)
    assert result.shape == case.expected().shape
    assert result.size == 0


@sweep("limit", [1, 60, 200, 1000])
@sweep("types", TYPES, ids=lambda t: f"{t[0].name}-{t[1].name}")
def test_the_block_size_does_not_change_results(
    types: tuple[OperandType, OperandType], limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(convolution, "_BLOCK", limit)
    case = random_case(np.random.default_rng(limit), types, shape=(3, 7, 6, 2))
    assert_as_expected(case, evaluate(CONV_2D, case.inputs, case.output))


@sweep("depth", [1024, 1100, 9001])
@sweep("extreme", [-128, 127])
def test_sums_too_large_for_float32_are_exact(depth: int, extreme: int) -> None:
    """Products that differ by one are visible only in exact sums."""
    generator = np.random.default_rng(depth)
    values = np.full((1, 2, 2, depth), extreme)
    filter_ = np.full((3, 1, 1, depth), -128)
    values[..., ::97], filter_[..., ::53] = 1, generator.integers(-3, 3, filter_[..., ::53].shape)
    sums = values.reshape(4, depth) @ filter_.reshape(3, depth).T
    middle = int(sums[0, 0])
    for offset in (-1, 0, 1):
        # A multiplier of 1 shows the sums themselves, once the bias has brought them into range.
        result = evaluate(
            CONV_2D,
            (
                given(SIGNED, values, 1.0),
                given(SIGNED, filter_, 1.0),
                given(INT32, [offset - middle] * 3, 1.0),
                *scalars(VALID, 1, 1, 0),
            ),
            wanted(SIGNED, 1.0),
        )
        expected = np.clip(sums - middle + offset, -128, 127).reshape(1, 2, 2, 3)
        np.testing.assert_array_equal(result, expected)


def test_floats_may_overflow_and_be_infinite() -> None:
    values = given(FLOAT32, np.array([3e38, np.inf, 1.0, np.nan]).reshape(1, 2, 2, 1))
    filter_, bias = given(FLOAT32, np.full((1, 1, 1, 1), 10.0)), given(FLOAT32, [1.0])
    result = evaluate(CONV_2D, (values, filter_, bias, *scalars(VALID, 1, 1, 0)), wanted(FLOAT32))
    np.testing.assert_array_equal(result.ravel(), [np.inf, np.inf, 11.0, np.nan])


def test_float16_is_rounded_once() -> None:
    """Sums of ones in float16 would stop at 2048."""
    values, filter_ = np.ones((1, 1, 1, 4096)), np.ones((1, 1, 1, 4096))
    result = evaluate(
        CONV_2D,
        (given(FLOAT16, values), given(FLOAT16, filter_), given(FLOAT16, [3.0]), *scalars(SAME, 1, 1, 0)),
        wanted(FLOAT16),
    )
    assert result.item() == 4100


def floats(shape: tuple[int, ...] = (1, 5, 5, 2)) -> list[Given]:
    return [given(FLOAT32, np.ones(shape)), given(FLOAT32, np.ones((3, 2, 2, 2))), given(FLOAT32, np.ones(3))]


def quantized(
    operand_type: OperandType = QUANT8, filter_type: OperandType = QUANT8, channel_dimension: int = 0
) -> list[Given]:
    per_channel = filter_type is PER_CHANNEL
    quant = ChannelQuant(dimension=channel_dimension, scales=(0.5, 0.25, 0.125)) if per_channel else None
    return [
        given(operand_type, np.ones((1, 5, 5, 2)), 0.5, 1),
        given(filter_type, np.ones((3, 2, 2, 2)), 0.0 if per_channel else 0.25, channel_quant=quant),
        given(INT32, np.ones(3), 0.0 if per_channel else 0.125),
    ]


EXPLICIT = (0, 0, 0, 0, 1, 1, 0)
IMPLICIT = (SAME, 1, 1, 0)


@sweep("tail", [(), (True,), (False,), (False, 1, 2)])
@sweep("parameters", [EXPLICIT, IMPLICIT])
def test_every_number_of_inputs(parameters: tuple[int, ...], tail: tuple[int, ...]) -> None:
    inputs = [*floats((1, 2, 5, 5) if tail == (True,) else (1, 5, 5, 2)), *scalars(*parameters, *tail)]
    assert len(inputs) in (7, 8, 10, 11, 13)
    evaluate(CONV_2D, inputs, wanted(FLOAT32))
    expected = FeatureLevel.LEVEL_3 if tail else FeatureLevel.LEVEL_1
    assert level_of(CONV_2D, inputs, wanted(FLOAT32)) == expected


@sweep(
    ("inputs", "output", "level"),
    [
        (floats(), wanted(FLOAT32), FeatureLevel.LEVEL_1),
        (quantized(), wanted(QUANT8, 0.126), FeatureLevel.LEVEL_1),
        (quantized(), wanted(QUANT8, 0.125), FeatureLevel.LEVEL_3),
        (quantized(), wanted(QUANT8, 0.01), FeatureLevel.LEVEL_3),
        (quantized(QUANT8, PER_CHANNEL), wanted(QUANT8, 0.9), FeatureLevel.LEVEL_3),
        (quantized(SIGNED, SIGNED), wanted(SIGNED, 0.9), FeatureLevel.LEVEL_4),
        (quantized(SIGNED, PER_CHANNEL), wanted(SIGNED, 0.9), FeatureLevel.LEVEL_4),
    ],
)
def test_levels(inputs: list[Given], output: Operand, level: FeatureLevel) -> None:
    assert level_of(CONV_2D, [*inputs, *scalars(*EXPLICIT)], output) == level


@sweep(
    ("parameters", "message"),
    [
        ((-1, 0, 0, 0, 1, 1, 0), r"operand 3 \(padding_left of CONV_2D\) is -1; it must be from 0 to 1"),
        ((0, 2, 0, 0, 1, 1, 0), r"padding_right of CONV_2D\) is 2; it must be from 0 to 1"),
        ((0, 0, 7, 0, 1, 1, 0), r"padding_top of CONV_2D\) is 7"),
        ((0, 0, 0, -9, 1, 1, 0), r"padding_bottom of CONV_2D\) is -9"),
        ((0, 0, 0, 0, 0, 1, 0), r"operand 7 \(stride_width of CONV_2D\) is 0; it must be at least 1"),
        ((0, 0, 0, 0, 1, -2, 0), r"stride_height of CONV_2D\) is -2"),
        ((0, 0, 0, 0, 1, 1, 4), r"activation of CONV_2D\) is 4"),
        ((0, 0, 0, 0, 1, 1, 0, False, 0, 1), r"dilation_width of CONV_2D\) is 0; it must be at least 1"),
        ((0, 0, 0, 0, 1, 1, 0, False, 1, -1), r"dilation_height of CONV_2D\) is -1"),
        ((0, 0, 0, 0, 1, 1, 0, False, 1, 5), "a window of height 6 does not fit on an image of height 5"),
        ((0, 3, 0, 0, 1, 1, 0, False, 8, 1), "window of width 9 .* of width 5 with padding 0 and 3"),
        ((0, 1, 1, 0), r"padding_scheme of CONV_2D\) is 0; 1 \(SAME\) or 2 \(VALID\)"),
        ((SAME, 0, 1, 0), r"stride_width of CONV_2D\) is 0"),
        ((SAME, 1, 1, 0, False, 1), "CONV_2D has 9 inputs and 1 output; 7, 8, 10, 11 or 13 inputs"),
        ((0, 0, 0, 0, 1, 1, 0, False, 1), "CONV_2D has 12 inputs"),
        ((SAME, 1, 1, 0, 0), r"operand 7 \(nchw of CONV_2D\) has type INT32; BOOL is expected"),
        ((SAME, 1, 1, 0, True), "filter of CONV_2D. has depth 2 and operand 0 .input of CONV_2D. has 5"),
    ],
)
def test_bad_parameters(parameters: tuple[int, ...], message: str) -> None:
    with pytest.raises(BadData, match=message):
        evaluate(CONV_2D, [*floats(), *scalars(*parameters)], wanted(FLOAT32))


def test_a_window_that_does_not_fit_has_no_positions() -> None:
    """This holds with implicit padding only."""
    for shape, parameters, result in (
        ((1, 0, 5, 2), (SAME, 1, 1, 0), (1, 0, 5, 3)),
        ((1, 5, 1, 2), (VALID, 1, 1, 0), (1, 4, 0, 3)),
    ):
        assert (
            evaluate(OperationType.CONV_2D, [*floats(shape), *scalars(*parameters)], wanted(FLOAT32)).shape
            == result
        )


def replaced(inputs: list[Given], index: int, source: Given) -> list[Given]:
    return [*inputs[:index], source, *inputs[index + 1 :]]


@sweep(
    ("inputs", "message"),
    [
        (floats((1, 5, 5, 3)), "has depth 2 and operand 0 .* has 3; the same depth"),
        (floats((1, 0, 5, 2)), "CONV_2D: the height of the image is 0; it must be at least 1"),
        (floats((1, 5, 0, 2)), "the width of the image is 0"),
        (floats((5, 5, 2)), r"operand 0 \(input of CONV_2D\) has rank 3; rank 4 is expected"),
        (replaced(floats(), 1, given(FLOAT32, np.ones((3, 0, 2, 2)))), "the height of the window is 0"),
        (replaced(floats(), 1, given(FLOAT32, np.ones((0, 2, 2, 2)))), "has 0 output channels; at least 1"),
        (replaced(floats((1, 5, 5, 0)), 1, given(FLOAT32, np.ones((3, 2, 2, 0)))), "same depth, at least 1"),
        (replaced(floats(), 2, given(FLOAT32, np.ones(4))), r"bias of CONV_2D\) has shape \[4\]; \[3\]"),
        (replaced(floats(), 2, given(FLOAT16, np.ones(3))), "bias of CONV_2D. has type TENSOR_FLOAT16"),
        (replaced(floats(), 1, given(QUANT8, np.ones((3, 2, 2, 2)), 1.0)), "has type TENSOR_QUANT8_ASYMM"),
        (replaced(quantized(), 1, quantized(SIGNED, SIGNED)[1]), "has type TENSOR_QUANT8_ASYMM_SIGNED"),
        (replaced(quantized(), 2, given(INT32, np.ones(3), 0.1251)), "has scale 0.1251; 0.125, the product"),
        (replaced(quantized(), 2, given(INT32, np.ones(3), 0.0)), "has scale 0; 0.125, the product"),
        (replaced(quantized(), 2, given(INT32, np.ones(3), 0.125, 1)), "has zero point 1; 0 is expected"),
        (
            replaced(quantized(QUANT8, PER_CHANNEL), 2, given(INT32, np.ones(3), 0.125)),
            "has scale 0.125; 0 is expected with a filter per channel",
        ),
        (quantized(QUANT8, PER_CHANNEL, 3), "has its channels along dimension 3; 0 is expected"),
        (
            replaced(
                quantized(QUANT8, PER_CHANNEL),
                1,
                given(
                    PER_CHANNEL,
                    np.ones((3, 2, 2, 2)),
                    channel_quant=ChannelQuant(dimension=0, scales=(1.0, 1.0)),
                ),
            ),
            "has 2 scales; one for each of its 3 channels",
        ),
        (
            replaced(quantized(QUANT8, PER_CHANNEL), 1, given(PER_CHANNEL, np.ones((3, 2, 2, 2)))),
            "has no scales; one for each channel",
        ),
    ],
)
def test_bad_tensors(inputs: list[Given], message: str) -> None:
    operand_type = inputs[0].operand.type
    scale = 0.0 if operand_type is FLOAT32 else 1.0
    with pytest.raises(BadData, match=message):
        evaluate(CONV_2D, [*inputs, *scalars(*EXPLICIT)], wanted(operand_type, scale))


def test_the_bias_scale_has_a_tolerance() -> None:
    inputs = replaced(quantized(), 2, given(INT32, np.ones(3), 0.125 * (1 + 5e-7)))
    evaluate(CONV_2D, [*inputs, *scalars(*EXPLICIT)], wanted(QUANT8, 1.0))


@sweep("index", [0, 1, 2, 3])
def test_the_shape_is_unknown_without_its_arguments(index: int) -> None:
    inputs = [*floats(), *scalars(*IMPLICIT)]
    source = inputs[index]
    hidden = Given(operand=source.operand, value=None) if index > 2 else unknown(source)
    call = call_of(CONV_2D, replaced(inputs, index, hidden), wanted(FLOAT32))
    DEFINITIONS[CONV_2D].check(call)
    with pytest.raises(UnknownValue):
        DEFINITIONS[CONV_2D].shape(call)


def test_a_wrong_rank_at_execution_is_refused() -> None:
    inputs = [*floats(), *scalars(*IMPLICIT)]
    late = Given(operand=replace(inputs[0].operand, dimensions=None), value=np.ones((5, 2), np.float32))
    with pytest.raises(BadData, match=r"operand 0 \(input of CONV_2D\) has rank 2; rank 4 is expected"):
        evaluate(CONV_2D, replaced(inputs, 0, late), wanted(FLOAT32))


def test_large_dilations_need_no_time() -> None:
    wide = 1 << 30
    values = np.arange(1.0, 5.0).reshape(1, 1, 4, 1)
    inputs = [given(FLOAT32, values), given(FLOAT32, [[[[2.0], [3.0]]]]), given(FLOAT32, [0.5])]
    parameters = (wide, 0, 0, 0, wide + 4, 1, 0, False, wide, 1)
    result = evaluate(CONV_2D, [*inputs, *scalars(*parameters)], wanted(FLOAT32))
    assert result.tolist() == [[[[3.5]]]]
