"""Quantised products with computed weights give the graph's integers inside their memory."""

from typing import Any

import numpy as np
import pytest
from support.cpu.native import RUNNABLE, run
from support.cpu.quantized_sums import TYPES, QuantizedSums, check, two_targets, types_and_targets

from neurald.drivers.compiler.analysis.interpreter import evaluate_fused
from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.graph import Graph
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.cpu.kernels.select import routine_for
from neurald.drivers.cpu.target.target import Target

every_target = pytest.mark.parametrize("target", RUNNABLE, ids=lambda target: target.name)


@every_target
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("seed", range(len(TYPES)))
def test_random_sizes(seed: int, transposed: bool, target: Target) -> None:
    source, weights, result = TYPES[seed]
    random = np.random.default_rng([seed, transposed])
    for number in range(3):
        sums = QuantizedSums(seed + number, source=source, weights=weights, extreme=number == 1)
        rows, depth, channels = (int(random.integers(1, each)) for each in (40, 150, 90))
        right = (3, depth, channels) if transposed else (3, channels, depth)
        tail = sums.rescaled(per_channel=number % 2 == 0, type=result)
        case = sums.product_of_computed((3, rows, depth), right, tail, right_transposed=transposed)
        check(case, target, number)


@two_targets
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    ("depth", "channels"), [(1, 1), (2, 3), (3, 15), (64, 16), (65, 17), (256, 24), (7, 64)]
)
def test_edges_of_words_and_vectors(depth: int, channels: int, transposed: bool, target: Target) -> None:
    sums = QuantizedSums(depth)
    right = (2, depth, channels) if transposed else (2, channels, depth)
    case = sums.product_of_computed((2, 5, depth), right, right_transposed=transposed)
    check(case, target, depth)


@every_target
@pytest.mark.parametrize("seed", range(len(TYPES)))
def test_transposed_left_matrices(seed: int, target: Target) -> None:
    source, weights, result = TYPES[seed]
    random = np.random.default_rng(seed)
    sizes = [(5, 3, 2), (16, 64, 40), *(random.integers(1, (70, 150, 50)).tolist() for _ in range(2))]
    for number, (rows, depth, channels) in enumerate(sizes):
        sums = QuantizedSums(seed + number, source=source, weights=weights, extreme=number == 1)
        case = sums.product_of_computed(
            (2, depth, rows),
            (2, depth, channels),
            sums.rescaled(per_channel=False, type=result),
            left_transposed=True,
            right_transposed=True,
        )
        check(case, target, number)


@two_targets
@pytest.mark.parametrize("zeros", [(0, 0), (-128, 0), (-128, 127), (127, -128), (5, -3)])
def test_zero_points(zeros: tuple[int, int], target: Target) -> None:
    for source in (Scalar.INT8, Scalar.UINT8):
        own = tuple(each + 128 * (source is Scalar.UINT8) for each in zeros)
        sums = QuantizedSums(9, source=source, weights=source, zeros=(own[0], own[1]), extreme=True)
        check(sums.product_of_computed((2, 9, 70), (2, 33, 70)), target)


@two_targets
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3, 1, 6, 20), (2, 18, 20)),
        ((1, 4, 6, 20), (3, 1, 18, 20)),
        ((6, 20), (5, 18, 20)),
        ((2, 3, 6, 20), (2, 1, 18, 20)),
        ((7, 6, 20), (18, 20)),
    ],
)
def test_broadcast_batches(left: tuple[int, ...], right: tuple[int, ...], target: Target) -> None:
    check(QuantizedSums(4).product_of_computed(left, right), target, 1)


@two_targets
def test_long_rows_are_computed_in_blocks(target: Target) -> None:
    case = QuantizedSums(5, zeros=(3, 0)).product_of_computed((2, 700, 256), (2, 24, 256))
    check(case, target)
    routine = routine_for(case.kernel, target)
    assert routine is not None
    assert routine.work_items > 2


