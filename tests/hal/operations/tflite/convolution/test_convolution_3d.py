import numpy as np
import pytest
from support.operations.single_operation import evaluate, given, ints, omitted, scalars, wanted
from support.operations.windows import SAME, VALID, convolution_sums, positions, transposed_sums
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

CONV_3D, TRANSPOSE = OperationType.TFLITE_CONV_3D, OperationType.TFLITE_CONV_3D_TRANSPOSE
FLOAT32 = OperandType.TENSOR_FLOAT32

Steps = tuple[int, int, int]
STEPS: list[tuple[Steps, Steps]] = [
    ((1, 1, 1), (1, 1, 1)),
    ((2, 1, 3), (1, 1, 1)),
    ((1, 2, 1), (2, 1, 2)),
    ((3, 3, 3), (1, 2, 3)),
]


@sweep("scheme", [SAME, VALID])
@sweep(("stride", "dilation"), STEPS)
@sweep("has_bias", [False, True])
def test_both_directions(scheme: int, stride: Steps, dilation: Steps, *, has_bias: bool) -> None:
    generator = np.random.default_rng(1)
    x = generator.standard_normal((2, 5, 6, 7, 3)).astype(np.float32)
    filter_ = generator.standard_normal((2, 3, 2, 3, 4)).astype(np.float32)
    offsets = np.arange(4, dtype=np.float32) if has_bias else np.zeros(4)
    bias = given(FLOAT32, offsets) if has_bias else omitted(FLOAT32)
    tail = scalars(scheme, *stride, *dilation, 1)
    result = evaluate(CONV_3D, (given(FLOAT32, x), given(FLOAT32, filter_), bias, *tail), wanted(FLOAT32))
    sums = convolution_sums(x, filter_, scheme, stride, dilation)
    np.testing.assert_allclose(result, np.maximum(sums + offsets, 0), rtol=1e-4, atol=1e-4)

    lengths = (5, 6, 7)
    counts = tuple(
        positions(scheme, size, (taps - 1) * gap + 1, step)[0]
        for size, taps, gap, step in zip(lengths, (2, 3, 2), dilation, stride, strict=True)
    )
    back = generator.standard_normal((2, *counts, 3)).astype(np.float32)
    transposed_filter = given(FLOAT32, filter_.swapaxes(3, 4))
    inputs = (ints(2, *lengths, 4), given(FLOAT32, back), transposed_filter, bias, *tail)
    result = evaluate(TRANSPOSE, inputs, wanted(FLOAT32))
    sums = transposed_sums(back, filter_, lengths, scheme, stride, dilation)
    np.testing.assert_allclose(result, np.maximum(sums + offsets, 0), rtol=1e-4, atol=1e-4)


def test_no_volumes() -> None:
    inputs = (
        given(FLOAT32, np.zeros((0, 3, 3, 3, 2))),
        given(FLOAT32, np.zeros((1, 1, 1, 2, 4))),
        omitted(FLOAT32),
        *scalars(SAME, 1, 1, 1, 1, 1, 1, 0),
    )
    assert evaluate(CONV_3D, inputs, wanted(FLOAT32)).shape == (0, 3, 3, 3, 4)


@sweep(
    ("shape", "filter_shape", "steps", "positions"),
    [
        ((1, 3, 3, 3, 2), (4, 1, 1, 2, 4), (1, 1, 1, 1, 1, 1), (0, 3, 3)),
        ((1, 3, 3, 3, 2), (1, 2, 1, 2, 4), (1, 1, 1, 1, 9, 1), (3, 0, 3)),
        ((1, 3, 3, 0, 2), (1, 1, 1, 2, 4), (1, 1, 1, 1, 1, 1), (3, 3, 0)),
    ],
)
def test_a_window_that_does_not_fit_has_no_positions(
    shape: tuple[int, ...], filter_shape: tuple[int, ...], steps: tuple[int, ...], positions: tuple[int, ...]
) -> None:
    inputs = (
        given(FLOAT32, np.zeros(shape)),
        given(FLOAT32, np.zeros(filter_shape)),
        omitted(FLOAT32),
        *scalars(VALID, *steps, 0),
    )
    assert evaluate(CONV_3D, inputs, wanted(FLOAT32)).shape == (1, *positions, 4)


@sweep(
    ("shape", "filter_shape", "steps", "message"),
    [
        ((1, 3, 3, 3, 2), (1, 1, 1, 3, 4), (1, 1, 1, 1, 1, 1), "the same number"),
        ((1, 3, 3, 3, 2), (1, 0, 1, 2, 4), (1, 1, 1, 1, 1, 1), "the height of the window is 0"),
        ((1, 3, 3, 3, 2), (1, 1, 1, 2, 4), (0, 1, 1, 1, 1, 1), "stride_depth"),
        ((1, 3, 3, 3, 2), (1, 1, 1, 2, 4), (1, 1, 1, 1, 1, 0), "dilation_width"),
        ((1, 3, 3, 3, 2), (1, 1, 1, 2, 0), (1, 1, 1, 1, 1, 1), "0 output channels"),
    ],
)
def test_refuses_shapes(
    shape: tuple[int, ...], filter_shape: tuple[int, ...], steps: tuple[int, ...], message: str
) -> None:
    inputs = (
        given(FLOAT32, np.zeros(shape)),
        given(FLOAT32, np.zeros(filter_shape)),
        omitted(FLOAT32),
        *scalars(VALID, *steps, 0),
    )
    with pytest.raises(BadData, match=message):
        evaluate(CONV_3D, inputs, wanted(FLOAT32))


@sweep(
    ("target", "message"),
    [
        ((1, 3, 3, 3), r"\[5\] is expected"),
        ((2, 3, 3, 3, 4), "1 volumes of 4 channels"),
        ((1, 4, 3, 3, 4), "for an input of"),
        ((1, -1, 3, 3, 4), "for an input of"),
        ((1, 2**31 - 1, 2**31 - 1, 2**31 - 1, 4), "for an input of"),
    ],
)
def test_refuses_output_shapes(target: tuple[int, ...], message: str) -> None:
    inputs = (
        ints(*target),
        given(FLOAT32, np.zeros((1, 3, 3, 3, 2))),
        given(FLOAT32, np.zeros((1, 1, 1, 4, 2))),
        omitted(FLOAT32),
        *scalars(VALID, 1, 1, 1, 1, 1, 1, 0),
    )
    with pytest.raises(BadData, match=message):
        evaluate(TRANSPOSE, inputs, wanted(FLOAT32))
