"""Rows whose loop is written out: positions of elements, contiguous vectors, generated code."""

from collections.abc import Callable

import numpy as np
import pytest
from support.compiler.elementwise import interpreted
from support.cpu.native import DIFFERENT, Array, compiled, run
from support.sweeps import sweep

from neurald.drivers.compiler.ir.expression import (
    Axis,
    Expression,
    Load,
    Reduce,
    apply,
    axis,
    index,
    load,
    maximum,
    minimum,
    reduce,
    select,
)
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.codegen.render import render
from neurald.drivers.cpu.schedule.lane_constants import LaneConstants, RowLoad, SteppedReduction, windows
from neurald.drivers.cpu.target.target import Target

_TARGETS = pytest.mark.parametrize("target", DIFFERENT, ids=lambda target: target.name)
_KINDS = (Scalar.INT8, Scalar.INT16, Scalar.FLOAT32, Scalar.FLOAT16, Scalar.BOOL, Scalar.INT64)


@sweep("seed", range(30))
def test_windows_cover_all_elements(seed: int) -> None:
    generator = np.random.default_rng(seed)
    low, high = sorted(int(each) for each in generator.integers(-50, 200, 2))
    offsets = [int(each) for each in generator.integers(low, high + 1, 1 + seed)]
    length, starts = windows(offsets, (low, high), 16)
    assert length in (1, 2, 4, 8, 16)
    assert starts == sorted(set(starts))
    assert all(low <= start and start + length <= high + 1 for start in starts)
    assert all(any(start <= each < start + length for start in starts) for each in offsets)


def test_contiguous_elements_are_one_window() -> None:
    assert windows(range(3, 19), (0, 100), 16) == (16, [3])
    assert windows([5, 5, 5], (0, 100), 16) == (1, [5])
    # A window that would exceed the memory begins earlier.
    assert windows([9, 15], (0, 15), 16) == (8, [8])


def _row_load(body: Expression, along: Axis) -> RowLoad | None:
    assert isinstance(body, Load)
    return LaneConstants(along).row_load(body)


