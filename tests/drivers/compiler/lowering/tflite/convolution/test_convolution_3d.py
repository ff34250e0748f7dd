import numpy as np
from support.compiler.lowering_beside_reference import close, expect_same
from support.operations.single_operation import given, ints, omitted, scalars, wanted
from support.sweeps import sweep

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

FLOAT = OperandType.TENSOR_FLOAT32
#: Strides and dilations (depth, height, width), and the window.
WINDOWS = (
    ((1, 1, 1), (1, 1, 1), (1, 1, 1)),
    ((1, 1, 1), (1, 1, 1), (2, 3, 3)),
    ((2, 1, 3), (1, 1, 1), (3, 2, 2)),
    ((1, 2, 1), (2, 1, 3), (2, 3, 2)),
    ((2, 1, 1), (1, 2, 1), (3, 2, 1)),
)
#: Few channels, which are copied with their rows, and more.
CHANNELS = (3, 9)
generator = np.random.default_rng(11)


@sweep("channels", CHANNELS)
@sweep("scheme", [1, 2])
@sweep("window", WINDOWS)
def test_convolution(window: tuple[tuple[int, ...], ...], scheme: int, channels: int) -> None:
    strides, dilations, kernel = window
    source = given(FLOAT, generator.normal(0, 1, (2, 5, 6, 7, channels)))
    filter_ = given(FLOAT, generator.normal(0, 1, (*kernel, channels, 4)))
    for bias in (given(FLOAT, generator.normal(0, 1, 4)), omitted(FLOAT)):
        inputs = [source, filter_, bias, *scalars(scheme, *strides, *dilations, 1)]
        for data in ((0,), (0, 1)):
            expect_same(OperationType.TFLITE_CONV_3D, inputs, wanted(FLOAT), data=data, compare=close)


@sweep("scheme", [1, 2])
@sweep("window", WINDOWS)
def test_transposed(window: tuple[tuple[int, ...], ...], scheme: int) -> None:
    strides, dilations, kernel = window
    volume = (5, 6, 7)
    spans = [(taps - 1) * gap + 1 for taps, gap in zip(kernel, dilations, strict=True)]
    image = [
        -(-size // stride) if scheme == 1 else (size - span) // stride + 1
        for size, stride, span in zip(volume, strides, spans, strict=True)
    ]
    source = given(FLOAT, generator.normal(0, 1, (2, *image, 3)))
    filter_ = given(FLOAT, generator.normal(0, 1, (*kernel, 4, 3)))
    numbers = scalars(scheme, *strides, *dilations, 0)
    inputs = [ints(2, *volume, 4), source, filter_, given(FLOAT, generator.normal(0, 1, 4)), *numbers]
    operation = OperationType.TFLITE_CONV_3D_TRANSPOSE
    expect_same(operation, inputs, wanted(FLOAT), data=(1,), compare=close)
