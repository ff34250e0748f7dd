import numpy as np
import pytest
from support.compiler.elementwise import computed, expected
from support.cpu.native import RUNNABLE

from neurald.drivers.compiler.ir.expression import Expression, clamp, constant
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.cpu.emit.math.saturated_bytes import limited_byte
from neurald.drivers.cpu.target.target import Target

RANGES = {Scalar.INT8: (-128.0, 127.0), Scalar.UINT8: (0.0, 255.0)}
SPECIAL = [np.nan, -np.nan, np.inf, -np.inf, 3e38, -3e38, 2.0**31, -(2.0**31), 2.0**32, 1e-45, -0.0, 0.0]
NEAR = [*RANGES[Scalar.INT8], *RANGES[Scalar.UINT8], 256.0, -1.0, 1.0, 32767.0, 32768.0, -32769.0]


@pytest.mark.parametrize("kind", RANGES, ids=lambda kind: kind.name)
@pytest.mark.parametrize("target", RUNNABLE, ids=lambda target: target.name)
def test_any_float_is_truncated_and_limited(target: Target, kind: Scalar) -> None:
    near = np.array(NEAR, np.float32)
    below, above = (np.nextafter(near, np.float32(end)) for end in (-np.inf, np.inf))
    random = np.random.default_rng(4).normal(scale=200, size=320)
    given = np.concatenate([SPECIAL, near, below, above, random]).astype(np.float32)
    low, high = RANGES[kind]
    bodies = [lambda x: clamp(x * 1.0, low, high).to(kind)]
    # The offsets put each number into every quarter of a register.
    for offset in range(0, 64, 16):
        rolled = np.roll(given, offset)
        np.testing.assert_array_equal(
            computed(bodies, [rolled], target)[0], expected(bodies, [rolled])[0], strict=True
        )


def test_what_matches() -> None:
    x = constant(1.0, Scalar.FLOAT32) + 0.0

    def found(value: Expression) -> object:
        return limited_byte(value)  # type: ignore[arg-type]

    for kind, (low, high) in RANGES.items():
        assert found(clamp(x, low, high).to(kind)) is x
        assert found(clamp(x, low + 1, high).to(kind)) is None
        assert found(clamp(x, low, high - 1).to(kind)) is None
        assert found(clamp(x, low, high).to(Scalar.INT16)) is None
        assert found(x.to(kind)) is None
    assert found(clamp(x, *RANGES[Scalar.UINT8]).to(Scalar.INT8)) is None
