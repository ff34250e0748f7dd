import numpy as np
import pytest
from support.compiler.elementwise import computed, expected
from support.cpu.native import DIFFERENT, Array

from neurald.drivers.compiler.ir.expression import Expression, apply, clamp, constant
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.emit.math.quotients import quotient_of
from neurald.drivers.cpu.target.target import Target

_RANDOM = np.random.default_rng(23)
_SCALES = [0.05, 1.0, 1 / 3, 0.1, 7.3e-4, 12.7, 1e-30, *np.exp(_RANDOM.uniform(-9, 3, 8)).astype(np.float32)]
_RANGES = {Scalar.INT8: (-128, 127), Scalar.UINT8: (0, 255), Scalar.INT16: (-300, 300)}


def _quantised(x: Expression, scale: float, kind: Scalar, zero_point: int = 3) -> Expression:
    low, high = (float(limit - zero_point) for limit in _RANGES[kind])
    rounded = clamp(apply(Op.ROUND_AWAY, x / scale), low, high).to(Scalar.INT32)
    return (rounded + zero_point).to(kind)


def _samples(scale: float) -> Array:
    """Returns floats of all magnitudes, and floats next to rounding boundaries."""
    between = ((np.arange(-310, 310) + 0.5) * scale).astype(np.float32)
    near = (between.view(np.int32) + np.arange(-3, 4, dtype=np.int32)[:, None]).view(np.float32).ravel()
    bits = _RANDOM.integers(0, 1 << 32, 3000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    edges = np.array([0, 1e-45, 1e-40, 3e38, np.inf, np.nan], np.float32)
    whole = (_RANDOM.uniform(-400, 400, 3000) * scale).astype(np.float32)
    return np.concatenate([near, bits, edges, -edges, whole])


@pytest.mark.parametrize("kind", _RANGES, ids=lambda kind: kind.name)
@pytest.mark.parametrize("target", DIFFERENT, ids=lambda target: target.name)
def test_quantisation_equals_a_division(target: Target, kind: Scalar) -> None:
    for scale in _SCALES[:: 1 if target is DIFFERENT[0] else 5]:
        x = _samples(float(scale))
        body = [lambda value, scale=float(scale): _quantised(value, scale, kind)]
        np.testing.assert_array_equal(computed(body, [x], target)[0], expected(body, [x])[0])


def test_expressions_that_do_not_match() -> None:
    x = constant(1.0, Scalar.FLOAT32) + 0.0
    rounded = apply(Op.ROUND_AWAY, x / 0.1)

    def found(value: Expression) -> bool:
        result = value.to(Scalar.INT32)
        return quotient_of(result) is not None  # type: ignore[arg-type]

    assert found(clamp(rounded, -128.0, 127.0))
    assert not found(rounded)
    assert not found(clamp(rounded, -1e6, 1e6))
    assert not found(clamp(apply(Op.FLOOR, x / 0.1), -128.0, 127.0))
    assert not found(clamp(apply(Op.ROUND_AWAY, x / -0.1), -128.0, 127.0))
    assert not found(clamp(apply(Op.ROUND_AWAY, x / x), -128.0, 127.0))
