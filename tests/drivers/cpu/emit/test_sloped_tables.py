import numpy as np
import pytest
from support.compiler.elementwise import computed, expected
from support.cpu.native import Array
from support.sweeps import sweep

from neurald.drivers.compiler.ir.expression import load
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.sloped_tables import SlopedTable, sloped_table
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.target.target import TARGETS, runs_here

_KINDS = (Scalar.INT8, Scalar.UINT8)
_NUMBERS = np.arange(-128, 128)


def _away(x: Array) -> Array:
    """Rounds with ties away from zero."""
    rounded: Array = np.sign(x) * np.floor(np.abs(x) + 0.5)
    return rounded


def _stored(results: Array, kind: Scalar) -> Value:
    info = np.iinfo(kind.dtype.name)
    return Value((256,), kind, np.clip(results + info.min + 128, info.min, info.max).astype(kind.dtype))


def _leaky(zero: int, above: float, below: float, offset: int) -> Array:
    distance = _NUMBERS - zero
    return np.where(distance >= 0, _away(distance * above), _away(_away(distance * below * 4) / 4)) + offset


def _found(value: Value, target: str = "avx2", lanes: int = 32) -> SlopedTable | None:
    return sloped_table(value, Vector(Instructions(()), TARGETS[target], lanes))


_CASES = {
    "rescaled": _away((_NUMBERS + 7) * 0.8371) - 9,
    "enlarged": _away((_NUMBERS - 100) * 3.3) + 5,
    "reduced": _away(_NUMBERS * 0.03) + 90,
    "negated": -_NUMBERS - 3.0,
    "leaky": _leaky(3, 1.25, 0.125, -5),
    "steep": _leaky(-60, 0.3, 1.7, 20),
    "turned": _leaky(10, 0.9, -0.2, 3),
    "rectified": _away(np.maximum(_NUMBERS - 20, 0) * 0.77) - 30,
    "limited": np.minimum(_away((_NUMBERS + 50) * 0.9), 60),
}


@pytest.mark.parametrize("name", ["avx2", "avx512"])
@sweep("kind", _KINDS)
@sweep("case", list(_CASES))
def test_lines_equal_the_table(case: str, kind: Scalar, name: str) -> None:
    if not runs_here(TARGETS[name]):
        pytest.skip(f"this machine does not run code for {name}")
    table = _stored(_CASES[case], kind)
    assert _found(table, name) is not None
    numbers = _NUMBERS.astype(np.int8)
    for given in (numbers, numbers[5:], numbers[:20]):
        body = [lambda value: load(table, (value.to(Scalar.INDEX) + 128,))]
        np.testing.assert_array_equal(computed(body, [given], TARGETS[name])[0], expected(body, [given])[0])


def test_random_lines_are_almost_always_found() -> None:
    random, found = np.random.default_rng(5), 0
    for _ in range(30):
        zero, offset = random.integers(-128, 128, 2).tolist()
        above, below = np.exp(random.uniform(-1.5, 1, 2)).tolist()
        found += _found(_stored(_leaky(zero, above, below, offset), Scalar.INT8)) is not None
    assert found >= 27


def test_other_tables_are_not_lines() -> None:
    others = [np.tanh(_NUMBERS / 40) * 127, np.random.default_rng(1).integers(-128, 128, 256), _NUMBERS % 7]
    assert all(_found(_stored(np.round(each), kind)) is None for each in others for kind in _KINDS)
    line = _stored(_CASES["leaky"], Scalar.INT8)
    assert _found(line) is not None
    assert _found(line, "avx512vbmi", 64) is None
    assert _found(line, lanes=8) is None
    assert _found(line, "avx512", 16) is None
    assert _found(Value((256,), Scalar.INT8)) is None
