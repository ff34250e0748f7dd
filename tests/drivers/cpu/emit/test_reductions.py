"""The axis along which a reduction is vectorised, and what is known of reduced numbers."""

from neurald.drivers.compiler.ir.expression import (
    Expression,
    Reduce,
    apply,
    axis,
    constant,
    load,
    maximum,
    reduce,
    select,
)
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.emit.reductions import is_number, reduction_axis, reduction_lanes
from neurald.drivers.cpu.target.target import TARGETS

_TARGET = TARGETS["avx512"]


def _reduction(*lengths: int, index: object) -> Reduce:
    value, axes = Value(lengths, Scalar.FLOAT32), tuple(axis(length) for length in lengths)
    at: tuple[Expression, ...] = index(*axes)  # type: ignore[operator]
    found = reduce(ReductionOp.MAXIMUM, axes, load(value, at))
    assert isinstance(found, Reduce)
    return found


def test_contiguous_axes_are_vectorised() -> None:
    fold = _reduction(300, 40, index=lambda y, x: (y, x))
    assert reduction_axis(fold, _TARGET) is fold.axes[1]


def test_a_short_contiguous_axis_is_better_than_a_gathered_one() -> None:
    """In a reflected image, only channels are contiguous."""
    fold = _reduction(300, 300, 8, index=lambda y, x, c: (y, maximum(x - 1, 1 - x), c))
    assert reduction_axis(fold, _TARGET) is fold.axes[2]


def test_short_axes_are_not_vectorised() -> None:
    assert reduction_axis(_reduction(3, 3, index=lambda y, x: (y, x)), _TARGET) is None
    fold = _reduction(500, 3, index=lambda y, x: (y, x))
    assert reduction_axis(fold, _TARGET) is fold.axes[0]


def test_numbers_are_recognised() -> None:
    x = load(Value((4,), Scalar.FLOAT32), (axis(4),))
    is_nan = apply(Op.IS_NAN, x)
    replaced = select(is_nan, 0.0, x)
    assert is_number(replaced)
    assert is_number(apply(Op.ABSOLUTE, -replaced))
    assert is_number(select(x < 1.0, constant(2.0, Scalar.FLOAT32), replaced))
    assert is_number(constant(7, Scalar.INT32))
    assert not is_number(x)
    assert not is_number(select(is_nan, x, 0.0))
    assert not is_number(select(x < 1.0, 0.0, x))
    assert not is_number(select(is_nan, float("nan"), x))
    assert not is_number(replaced + 1.0)


def test_there_are_no_more_lanes_than_elements() -> None:
    assert reduction_lanes(1000, _TARGET) == 64
    assert reduction_lanes(33, _TARGET) == 64
    assert reduction_lanes(16, _TARGET) == 16
    assert reduction_lanes(5, _TARGET) == 8


def test_long_rows_of_bools_fill_several_registers() -> None:
    value, along = Value((9000,), Scalar.BOOL), axis(9000)
    fold = reduce(ReductionOp.ALL, (along,), load(value, (along,)))
    assert isinstance(fold, Reduce)
    assert reduction_lanes(9000, _TARGET, [fold]) == 256
    assert reduction_lanes(900, _TARGET, [fold]) == 64
