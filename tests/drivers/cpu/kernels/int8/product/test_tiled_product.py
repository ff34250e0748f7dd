"""Quantised products give the graph's integers and stay inside their memory."""

from typing import Any

import pytest
from support.compiler.contractions import Cases
from support.cpu.native import RUNNABLE
from support.cpu.quantized_sums import TYPES, QuantizedSums, check, two_targets, types_and_targets

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import load
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.kernels.select import routine_for
from neurald.drivers.cpu.target.target import TARGETS, Target


@types_and_targets
def test_pixels(seed: int, target: Target) -> None:
    source, weights, result = TYPES[seed]
    sums = QuantizedSums(seed, source=source, weights=weights, extreme=seed % 2 == 1)
    depth, channels = (32, 24, 7, 68)[seed], (40, 16, 5, 33)[seed]
    tail = sums.rescaled(per_channel=seed % 2 == 0, type=result)
    check(
        sums.convolution((2, 5, 7, depth), (channels, 1, 1, depth), (2, 5, 7, channels), tail), target, seed
    )


@types_and_targets
@pytest.mark.parametrize("groups", [1, 2])
def test_strided_pixels(seed: int, groups: int, target: Target) -> None:
    source, weights, result = TYPES[seed]
    sums = QuantizedSums(seed, source=source, weights=weights)
    depth, channels = (1024, 16, 5, 12)[seed] // groups, (40, 16, 6, 34)[seed]
    case = sums.convolution(
        (2, 5, 8, depth * groups),
        (channels, 1, 1, depth),
        (2, 3, 3, channels),
        sums.rescaled(type=result),
        stride=(2, 3),
        groups=groups,
    )
    check(case, target, seed)


@two_targets
@pytest.mark.parametrize("channels", [128, 256])
def test_few_positions_of_many_channels(channels: int, target: Target) -> None:
    sums = QuantizedSums(channels, zeros=(3, 0))
    case = sums.convolution((1, 3, 5, 64), (channels, 1, 1, 64), (1, 3, 5, channels))
    check(case, target)


@types_and_targets
def test_windows(seed: int, target: Target) -> None:
    source, weights, result = TYPES[seed]
    sums = QuantizedSums(seed, source=source, weights=weights, extreme=seed % 2 == 0)
    depth, channels = (3, 8, 5, 4)[seed], (17, 8, 34, 48)[seed]
    case = sums.convolution(
        (2, 9, 17, depth),
        (channels, 3, 2, depth),
        (2, 5, 18, channels),
        sums.rescaled(type=result),
        stride=(2, 1),
        padding=((1, 1), (1, 1)),
    )
    check(case, target, seed)


