"""Square roots are correctly rounded for floats of all magnitudes, on each target."""

import numpy as np
import pytest
from support.compiler.elementwise import computed, kernel_of
from support.cpu.native import RUNNABLE

from neurald.drivers.compiler.ir.expression import Expression, apply
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.codegen.render import render
from neurald.drivers.cpu.target.target import TARGETS, Target

_INFINITY = int(np.float32(np.inf).view(np.uint32))
_ESTIMATE = "x86.avx512.rsqrt14"


def _root(x: Expression) -> Expression:
    return apply(Op.SQRT, x)


@pytest.mark.parametrize("target", RUNNABLE, ids=lambda target: target.name)
def test_roots_are_correctly_rounded(target: Target) -> None:
    # Consecutive floats fall to registers in turn, so that each way to compute them gets all kinds.
    starts = np.random.default_rng(1).integers(0, _INFINITY - 64, 1 << 13)
    bits = (starts[:, None] + np.arange(64)).reshape(-1)
    edges = [0, 1, (127 - 76) << 23, (127 - 80) << 23, 1 << 23, _INFINITY - 1, _INFINITY]
    near = np.clip(np.array(edges)[:, None] + np.arange(-64, 64), 0, _INFINITY).reshape(-1)
    x = np.concatenate([bits, near]).astype(np.uint32).view(np.float32)
    np.testing.assert_array_equal(computed([_root], [x], target)[0], np.sqrt(x))


@pytest.mark.parametrize("target", RUNNABLE, ids=lambda target: target.name)
def test_special_numbers(target: Target) -> None:
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, -1e-40, -3e38]
    x = np.repeat(np.array(special, np.float32), 32)
    with np.errstate(invalid="ignore"):
        expected = np.sqrt(x)
    got = computed([_root], [x], target)[0]
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(np.signbit(got[x == 0]), np.signbit(x[x == 0]))


@pytest.mark.parametrize(
    ("name", "scalar", "count", "is_estimated"),
    [
        ("avx512", Scalar.FLOAT32, 256, True),
        ("avx512", Scalar.FLOAT32, 16, False),
        ("avx512", Scalar.FLOAT64, 256, False),
        ("avx2", Scalar.FLOAT32, 256, False),
    ],
)
def test_only_several_long_registers_are_estimated(
    name: str, scalar: Scalar, count: int, is_estimated: bool
) -> None:
    routine = render(kernel_of(_root, [Value((count,), scalar)]), TARGETS[name])
    assert any(_ESTIMATE in each for each in routine.declarations) == is_estimated
