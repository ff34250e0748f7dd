import numpy as np
from support.compiler.elementwise import interpreted, kernel_of

from neurald.drivers.compiler.ir.expression import Expression, apply, clamp, constant
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.emit.int64_narrowing import narrow_int64

_RANDOM = np.random.default_rng(2)


def _product(value: Expression, exponent: int = -4) -> Expression:
    factor = constant(1_500_000_000, Scalar.INT32), constant(exponent, Scalar.INT32)
    return apply(Op.FIXED_POINT, value, *factor, type=Scalar.INT64)


def _widths(root: Expression) -> set[Scalar]:
    return {each.type for each in walk(root) if each.type.is_integer}


def test_rescaled_sums_fit_in_32_bits() -> None:
    value, bias = Value((300,), Scalar.INT32), Value((300,), Scalar.INT32)
    kernel = kernel_of(
        lambda x, b: clamp(_product(x.to(Scalar.INT64) + b.to(Scalar.INT64)) + 300, -128, 127).to(
            Scalar.INT8
        ),
        [value, bias],
    )
    short = narrow_int64(kernel)
    assert Scalar.INT64 in _widths(kernel.body)
    assert Scalar.INT64 not in _widths(short.body)
    inputs = {each: _RANDOM.integers(-(2**30), 2**30, 300).astype(np.int32) for each in (value, bias)}
    np.testing.assert_array_equal(interpreted(short, inputs), interpreted(kernel, inputs))


def test_numbers_that_may_not_fit_stay_int64() -> None:
    value = Value((300,), Scalar.INT32)
    kernel = kernel_of(
        lambda x: clamp(x.to(Scalar.INT64) * x.to(Scalar.INT64), 0, 90).to(Scalar.INT8), [value]
    )
    assert narrow_int64(kernel).body is kernel.body


def test_small_numbers_are_multiplied_and_compared_as_int32() -> None:
    value = Value((300,), Scalar.INT8)
    kernel = kernel_of(lambda x: (x.to(Scalar.INT64) * x.to(Scalar.INT64)) < 100, [value])
    short = narrow_int64(kernel)
    assert Scalar.INT64 not in _widths(short.body)
    inputs = {value: _RANDOM.integers(-128, 128, 300).astype(np.int8)}
    np.testing.assert_array_equal(interpreted(short, inputs), interpreted(kernel, inputs))