def test_positions_relative_to_the_row() -> None:
    row, along = axis(5), axis(8)
    value = Value((6, 20), Scalar.FLOAT32)
    found = _row_load(load(value, (row + 1, along % 2 * 10 + along // 2)), along)
    assert found is not None
    assert found.base is row * 20 + 20
    assert found.offsets.tolist() == [0, 10, 1, 11, 2, 12, 3, 13]
    assert found.mask.all()
    assert found.condition is None


def test_conditions_are_split() -> None:
    row, along = axis(5), axis(8)
    value = Value((6, 20), Scalar.FLOAT32)
    guard = (along >= 3) & (row < 4)
    body = load(value, (row, along - 3), guard, 0)
    assert isinstance(body, Load)
    found = _row_load(body, along)
    assert found is not None
    assert found.condition is (row < 4)
    assert found.mask.tolist() == [False] * 3 + [True] * 5
    # Nothing is known about rows for which the condition does not hold.
    assert found.reach(body) == (3, 7)
    whole = load(value, (row, along - 3), along >= 3, 0)
    assert isinstance(whole, Load)
    unconditional = _row_load(whole, along)
    assert unconditional is not None
    assert unconditional.reach(whole) == (3, 6 * 20 - 1 - 77)


def test_unknown_positions() -> None:
    row, along = axis(5), axis(8)
    value, indices = Value((40,), Scalar.FLOAT32), Value((8,), Scalar.INT32)
    number = minimum(maximum(load(indices, (along,)).to(Scalar.INDEX), 0), 39)
    assert _row_load(load(value, (number,)), along) is None
    assert _row_load(load(value, ((row * 3 + along) // 2,)), along) is None
    assert _row_load(load(value, (along * 4,), row < along, 0), along) is None


Body = Callable[[tuple[Axis, ...], Value, Value], Expression]


def _shuffled(at: tuple[Axis, ...], first: Value, second: Value) -> Expression:
    """Interleaves the channels of two values."""
    half = first.shape[1]
    position = at[1] % 2 * half + at[1] // 2
    other = load(second, (at[0], position - half), position >= half, 0)
    return load(first, (at[0], position), position < half, other)


def _reversed(at: tuple[Axis, ...], first: Value, second: Value) -> Expression:
    return load(first, (at[0], (first.shape[1] - 1) - at[1] // 2))


def _selected(at: tuple[Axis, ...], first: Value, second: Value) -> Expression:
    """Selects by a condition on elements, under a condition on rows."""
    is_first = (at[1] % 3).equals(1) & (at[0] > 0)
    one = load(first, (at[0] - 1, at[1] // 2), is_first, 1)
    return select(is_first, one, load(second, (at[0], at[1] // 2)))


def _concatenated(at: tuple[Axis, ...], first: Value, second: Value) -> Expression:
    length = first.shape[1]
    other = load(second, (at[0], at[1] - length), at[1] >= length, 0)
    return load(first, (at[0], at[1]), at[1] < length, other)


def _by_data(at: tuple[Axis, ...], first: Value, second: Value) -> Expression:
    """Loads rows whose numbers are data."""
    row = minimum(maximum(load(second, (at[0], index(0))).to(Scalar.INDEX), 0), first.shape[0] - 1)
    return load(first, (row, at[1] % 2 * (first.shape[1] - 1)))


def _check(body: Body, rows: int, length: int, kind: Scalar, target: Target, *, pitch: int = 0) -> str:
    """Compares the generated code with the interpreter; returns its label."""
    first, second = (Value((rows, length), kind) for _ in range(2))
    at = (axis(rows, "r"), axis(2 * length, "c"))
    output = Value((rows, pitch or 2 * length), kind)
    kernel = Kernel(
        output=Value((rows, 2 * length), kind) if not pitch else output,
        axes=at,
        body=body(at, first, second),
        output_offset=at[0] * pitch + at[1] if pitch else None,
    )
    generator = np.random.default_rng(rows)
    inputs: dict[Value, Array] = {
        value: generator.integers(0, 2 if kind is Scalar.BOOL else 100, value.shape).astype(kind.dtype)
        for value in kernel.inputs
    }
    wanted = interpreted(Kernel(output=Value((rows, 2 * length), kind), axes=at, body=kernel.body), inputs)
    routine = render(kernel, target)
    functions = compiled([routine], target)
    for at_start in (False, True):
        got, status = run(
            routine,
            inputs,
            target,
            at_start=at_start,
            splits=(1, 3),
            functions=functions,
        )
        assert not status
        np.testing.assert_array_equal(got[:, : 2 * length] if pitch else got, wanted)
    return routine.label


@_TARGETS
@sweep("body", [_shuffled, _reversed, _selected, _concatenated, _by_data])
@sweep("kind", _KINDS)
@sweep("shape", [(1, 1), (7, 3), (5, 58)])
def test_written_out_rows(body: Body, kind: Scalar, shape: tuple[int, int], target: Target) -> None:
    if body is _by_data and kind in (Scalar.FLOAT32, Scalar.FLOAT16, Scalar.BOOL):
        return
    _check(body, *shape, kind, target)


@_TARGETS
def test_shuffled_channels_are_written_out(target: Target) -> None:
    assert "written out" in _check(_shuffled, 50, 58, Scalar.INT8, target)
    assert "written out" in _check(_shuffled, 9, 29, Scalar.FLOAT32, target)


@_TARGETS
@sweep("length", [190, 960])
def test_rows_by_a_table_are_written_out_although_they_are_long(length: int, target: Target) -> None:
    """Rows of images of 640 pixels are as long as the longer ones."""
    count = 2 * length
    table = np.sort(np.random.default_rng(2).integers(0, length, count)).astype(np.uint16)

    def body(at: tuple[Axis, ...], first: Value, _: Value) -> Expression:
        return load(first, (at[0], load(Value((count,), Scalar.UINT16, table), (at[1],)).to(Scalar.INDEX)))

    is_written_out = "written out" in _check(body, 3, length, Scalar.FLOAT32, target)
    assert is_written_out == (length == 190 or target.vector_bytes > 16)


Pooled = Callable[[Axis, Axis, Value, tuple[Axis, Axis, Axis]], Expression]


def _pooled(y: Axis, x: Axis, value: Value, at: tuple[Axis, Axis, Axis]) -> Expression:
    """Returns an element of a window that is inside the value; windows have steps of two."""
    return load(value, (at[0] * 2 + y, at[1] * 2 + x, at[2]))


def _pooled_with_border(y: Axis, x: Axis, value: Value, at: tuple[Axis, Axis, Axis]) -> Expression:
    """Returns an element of a window that may exceed the value at each side."""
    row, column = at[0] * 2 + y - 1, at[1] * 2 + x - 1
    height, width, _ = value.shape
    is_inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
    return load(value, (row, column, at[2]), is_inside, 0)


def _product_of_two(y: Axis, x: Axis, value: Value, at: tuple[Axis, Axis, Axis]) -> Expression:
    """Multiplies elements at two distances."""
    return _pooled(y, x, value, at) * load(value, (at[0] * 2, at[1] * 2 + x + 1, at[2]))


@_TARGETS
@sweep("kind", [Scalar.INT8, Scalar.INT16, Scalar.FLOAT32, Scalar.FLOAT16, Scalar.INT64])
@sweep("pooled", [_pooled, _pooled_with_border, _product_of_two])
@sweep("window", [(2, 2), (3, 3), (7, 5)])
@sweep("channels", [1, 3, 5])
def test_reduced_rows(
    pooled: Pooled, window: tuple[int, int], channels: int, kind: Scalar, target: Target
) -> None:
    """Windows of few channels are reduced for contiguous elements, of which half are kept."""
    if pooled is _product_of_two and kind is Scalar.FLOAT16:
        return
    height, width = 14, 33
    value = Value((height * 2 + window[0], width * 2 + window[1] + 1, channels), kind)
    at = (axis(height), axis(width), axis(channels))
    y, x = axis(window[0]), axis(window[1])
    output = Value((height, width, channels), kind)
    fold = ReductionOp.SUM if pooled is _product_of_two else ReductionOp.MAXIMUM
    kernel = Kernel(output=output, axes=at, body=reduce(fold, (y, x), pooled(y, x, value, at)))
    generator = np.random.default_rng(channels)
    inputs: dict[Value, Array] = {value: generator.integers(-5, 6, value.shape).astype(kind.dtype)}
    routine = render(kernel, target)
    functions = compiled([routine], target)
    for at_start in (False, True):
        got, status = run(routine, inputs, target, at_start=at_start, splits=(1, 3), functions=functions)
        assert not status
        np.testing.assert_array_equal(got, interpreted(kernel, inputs))
    if (
        pooled is _pooled
        and (channels, window, kind) == (3, (3, 3), Scalar.FLOAT32)
        and target.vector_bytes > 16
    ):
        assert "written out" in routine.label


def test_not_a_number_stays_in_its_windows() -> None:
    value, at, y, x = Value((9, 41, 3), Scalar.FLOAT32), (axis(4), axis(20), axis(3)), axis(3), axis(3)
    body = reduce(ReductionOp.MAXIMUM, (y, x), _pooled(y, x, value, at))
    kernel = Kernel(output=Value((4, 20, 3), Scalar.FLOAT32), axes=at, body=body)
    numbers = np.random.default_rng(1).standard_normal(value.shape).astype(np.float32)
    numbers[::4, ::7, 1] = np.nan
    for target in DIFFERENT:
        routine = render(kernel, target)
        got, _ = run(routine, {value: numbers}, target)
        np.testing.assert_array_equal(got, interpreted(kernel, {value: numbers}))


def test_what_is_reduced_alike_for_all_elements_of_a_row() -> None:
    at, y = (axis(6), axis(8)), axis(3)
    value = Value((6, 40), Scalar.FLOAT32)

    def found(body: Expression) -> SteppedReduction | None:
        reduction = reduce(ReductionOp.SUM, (y,), body)
        assert isinstance(reduction, Reduce)
        return LaneConstants(at[1]).row_reduction(reduction)

    alike = found(load(value, (at[0], at[1] * 4 + y)) * load(value, (at[0], at[1] * 4 + 2)))
    assert alike is not None
    assert alike.offsets.tolist() == [0, 4, 8, 12, 16, 20, 24, 28]
    assert alike.reach == (0, 28 + 9)
    # Two loads with other distances, an index, and a condition.
    assert found(load(value, (at[0], at[1] * 4 + y)) * load(value, (at[0], at[1] * 2))) is None
    assert found(load(value, (at[0], at[1] * 4 + y)) * at[1].to(Scalar.FLOAT32)) is None
    assert found(load(value, (at[0], at[1] * 4 + y), at[1] > 2, 0)) is None


def test_long_rows_are_loops() -> None:
    value = Value((2, 5003), Scalar.FLOAT32)
    at = (axis(2), axis(5003))
    body = load(value, (at[0], at[1] * 7 % 5003))
    kernel = Kernel(output=Value((2, 5003), Scalar.FLOAT32), axes=at, body=body)
    assert "written out" not in render(kernel, DIFFERENT[0]).label


def test_functions_of_shuffled_elements() -> None:
    first = Value((40, 24), Scalar.FLOAT32)
    at = (axis(40), axis(24))
    number = load(first, (at[0], at[1] % 3 * 8 + at[1] // 3))
    body = apply(Op.ABSOLUTE, number * 2.0 + number)
    kernel = Kernel(output=Value((40, 24), Scalar.FLOAT32), axes=at, body=body)
    inputs: dict[Value, Array] = {
        first: np.random.default_rng(0).standard_normal((40, 24)).astype(np.float32)
    }
    routine = render(kernel, DIFFERENT[0])
    assert "written out" in routine.label
    got, _ = run(routine, inputs, DIFFERENT[0])
    np.testing.assert_array_equal(got, interpreted(kernel, inputs))
