"""Kernels split into sections give the same results and stay inside their memory."""

from collections.abc import Sequence

import numpy as np
import pytest
from support.compiler.elementwise import interpreted
from support.cpu.native import DIFFERENT, RUNNABLE, compiled, run
from support.cpu.rendered import check_rendered
from support.sweeps import sweep

from neurald.drivers.compiler.ir.expression import (
    Apply,
    Expression,
    Load,
    apply,
    axis,
    load,
    reduce,
    select,
)
from neurald.drivers.compiler.ir.graph import inside
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.codegen.render import render
from neurald.drivers.cpu.schedule import axis_splitting
from neurald.drivers.cpu.schedule.axis_splitting import _sections, split_into_sections
from neurald.drivers.cpu.target.target import TARGETS, Target
from neurald.hal.records import replace

_RANDOM = np.random.default_rng(5)
_TARGETS = sweep("target", DIFFERENT, ids=lambda target: target.name)
_WIDE = TARGETS["avx512"]


def _joined(shape: Sequence[int], dimension: int, lengths: Sequence[int], kind: Scalar) -> Kernel:
    """Concatenates values along a dimension."""
    at = tuple(axis(length) for length in (*shape[:dimension], sum(lengths), *shape[dimension + 1 :]))
    body: Expression | None = None
    begin = 0
    for length in lengths:
        value = Value((*shape[:dimension], length, *shape[dimension + 1 :]), kind)
        place = (*at[:dimension], at[dimension] - begin, *at[dimension + 1 :])
        holds = (at[dimension] >= begin) & (at[dimension] < begin + length)
        part = load(value, place, holds)
        body = part if body is None else select(holds, part, body)
        begin += length
    assert body is not None
    return Kernel(output=Value(tuple(each.extent for each in at), kind), axes=at, body=body)


def _padded(shape: tuple[int, ...], pads: Sequence[tuple[int, int]]) -> Kernel:
    value = Value(shape, Scalar.FLOAT32)
    at = tuple(axis(before + length + after) for length, (before, after) in zip(shape, pads, strict=True))
    place = tuple(each - before for each, (before, _) in zip(at, pads, strict=True))
    body = apply(Op.EXP, load(value, place, inside(place, shape), 2.0))
    return Kernel(output=Value(tuple(each.extent for each in at), Scalar.FLOAT32), axes=at, body=body)


def _check(kernel: Kernel, target: Target) -> None:
    inputs = {value: _RANDOM.integers(-5, 5, value.shape).astype(value.type.value) for value in kernel.inputs}
    want = interpreted(kernel, inputs)
    routine = render(kernel, target)
    functions = compiled([routine], target)
    for at_start in (False, True):
        got, status = run(routine, inputs, target, at_start=at_start, splits=(1, 3, 7), functions=functions)
        assert not status
        np.testing.assert_allclose(got, want, rtol=1e-6)


@_TARGETS
@sweep("kind", [Scalar.FLOAT32, Scalar.INT8, Scalar.FLOAT16])
@sweep(
    ("dimension", "lengths"), [(0, (3, 5)), (1, (7, 1, 4)), (2, (80, 67)), (2, (300, 2, 5)), (1, (1,) * 12)]
)
def test_concatenation(dimension: int, lengths: tuple[int, ...], kind: Scalar, target: Target) -> None:
    _check(_joined((9, 13, 21), dimension, lengths, kind), target)


@_TARGETS
@sweep("pads", [[(1, 1), (2, 0), (0, 0)], [(0, 0), (0, 3), (0, 100)], [(0, 0), (1, 1), (5, 5)]])
def test_padding(pads: Sequence[tuple[int, int]], target: Target) -> None:
    _check(_padded((11, 14, 19), pads), target)


@_TARGETS
def test_sections_keep_where_a_kernel_stores_elements(target: Target) -> None:
    """Its elements are part of longer rows, as in a concatenation."""
    padded = _padded((40, 60, 16), [(2, 3), (1, 1), (0, 0)])
    rows, columns, channels = padded.axes
    offset = (rows * columns.extent + columns) * 40 + channels + 24
    kernel = replace(padded, output=Value((45, 62, 40), Scalar.FLOAT32), output_offset=offset)
    inputs = {value: _RANDOM.random(value.shape, np.float32) for value in kernel.inputs}
    routine = render(kernel, target)
    assert "sections" in routine.label
    got, _ = run(routine, inputs, target, splits=(1, 3))
    np.testing.assert_allclose(got[..., 24:], interpreted(padded, inputs), rtol=1e-6)