@two_targets
def test_a_matrix_times_itself(target: Target) -> None:
    """Both operands are one argument of the function."""
    graph = Graph(inputs=[Value((2, 20, 20), Scalar.INT8)], outputs=[])
    builder = Builder(graph, lambda index: graph.inputs[index])
    sums = builder.matrix_product(*graph.inputs * 2, type=Scalar.INT32, left_zero=3, right_zero=-4)
    graph.outputs = [sums]
    array = np.random.default_rng(1).integers(-128, 128, (2, 20, 20)).astype(np.int8)
    fused = fuse(graph)
    routine = routine_for(fused.kernels[0], target)
    assert routine is not None
    result, _ = run(routine, {graph.inputs[0]: array}, target, splits=[1])
    np.testing.assert_array_equal(result, evaluate_fused(fused, [array])[0])


@two_targets
def test_constant_matrices_of_batches(target: Target) -> None:
    """Several constant right matrices are packed like computed ones."""
    check(QuantizedSums(6).product((3, 9, 40), (3, 21, 40)), target)


@types_and_targets
@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions_of_random_sizes(seed: int, groups: int, target: Target) -> None:
    source, weights, result = TYPES[seed]
    random = np.random.default_rng([seed, groups])
    for number in range(3):
        sums = QuantizedSums(seed + number, source=source, weights=weights, extreme=number == 1)
        images, depth, channels = (int(random.integers(1, each)) for each in (4, 40, 50))
        window, stride, dilation = (random.integers(1, 4, 2) for _ in range(3))
        padding = random.integers(0, window)
        span = (window - 1) * dilation + 1
        lengths = span + random.integers(0, 12, 2)
        positions = (lengths + 2 * padding - span) // stride + 1
        case = sums.convolution_of_computed(
            (images, *map(int, lengths), depth * groups),
            (channels * groups, *map(int, window), depth),
            (images, *map(int, positions), channels * groups),
            sums.rescaled(per_channel=number % 2 == 0, type=result),
            stride=tuple(map(int, stride)),
            dilation=tuple(map(int, dilation)),
            padding=tuple((int(each), int(each)) for each in padding),
            groups=groups,
        )
        check(case, target, number)


@two_targets
@pytest.mark.parametrize("depth", [1, 3, 65])
@pytest.mark.parametrize("dilation", [1, 2])
def test_runs_of_windows(depth: int, dilation: int, target: Target) -> None:
    """Rows of a window and taps apart begin with a new word."""
    sums = QuantizedSums(depth, source=Scalar.UINT8, weights=Scalar.UINT8)
    case = sums.convolution_of_computed(
        (2, 9, 11, depth),
        (35, 3, 5, depth),
        (2, 9, 11 - 4 * dilation, 35),
        dilation=(1, dilation),
        padding=((1, 1), (0, 0)),
    )
    check(case, target, depth)


@two_targets
@pytest.mark.parametrize("zeros", [(0, 0), (-128, 127), (5, -3)])
def test_zero_points_beside_padding(zeros: tuple[int, int], target: Target) -> None:
    for source in (Scalar.INT8, Scalar.UINT8):
        own = tuple(each + 128 * (source is Scalar.UINT8) for each in zeros)
        sums = QuantizedSums(9, source=source, weights=source, zeros=(own[0], own[1]), extreme=True)
        case = sums.convolution_of_computed(
            (2, 7, 7, 6), (18, 3, 3, 6), (2, 4, 4, 18), stride=(2, 2), padding=((1, 1), (1, 1))
        )
        check(case, target)


@two_targets
@pytest.mark.parametrize("groups", [3, 24])
def test_groups_with_own_matrices(groups: int, target: Target) -> None:
    sums = QuantizedSums(groups, source=Scalar.UINT8, weights=Scalar.INT8)
    case = sums.convolution_of_computed(
        (2, 6, 9, 5 * groups), (7 * groups, 3, 2, 5), (2, 4, 8, 7 * groups), groups=groups
    )
    check(case, target, 1)


@two_targets
def test_inputs_of_16_bits_beside_computed_weights(target: Target) -> None:
    sums = QuantizedSums(8, source=Scalar.INT16, zeros=(0, 0))
    case = sums.convolution_of_computed((2, 8, 9, 7), (19, 3, 3, 7), (2, 6, 7, 19))
    check(case, target)


def test_sums_beyond_32_bits_are_left_to_the_generic_code() -> None:
    sums = QuantizedSums(7, source=Scalar.UINT8, weights=Scalar.UINT8, zeros=(0, 0))
    shape: Any = (1, 33_100)
    assert routine_for(sums.product_of_computed((2, *shape), (2, *shape)).kernel, RUNNABLE[0]) is None
