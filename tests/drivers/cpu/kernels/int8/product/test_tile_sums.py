"""Kernels share the functions that multiply tiles, with the same results for all sizes."""

from typing import Any

import pytest
from support.cpu.quantized_sums import QuantizedSums, check, two_targets

from neurald.drivers.cpu.kernels.int8.product.tile_sums import MAX_ADDRESSES, TileEntry, TileForm, tile_sums
from neurald.drivers.cpu.kernels.int8.scheme import Scheme
from neurald.drivers.cpu.kernels.select import routine_for
from neurald.drivers.cpu.target.target import TARGETS, Target

#: Sizes of input, weights and output, and the movement of windows. All have 14 positions in a tile.
_SHAPES: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((1, 7, 14, 32), (64, 1, 1, 32), (1, 7, 14, 64), {}),
    ((1, 7, 14, 64), (32, 1, 1, 64), (1, 7, 14, 32), {}),
    ((1, 7, 14, 32), (32, 3, 3, 32), (1, 5, 14, 32), {"padding": ((0, 0), (1, 1))}),
    ((1, 7, 14, 8), (32, 3, 3, 8), (1, 3, 14, 32), {"padding": ((0, 0), (2, 2)), "dilation": (2, 2)}),
    ((1, 9, 28, 16), (32, 3, 1, 16), (1, 4, 14, 32), {"stride": (2, 2)}),
]


def _shared(number: int, zeros: tuple[int, int], target: Target) -> set[str]:
    sums = QuantizedSums(number, zeros=zeros)
    source, weights, output, window = _SHAPES[number]
    case = sums.convolution(source, weights, output, sums.rescaled(), **window)
    check(case, target, number)
    routine = routine_for(case.kernel, target)
    assert routine is not None
    return {each.name for each in routine.subroutines}


def test_convolutions_of_other_sizes_share_a_function() -> None:
    target = TARGETS["avx512vnni"]
    found = [
        {each.name for each in routine.subroutines}
        for source, weights, output, window in _SHAPES
        for sums in [QuantizedSums(0, zeros=(3, 0))]
        if (routine := routine_for(sums.convolution(source, weights, output, **window).kernel, target))
    ]
    assert len(found) == len(_SHAPES)
    assert set.intersection(*found)


@two_targets
@pytest.mark.parametrize("zeros", [(3, 0), (3, 5)])
@pytest.mark.parametrize("number", range(len(_SHAPES)))
def test_results(number: int, zeros: tuple[int, int], target: Target) -> None:
    _shared(number, zeros, target)


def test_every_form_has_a_function_of_its_own() -> None:
    scheme = Scheme(target=TARGETS["avx512vnni"], is_bytes=True)
    forms = [
        TileForm.of(
            rows,
            14 // rows,
            scheme=scheme,
            vectors=2,
            has_sums=has_sums,
            prefetches=prefetches,
            skips_taps=skips_taps,
            omits_taps=omits_taps,
        )
        for rows in (1, 2, 7, 14)
        for has_sums in (False, True)
        for prefetches in (0, 1, 2)
        for skips_taps in (False, True)
        for omits_taps in (False, True)
    ]
    assert all(form.addresses <= MAX_ADDRESSES for form in forms)
    # A row and a column have the same form.
    assert len({tile_sums(form).name for form in forms}) == len(set(forms)) == len(forms) * 3 // 4


def test_entries_are_numbered_from_0() -> None:
    assert list(TileEntry) == list(range(len(TileEntry)))
