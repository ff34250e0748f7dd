import numpy as np
import pytest
from support.compiler.elementwise import computed, kernel_of
from support.cpu.native import RUNNABLE, Array

from neurald.drivers.compiler.ir.expression import Expression, apply
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.codegen.render import render
from neurald.drivers.cpu.target.target import TARGETS, Target

_ONE, _FOUR, _INFINITY, _MIN_NORMAL = (
    int(np.float32(each).view(np.uint32)) for each in (1, 4, np.inf, 2.0**-126)
)


def _inverse_root(x: Expression) -> Expression:
    return apply(Op.RSQRT, x)


def _samples() -> Array:
    """Returns positive floats: of even and odd exponents, all magnitudes, and denormal."""
    bits = (
        np.arange(_ONE, _FOUR, 997),
        np.random.default_rng(1).integers(_MIN_NORMAL, _INFINITY, 1 << 14),
        np.arange(1, _MIN_NORMAL, 1009),
        np.array([1, _MIN_NORMAL - 1, _MIN_NORMAL, _INFINITY - 1]),
    )
    return np.concatenate(bits).astype(np.uint32).view(np.float32)


@pytest.mark.parametrize("target", RUNNABLE, ids=lambda target: target.name)
def test_errors_on_each_target(target: Target) -> None:
    x = _samples()
    exact = 1 / np.sqrt(x.astype(np.float64))
    got = computed([_inverse_root], [x], target)[0]
    off = np.abs(got.astype(np.float64) - exact) / np.spacing(exact.astype(np.float32)).astype(np.float64)
    assert np.max(off) <= (1.5 if target.name == "generic" else 1.0)


@pytest.mark.parametrize("target", RUNNABLE, ids=lambda target: target.name)
def test_special_numbers(target: Target) -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, -1e-40, -3e38] * 8, np.float32)
    expected = np.array([np.inf, -np.inf, 0.0, *[np.nan] * 5] * 8, np.float32)
    np.testing.assert_array_equal(computed([_inverse_root], [x], target)[0], expected)


@pytest.mark.parametrize(("scalar", "is_estimated"), [(Scalar.FLOAT32, True), (Scalar.FLOAT64, False)])
def test_avx2_estimates_only_float32(scalar: Scalar, is_estimated: bool) -> None:
    routine = render(kernel_of(_inverse_root, [Value((64,), scalar)]), TARGETS["avx2"])
    assert any("x86.avx.rsqrt" in each for each in routine.declarations) == is_estimated