@types_and_targets
@pytest.mark.parametrize(("groups", "stride"), [(1, 1), (2, 3)])
def test_images_of_width_1(seed: int, groups: int, stride: int, target: Target) -> None:
    source, weights, result = TYPES[seed]
    sums = QuantizedSums(seed, source=source, weights=weights)
    depth, channels, rows = (3, 8, 5, 16)[seed], (34, 8, 18, 48)[seed], -(-70 // stride)
    case = sums.convolution(
        (2, 70, 1, depth * groups),
        (channels, 9, 1, depth),
        (2, rows, 1, channels),
        sums.rescaled(type=result),
        stride=(stride, 3),
        padding=((4, 4), (0, 0)),
        groups=groups,
    )
    check(case, target, seed)


@types_and_targets
@pytest.mark.parametrize(
    ("depth", "channels", "columns", "dilation"),
    [(64, 128, 2, 1), (32, 256, 3, 1), (7, 64, 2, 1), (16, 128, 2, 2), (5, 24, 1, 1), (192, 512, 2, 1)],
)
def test_first_taps_without_weights(
    seed: int, target: Target, depth: int, channels: int, columns: int, dilation: int
) -> None:
    """Whole columns are skipped, also if their words are not a multiple of a loop turn's."""
    source, weights, result = TYPES[seed]
    sums = QuantizedSums(seed, source=source, weights=weights, has_phases=True)
    case = sums.convolution(
        (1, 6, 9, depth),
        (channels, 2, columns, depth),
        (1, 5, 9, channels),
        sums.rescaled(type=result),
        dilation=(1, dilation),
        padding=((0, 0), ((columns - 1) * dilation, 0)),
    )
    check(case, target, seed)


@pytest.mark.parametrize(
    "target", [each for each in RUNNABLE if not each.has_tiles][::2], ids=lambda target: target.name
)
@pytest.mark.parametrize(("has_phases", "is_skipping"), [(True, True), (False, False)])
def test_taps_are_skipped_where_there_are_none(has_phases: bool, is_skipping: bool, target: Target) -> None:
    """Loops over taps begin with a number that the panel has, unless all taps have weights.

    Kernels of tile registers multiply all taps.
    """
    sums = QuantizedSums(1, zeros=(3, 0), has_phases=has_phases)
    case = sums.convolution((1, 6, 9, 64), (256, 2, 2, 64), (1, 5, 8, 256))
    routine = routine_for(case.kernel, target)
    assert routine is not None
    texts = routine.text, *(each.text for each in routine.subroutines)
    assert any("zext i32" in text for text in texts) == is_skipping


@pytest.mark.parametrize(("has_phases", "vectors"), [(True, 1), (False, 2)])
def test_panels_do_not_mix_channels_that_lack_other_taps(has_phases: bool, vectors: int) -> None:
    """Panels of two vectors are faster, unless they have channels of two phases."""
    sums = QuantizedSums(1, zeros=(3, 0), has_phases=has_phases)
    case = sums.convolution((1, 9, 65, 32), (64, 2, 2, 32), (1, 8, 64, 64))
    routine = routine_for(case.kernel, TARGETS["avx512vnni"])
    assert routine is not None
    assert f"by {vectors} vectors of 16" in routine.label
    for target in RUNNABLE:
        check(case, target)


@two_targets
def test_groups(target: Target) -> None:
    sums = QuantizedSums(3, source=Scalar.UINT8, weights=Scalar.UINT8)
    window: dict[str, Any] = {"dilation": (2, 1), "stride": (1, 2), "padding": ((0, 0), (1, 1)), "groups": 3}
    check(sums.convolution((1, 8, 11, 15), (21, 3, 2, 5), (1, 4, 6, 21), **window), target)


@two_targets
@pytest.mark.parametrize("rows", [1, 29])
def test_matrix_products(rows: int, target: Target) -> None:
    sums = QuantizedSums(rows, zeros=(-128, 0))
    check(sums.product((rows, 130), (101, 130)), target, rows)


@types_and_targets
@pytest.mark.parametrize(
    ("rows", "shape"), [(1, (130, 264)), (2, (384, 1024)), (3, (40, 840)), (1, (17, 3000))]
)
def test_weights_of_4_bits(seed: int, rows: int, shape: tuple[int, int], target: Target) -> None:
    """Few rows read them from memory, in pairs."""
    source, _, result = TYPES[seed]
    sums = QuantizedSums(rows, source=source, zeros=(-3, 0), extreme=seed % 2 == 1, bits=4)
    case = sums.product((rows, shape[1]), shape, sums.rescaled(type=result, largest=0.05))
    check(case, target, rows)
    routine = routine_for(case.kernel, TARGETS["avx512vnni"])
    assert routine is not None
    assert "weights of 4 bits" in routine.label


@two_targets
def test_threads_share_panels_if_there_are_few_rows(target: Target) -> None:
    sums = QuantizedSums(5, source=Scalar.UINT8, weights=Scalar.UINT8)
    case = sums.product((2, 64), (600, 64), sums.rescaled(type=Scalar.UINT8))
    check(case, target)
    routine = routine_for(case.kernel, target)
    assert routine is not None
    assert routine.work_items > 1


@two_targets
def test_threads_share_panels_if_there_are_many_weights(target: Target) -> None:
    """Seven rows suffice for several threads, but each thread would read all weights."""
    sums = QuantizedSums(6, zeros=(5, 0))
    padding = ((1, 1), (1, 1))
    case = sums.convolution((1, 7, 7, 16), (520, 3, 3, 16), (1, 7, 7, 520), padding=padding)
    check(case, target)
    routine = routine_for(case.kernel, target)
    assert routine is not None
    assert routine.work_items > 7


@two_targets
@pytest.mark.parametrize("zero_point", [-128, 5])
def test_relu_and_ties(zero_point: int, target: Target) -> None:
    """Checks clamping by a fused activation, and results halfway between two integers."""
    sums = QuantizedSums(7, zeros=(0, 0))
    tail = sums.rescaled(zero_point=zero_point, low=zero_point, largest=2.0**-4, op=Op.FIXED_POINT)
    check(sums.product((9, 4), (20, 4), tail), target)
    up = sums.rescaled(zero_point=zero_point, per_channel=False, largest=2.0**-6, op=Op.FIXED_POINT_UP)
    check(sums.product((9, 4), (20, 4), up), target)


@two_targets
@pytest.mark.parametrize("largest", [3.0, 2.0**-26])
def test_unusual_multipliers(largest: float, target: Target) -> None:
    sums = QuantizedSums(8)
    check(sums.product((5, 6), (19, 6), sums.rescaled(largest=largest)), target)


@two_targets
def test_a_residual(target: Target) -> None:
    """Adds another value to the stored result."""
    sums = QuantizedSums(9)
    rescaled = sums.rescaled()

    def tail(builder: Builder, total: Value) -> Value:
        stored = rescaled(builder, total)
        return builder.compute(
            stored.shape,
            lambda *at: (load(stored, at).to(Scalar.INT32) + load(stored, at).to(Scalar.INT32)) >> 1,
        )

    check(sums.convolution((1, 6, 6, 16), (23, 1, 1, 16), (1, 6, 6, 23), tail), target)


@two_targets
@pytest.mark.parametrize("channels", [1, 37])
def test_sums_without_rescaling(channels: int, target: Target) -> None:
    sums = QuantizedSums(channels, extreme=True)
    check(sums.product((5, 33), (channels, 33), lambda _, total: total), target, channels)


@two_targets
def test_inputs_of_16_bits(target: Target) -> None:
    sums = QuantizedSums(11, source=Scalar.INT16, zeros=(0, 0))
    tail = sums.rescaled(type=Scalar.INT16, zero_point=0, largest=0.001)
    check(sums.convolution((1, 7, 7, 6), (18, 3, 3, 6), (1, 5, 5, 18), tail), target)


@two_targets
@pytest.mark.parametrize("seed", range(2))
def test_any_shape(seed: int, target: Target) -> None:
    case = Cases(seed).convolution((Scalar.INT8, Scalar.UINT8)[seed % 2], groups=1 + seed % 3)
    node = case.kernel.contraction
    assert node is not None
    if node.inputs[1].constant is not None:
        check(case, target, seed)


def test_unsupported_kernels_have_no_routine() -> None:
    """Weights that are not constant, and sums beyond 32 bits, are not supported."""
    target = TARGETS["generic"]
    sums = QuantizedSums(1, source=Scalar.INT16, zeros=(0, 0), extreme=True)
    assert routine_for(sums.product((1, 4000), (3, 4000), lambda _, total: total).kernel, target) is None


@two_targets
@pytest.mark.parametrize("channels", [1, 17, 2])
def test_partial_vectors_write_only_their_channels(channels: int, target: Target) -> None:
    """The last pixel ends where the memory ends, and pixels of different threads are adjacent."""
    sums = QuantizedSums(12, zeros=(-128, 0))
    case = sums.convolution((1, 9, 11, 96), (channels, 1, 1, 96), (1, 9, 11, channels), sums.rescaled())
    check(case, target)


@two_targets
@pytest.mark.parametrize("channels", [5, 70])
def test_only_equivalent_layers_share_text(channels: int, target: Target) -> None:
    """Whole vectors read per-channel constants from memory; otherwise they are in the text."""
    texts = []
    for factor in (0.5, 0.5, 0.625):
        sums = QuantizedSums(4, zeros=(3, 0))
        tail = sums.added(sums.rescaled(), zeros=(1, -2), factors=(factor, 0.75))
        case = sums.convolution((1, 4, 5, 16), (channels, 1, 1, 16), (1, 4, 5, channels), tail)
        routine = routine_for(case.kernel, target)
        assert routine is not None
        texts.append(routine.text)
    assert texts[0] == texts[1]
    if channels < target.lanes(4):
        assert texts[0] != texts[2]
    else:
        assert texts[0] is texts[1] is texts[2]
