"""Winograd convolutions of bytes give the graph's integers, and are used where they are faster."""

import numpy as np
import pytest
from support.compiler.contractions import Case
from support.cpu.native import RUNNABLE
from support.cpu.quantized_sums import TYPES, QuantizedSums, check

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.kernels.int8 import winograd
from neurald.drivers.cpu.kernels.select import routine_for
from neurald.drivers.cpu.target.target import TARGETS, Target

VNNI = TARGETS["avx512vnni"]
#: Targets with products of 16-bit numbers in registers of 64 bytes.
needs_vnni = pytest.mark.skipif(VNNI not in RUNNABLE, reason="the processor lacks AVX-512 VNNI")


def _is_used(case: Case, target: Target = VNNI) -> bool:
    routine = routine_for(case.kernel, target)
    assert routine is not None
    return "Winograd" in routine.label


@needs_vnni
@pytest.mark.parametrize("seed", range(len(TYPES)))
@pytest.mark.parametrize(
    ("shape", "channels", "padding", "tail"),
    [
        ((1, 8, 8, 32), 16, 1, "rescaled"),
        ((2, 7, 9, 16), 48, 1, "rescaled"),
        ((1, 6, 6, 64), 32, 0, "rescaled"),
        ((1, 40, 30, 16), 32, 2, "rescaled"),
        ((3, 11, 8, 96), 64, 1, "sums"),
        ((1, 30, 4, 128), 16, 1, "sums"),
        # Vectors of channels overlap.
        ((1, 9, 8, 24), 24, 1, "rescaled"),
        ((1, 8, 12, 42), 40, 1, "rescaled"),
        ((1, 7, 9, 72), 17, 0, "sums"),
        ((1, 12, 8, 18), 104, 1, "sums"),
    ],
)
def test_results(
    seed: int,
    shape: tuple[int, int, int, int],
    channels: int,
    padding: int,
    tail: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(winograd, "_MAX_RELATIVE_COST", float("inf"))
    source, weights, result = TYPES[seed]
    if source is Scalar.INT16:
        return
    images, height, width, depth = shape
    sums = QuantizedSums(seed, source=source, weights=weights, extreme=seed % 2 == 0)
    grown = 2 * padding - 2
    case = sums.convolution(
        shape,
        (channels, 3, 3, depth),
        (images, height + grown, width + grown, channels),
        sums.rescaled(per_channel=seed % 2 == 0, type=result) if tail == "rescaled" else None,
        padding=((padding, padding), (padding, padding)),
    )
    assert _is_used(case)
    check(case, VNNI, seed)


def _square(
    length: int, depth: int, channels: int, *, pad: int | None = None, zero: int = 3, **window: int
) -> Case:
    """Creates a case with random bytes, by default padded such that it keeps the image's size."""
    taps, stride, dilation = (window.get(each, least) for each, least in _WINDOW.items())
    if pad is None:
        pad = dilation * (taps - 1) // 2
    positions = (length + 2 * pad - dilation * (taps - 1) - 1) // stride + 1
    return QuantizedSums(1, zeros=(zero, 0)).convolution(
        (1, length, length, depth),
        (channels, taps, taps, depth),
        (1, positions, positions, channels),
        padding=((pad, pad), (pad, pad)),
        stride=(stride, stride),
        dilation=(dilation, dilation),
    )


#: Properties of windows, and their values by default.
_WINDOW = {"taps": 3, "stride": 1, "dilation": 1}


@needs_vnni
def test_when_it_is_used() -> None:
    assert _is_used(_square(32, 64, 64))
    # Images with their borders have no pixels outside, so that transformations take less time.
    assert _is_used(_square(34, 16, 16, pad=0))
    # Vectors of channels that do not fill them overlap.
    assert _is_used(_square(98, 24, 24, pad=0))
    assert _is_used(_square(98, 72, 24, pad=0))
    # Transformed weights that exceed the second-level cache are read for several tiles at once.
    assert _is_used(_square(16, 256, 128))
    others = [
        _square(32, 64, 64, stride=2),
        _square(32, 64, 64, dilation=2),
        _square(32, 64, 64, taps=5),
        # Fewer channels than a vector has, or an odd number of them.
        _square(32, 8, 64),
        _square(32, 64, 8),
        _square(32, 63, 64),
        # Transformations take longer than they save.
        _square(32, 16, 16),
        # Reading transformed weights for few tiles takes longer.
        _square(4, 128, 128),
        # Smaller than a tile, or with too large transformed weights.
        _square(3, 64, 64),
        _square(16, 256, 256),
    ]
    assert [case.kernel.contraction for case in others if _is_used(case)] == []
    without_products = [each for each in RUNNABLE if not each.has_short_dots]
    assert not any(_is_used(_square(32, 64, 64), each) for each in without_products)


@needs_vnni
def test_results_that_would_not_fit_are_computed_directly() -> None:
    """A result times 64 must fit in 32 bits, of inputs and weights that reach their limits."""
    large = QuantizedSums(2, source=Scalar.UINT8, zeros=(0, 0), extreme=True)
    for depth, fits in ((96, True), (128, False)):
        case = large.convolution(
            (1, 16, 16, depth), (16, 3, 3, depth), (1, 16, 16, 16), padding=((1, 1), (1, 1))
        )
        node = case.kernel.contraction
        assert node is not None
        _, weights = node.inputs
        assert weights.constant is not None
        largest = 255 * np.abs(weights.constant.astype(np.int64)).sum(axis=(1, 2, 3)).max()
        assert (largest < 1 << 25) == fits
        assert _is_used(case) == fits
        check(case, VNNI)


@needs_vnni
def test_results_do_not_depend_on_the_division() -> None:
    """Ranges that begin within a block of tiles transform its pixels again."""
    case = _square(36, 32, 96)
    assert _is_used(case)
    for seed in range(6):
        check(case, VNNI, seed)


@needs_vnni
@pytest.mark.parametrize("zero", [0, 3])
@pytest.mark.parametrize("length", [34, 37, 40])
def test_images_with_their_borders(length: int, zero: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(winograd, "_MAX_RELATIVE_COST", float("inf"))
    case = _square(length, 16, 16, pad=0, zero=zero)
    assert _is_used(case)
    for seed in range(3):
        check(case, VNNI, seed)


@needs_vnni
def test_equal_convolutions_share_a_routine() -> None:
    first, second = (routine_for(_square(32, 64, 64).kernel, VNNI) for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.text is second.text


@needs_vnni
def test_convolutions_share_the_functions_that_transform_and_multiply() -> None:
    """They take most of the text, and LLVM's time."""
    shared = [
        {each.name for each in routine.subroutines}
        for case in (_square(32, 64, 64), _square(36, 64, 96), _square(16, 64, 128))
        if (routine := routine_for(case.kernel, VNNI)) is not None
    ]
    assert [len(each) for each in shared] == [3, 3, 3]
    # Products may have tiles of different sizes.
    assert len(set.intersection(*shared)) == 2
    other = routine_for(_square(32, 64, 128).kernel, VNNI)
    assert other is not None
    assert {each.name for each in other.subroutines} == shared[0]
    other = routine_for(_square(32, 96, 64).kernel, VNNI)
    assert other is not None
    # Other numbers of channels have functions of their own for pixels.
    assert len({each.name for each in other.subroutines} - shared[0]) == 1
