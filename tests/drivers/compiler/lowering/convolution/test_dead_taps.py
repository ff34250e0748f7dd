"""Windows without rows and columns that multiply padding only give the same sums."""

import numpy as np
import pytest
from support.compiler.graphs import GraphBuilder
from support.sweeps import sweep

from neurald.drivers.compiler.analysis.interpreter import evaluate
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.convolution.dead_taps import without_dead_taps
from neurald.hal.operations.convolution.windowing import Pair, Window

pytestmark = pytest.mark.quick


def window(
    image: Pair,
    kernel: Pair,
    *,
    stride: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: tuple[Pair, Pair],
) -> Window:
    output = tuple(
        (size + sum(pads) - (taps - 1) * gap - 1) // step + 1
        for size, pads, taps, gap, step in zip(image, padding, kernel, dilation, stride, strict=True)
    )
    return Window(kernel=kernel, stride=stride, dilation=dilation, padding=padding, output=output)  # type: ignore[arg-type]


def convolved(b: GraphBuilder, source: Value, weights: Value, placed: Window) -> Value:
    return b.convolution(
        source,
        weights,
        output=(1, *placed.output, weights.shape[0]),
        stride=placed.stride,
        dilation=placed.dilation,
        padding=placed.padding,
    )


@sweep("is_constant", [False, True])
def test_sums_stay_the_same(*, is_constant: bool) -> None:
    generator, trimmed = np.random.default_rng(0), 0
    for _ in range(60):
        image, kernel, stride, dilation = (
            (int(generator.integers(1, most)), int(generator.integers(1, most))) for most in (6, 6, 4, 5)
        )
        spans = [(taps - 1) * gap for taps, gap in zip(kernel, dilation, strict=True)]
        padding = [
            (int(generator.integers(0, span + 1)), int(generator.integers(0, span + 1))) for span in spans
        ]
        if any(size + sum(pads) <= span for size, pads, span in zip(image, padding, spans, strict=True)):
            continue
        placed = window(image, kernel, stride=stride, dilation=dilation, padding=(padding[0], padding[1]))
        b = GraphBuilder()
        source, inputs = b.input(1, *image, 2), [generator.standard_normal((1, *image, 2)).astype(np.float32)]
        if is_constant:
            weights = b.weights(3, *kernel, 2)
        else:
            weights = b.input(3, *kernel, 2)
            inputs.append(generator.standard_normal(weights.shape).astype(np.float32))
        smaller, kept = without_dead_taps(b, placed, weights, image, 1)
        assert smaller.output == placed.output
        assert smaller.kernel == kept.shape[1:3]
        assert all(pad >= 0 for pads in smaller.padding for pad in pads)
        outputs = [convolved(b, source, weights, placed), convolved(b, source, kept, smaller)]
        whole, part = evaluate(b.finish(*outputs), inputs)
        np.testing.assert_allclose(part, whole, rtol=1e-5, atol=1e-5)
        trimmed += smaller.kernel != kernel
    assert trimmed > 10


def test_a_window_of_large_dilation_becomes_one_pixel() -> None:
    b = GraphBuilder()
    placed = window((4, 4), (3, 3), dilation=(12, 12), padding=((12, 12), (12, 12)))
    smaller, weights = without_dead_taps(b, placed, b.weights(5, 3, 3, 2), (4, 4), 1)
    assert smaller.is_pointwise
    assert weights.shape == (5, 1, 1, 2)


def test_each_axis_is_separate_and_depthwise_weights_begin_with_the_height() -> None:
    b = GraphBuilder()
    weights = b.weights(5, 5, 7)
    placed = window((2, 9), (5, 5), padding=((2, 2), (2, 2)))
    smaller, kept = without_dead_taps(b, placed, weights, (2, 9), 0)
    assert smaller.kernel == (3, 5)
    assert weights.constant is not None
    assert kept.constant is not None
    np.testing.assert_array_equal(kept.constant, weights.constant[1:4])


def test_taps_that_skip_the_image_are_kept_if_padding_would_become_negative() -> None:
    b = GraphBuilder()
    weights = b.weights(1, 3, 1, 1)
    placed = window((3, 1), (3, 1), dilation=(4, 1), padding=((2, 4), (0, 0)))
    smaller, kept = without_dead_taps(b, placed, weights, (3, 1), 1)
    assert smaller.kernel == (2, 1)
    assert smaller.padding[0] == (2, 0)
    assert kept.shape == (1, 2, 1, 1)


def test_weights_that_make_nan_of_padding_are_kept() -> None:
    b = GraphBuilder()
    numbers = np.ones((1, 3, 3, 1), np.float32)
    numbers[0, 0, 0, 0] = np.inf
    placed = window((1, 1), (3, 3), padding=((1, 1), (1, 1)))
    weights = b.constant(numbers)
    assert without_dead_taps(b, placed, weights, (1, 1), 1) == (placed, weights)