@sweep("step", [1, 2, 3])
@sweep("before", [0, 2])
def test_windows_inside_a_value_are_sections(step: int, before: int) -> None:
    value, at = Value((64, 96), Scalar.FLOAT32), (axis(64), axis(96 // step))
    x = axis(4)
    column = at[1] * step + x - before
    body = reduce(ReductionOp.SUM, (x,), load(value, (at[0], column), inside((column,), (96,)), 0))
    kernel = Kernel(output=Value((64, 96 // step), Scalar.FLOAT32), axes=at, body=body)
    _check(kernel, RUNNABLE[0])
    # Of the sections, the longest has no condition.
    sections = _sections(kernel, _WIDE, has_short=True)
    longest = max(sections, key=lambda section: section.axes[-1].extent)
    assert longest.axes[-1].extent >= 96 // step - 4
    assert all(each.guard is None for each in walk(longest.body) if isinstance(each, Load))


@_TARGETS
def test_borders_at_all_sides_of_windows_are_sections(target: Target) -> None:
    value, at, window = Value((57, 57, 3), Scalar.FLOAT32), (axis(29), axis(29), axis(3)), (axis(3), axis(3))
    place = (at[0] * 2 + window[0] - 1, at[1] * 2 + window[1] - 1, at[2])
    body = reduce(ReductionOp.MAXIMUM, window, load(value, place, inside(place, value.shape), -100))
    kernel = Kernel(output=Value((29, 29, 3), Scalar.FLOAT32), axes=at, body=body)
    _check(kernel, target)
    assert len(split_into_sections(kernel, _WIDE)) == 9


@sweep("seed", range(30))
def test_random_kernels(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(axis_splitting, "_MIN_ELEMENTS", 1)
    check_rendered(seed)


@sweep("factor", [-3, -1, 1, 2])
@sweep("offset", [-40, -7, 0, 6, 41])
def test_axes_are_cut_where_comparisons_change(factor: int, offset: int) -> None:
    """Every comparison is constant within a section."""
    row, column = axis(40), axis(64)
    value = Value((40, 64), Scalar.FLOAT32)
    first, second = row * factor + offset < 0, row * factor + offset <= 0
    body = select(first, load(value, (row, column)), select(second, 1.0, load(value, (row, column)) * 2))
    kernel = Kernel(output=Value((40, 64), Scalar.FLOAT32), axes=(row, column), body=body)
    for section in split_into_sections(kernel, _WIDE):
        conditions = (each for each in walk(section.body) if isinstance(each, Apply))
        assert not any(each.op in (Op.LESS, Op.LESS_EQUAL) for each in conditions)
    _check(kernel, RUNNABLE[0])


def test_sections_have_no_conditions() -> None:
    kernel = _joined((64, 64), 0, (40, 64, 24), Scalar.FLOAT32)
    found = split_into_sections(kernel, _WIDE)
    assert [each.shape for each in found] == [(40, 64), (64, 64), (24, 64)]
    assert all(len(each.inputs) == 1 for each in found)
    assert "select" not in render(kernel, _WIDE).text
    assert render(kernel, _WIDE).label.endswith("in 3 sections")


def test_sections_of_rows_are_as_long_as_vectors_unless_shorter_ones_are_faster() -> None:
    assert len(split_into_sections(_joined((64, 64), 1, (40, 24), Scalar.FLOAT32), _WIDE)) == 2
    # Conditions on several values cost more than single elements beside vectors.
    assert len(split_into_sections(_joined((64, 65), 1, (64, 1), Scalar.FLOAT32), _WIDE)) == 2
    assert len(split_into_sections(_joined((64, 67), 1, (64, 3), Scalar.INT8), _WIDE)) == 1
    assert len(split_into_sections(_padded((64, 64), [(0, 0), (1, 2)]), _WIDE)) == 1


@_TARGETS
@sweep("lengths", [(64, 1), (1, 64), (3, 61, 2), (64, 1, 1, 33)])
def test_short_sections_are_stored_where_they_belong(lengths: tuple[int, ...], target: Target) -> None:
    """Rows of one element have lost their axis, so that those along the last one are apart."""
    kernel = _joined((3, 32, sum(lengths)), 2, lengths, Scalar.FLOAT32)
    assert len(split_into_sections(kernel, target)) > 1
    _check(kernel, target)


def test_small_kernels_and_many_sections_are_not_split() -> None:
    assert len(split_into_sections(_joined((8, 8), 0, (4, 4), Scalar.FLOAT32), _WIDE)) == 1
    assert len(split_into_sections(_joined((64, 64), 0, (8,) * 30, Scalar.FLOAT32), _WIDE)) == 1
