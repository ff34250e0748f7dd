import numpy as np
import pytest
from support.compiler.elementwise import computed, expected, interpreted
from support.cpu.native import RUNNABLE, Array, compiled, run

from neurald.drivers.compiler.ir.expression import Expression, apply, axis, clamp, constant, index, load
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.codegen.render import render
from neurald.drivers.cpu.emit.math.saturated_bytes import limited_byte, moved_byte
from neurald.drivers.cpu.target.target import Target

ROWS = 3
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


@pytest.mark.parametrize("is_shared", [True, False], ids=["one offset for a row", "one for each element"])
@pytest.mark.parametrize("kind", RANGES, ids=lambda kind: kind.name)
@pytest.mark.parametrize("target", RUNNABLE, ids=lambda target: target.name)
def test_any_float_is_rounded_and_moved(target: Target, kind: Scalar, *, is_shared: bool) -> None:
    near = np.array([*NEAR, 0.5, 1.5, 2.5, -0.5, -2.5, 126.5, 127.5, -127.5, -128.5], np.float32)
    below, above = (np.nextafter(near, np.float32(end)) for end in (-np.inf, np.inf))
    random = np.random.default_rng(5).normal(scale=200, size=320)
    row = np.concatenate([SPECIAL, near, below, above, random]).astype(np.float32)
    numbers = np.stack([np.roll(row, offset) for offset in range(0, 16 * ROWS, 16)])
    offsets = np.resize(np.array([-128, 127, -5], np.int8), ROWS * len(row)).reshape(len(row), ROWS).T
    values = Value(numbers.shape, Scalar.FLOAT32), Value(offsets.shape, Scalar.INT8)
    axes = axis(ROWS, "row"), axis(len(row), "column")
    rounded = apply(Op.ROUND_AWAY, load(values[0], axes) * 1.0)
    offset = load(values[1], (axes[0], index(0)) if is_shared else axes).to(Scalar.FLOAT32)
    body = clamp(rounded + offset, *RANGES[kind]).to(kind)
    kernel = Kernel(output=Value(numbers.shape, kind), axes=axes, body=body)
    routine = render(kernel, target)
    given: dict[Value, Array] = {values[0]: numbers, values[1]: np.ascontiguousarray(offsets)}
    with np.errstate(all="ignore"):
        wanted = interpreted(kernel, given)
    found = run(routine, given, target, functions=compiled([routine], target))[0]
    np.testing.assert_array_equal(found, wanted, strict=True)


def test_what_is_a_moved_byte() -> None:
    x, byte = load(Value((1,), Scalar.FLOAT32), (index(0),)), load(Value((1,), Scalar.INT8), (index(0),))
    rounded, offset = apply(Op.ROUND_AWAY, x), byte.to(Scalar.FLOAT32)
    found = moved_byte(rounded + offset)
    assert found is not None
    assert (found.value, found.offset) == (x, byte)
    word = load(Value((1,), Scalar.INT32), (index(0),))
    for other in (rounded, x + offset, rounded + 1.0, rounded + word.to(Scalar.FLOAT32), rounded - offset):
        assert moved_byte(other) is None
