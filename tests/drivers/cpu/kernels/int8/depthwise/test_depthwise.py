"""Quantised depthwise convolutions give the graph's integers and stay inside their memory."""

import pytest
from support.cpu.native import RUNNABLE
from support.cpu.quantized_sums import TYPES, QuantizedSums, check, two_targets, types_and_targets
from support.sweeps import sweep

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import load
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.kernels.select import routine_for
from neurald.drivers.cpu.target.target import TARGETS, Target


@two_targets
@pytest.mark.parametrize("channels", [3, 24, 70, 86])
def test_channels(channels: int, target: Target) -> None:
    """Checks as many channels as vectors and channel blocks have, fewer, and more."""
    sums = QuantizedSums(channels)
    case = sums.depthwise(
        (1, 6, 5, channels), (3, 3, channels), (1, 6, 5, channels), padding=((1, 1), (1, 1))
    )
    check(case, target, channels)


@types_and_targets
def test_types(seed: int, target: Target) -> None:
    source, weights, result = TYPES[seed]
    sums = QuantizedSums(seed, source=source, weights=weights, extreme=True)
    case = sums.depthwise(
        (2, 7, 9, 70),
        (3, 3, 70),
        (2, 4, 5, 70),
        sums.rescaled(per_channel=False, type=result),
        stride=(2, 2),
        padding=((1, 1), (1, 1)),
    )
    check(case, target, seed)


@two_targets
@pytest.mark.parametrize(
    ("kernel", "dilation", "multiplier"),
    [((5, 2), (1, 1), 1), ((1, 4), (1, 2), 3), ((4, 1), (2, 1), 20), ((7, 1), (1, 1), 1)],
)
def test_windows(kernel: tuple[int, int], dilation: tuple[int, int], multiplier: int, target: Target) -> None:
    sums = QuantizedSums(multiplier)
    height, width = (8 - (k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True))
    case = sums.depthwise(
        (1, 7, 8, 5),
        (*kernel, 5 * multiplier),
        (1, height, width, 5 * multiplier),
        dilation=dilation,
        padding=((1, 1), (1, 0)),
    )
    check(case, target, 1)


@two_targets
@pytest.mark.parametrize(
    ("taps", "stride", "dilation"), [(3, 1, 1), (3, 2, 1), (3, 1, 2), (2, 3, 1), (1, 2, 1), (5, 1, 1)]
)
def test_positions_one_after_another(taps: int, stride: int, dilation: int, target: Target) -> None:
    """Checks one to four positions per iteration, with shared columns and without."""
    for width in (1, 2, 7, 9, 12):
        sums = QuantizedSums(width)
        before = min(1, taps - 1)
        seen = (width - 1) * stride + (taps - 1) * dilation + 1 - before
        case = sums.depthwise(
            (1, 5, seen, 86),
            (3, taps, 86),
            (1, 5, width, 86),
            sums.rescaled(),
            stride=(1, stride),
            dilation=(1, dilation),
            padding=((1, 1), (before, 0)),
        )
        check(case, target, width)


@two_targets
def test_sums_without_rescaling(target: Target) -> None:
    sums = QuantizedSums(2)
    case = sums.depthwise((1, 3, 4, 77), (2, 2, 77), (1, 2, 3, 77), lambda _, total: total)
    check(case, target)


def test_windows_too_large_to_unroll() -> None:
    sums = QuantizedSums(3)
    case = sums.depthwise((1, 64, 64, 64), (64, 64, 64), (1, 1, 1, 64))
    assert routine_for(case.kernel, TARGETS["generic"]) is None


@sweep("target", TARGETS.values(), ids=lambda target: target.name)
def test_rows_of_different_sizes_share_a_subroutine(target: Target) -> None:
    """Sizes are arguments of the subroutine."""
    found = []
    for channels, size in ((64, 5), (192, 9)):
        sums = QuantizedSums(1)
        case = sums.depthwise(
            (1, size, size, channels),
            (3, 3, channels),
            (1, size, size, channels),
            sums.rescaled(),
            padding=((1, 1), (1, 1)),
        )
        routine = routine_for(case.kernel, target)
        assert routine is not None
        found.append(routine)
    first, second = found
    assert first.name != second.name
    assert first.subroutines
    assert first.subroutines == second.subroutines


@sweep("target", TARGETS.values(), ids=lambda target: target.name)
def test_tiles_of_different_sizes_share_a_subroutine(target: Target) -> None:
    """Windows of many columns do not fit in registers, so that positions are no rolling rows."""
    found = []
    for channels, width, is_rescaled in ((64, 24, True), (192, 48, True), (128, 24, False)):
        sums = QuantizedSums(1)
        case = sums.depthwise(
            (1, 1, width, channels),
            (1, 15, channels),
            (1, 1, width, channels),
            sums.rescaled() if is_rescaled else _products,
            padding=((0, 0), (7, 7)),
        )
        if target in RUNNABLE:
            check(case, target, channels)
        routine = routine_for(case.kernel, target)
        assert routine is not None
        found.append(routine)
    first, second, other = found
    assert first.subroutines
    assert first.subroutines == second.subroutines
    assert other.subroutines
    assert other.scratch_bytes > first.scratch_bytes


def _products(builder: Builder, sums: Value) -> Value:
    """Computes results of sums that are not only rescaled."""
    return builder.compute(sums.shape, lambda *at: load(sums, at) * (load(sums, at) & 7))


def test_channels_that_are_left_need_no_code_of_their_own() -> None:
    """The last block of channels overlaps the one before."""
    lengths = []
    for channels in (32, 24):
        sums = QuantizedSums(channels)
        case = sums.depthwise((1, 6, 5, channels), (5, 3, channels), (1, 2, 3, channels))
        routine = routine_for(case.kernel, TARGETS["avx512vnni"])
        assert routine is not None
        lengths.append(len(routine.text.splitlines()))
    whole, overlapping = lengths
    assert overlapping <= whole + 4
