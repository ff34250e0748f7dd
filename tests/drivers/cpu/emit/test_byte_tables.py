"""Tables that registers hold give the elements that NumPy looks up, for each way to permute."""

import numpy as np
import pytest
from support.compiler.elementwise import computed, expected
from support.sweeps import sweep

from neurald.drivers.compiler.ir.expression import Expression, load
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.emit.byte_tables import is_permuted, permuted_lanes
from neurald.drivers.cpu.target.target import TARGETS, runs_here

_RANDOM = np.random.default_rng(3)
_BYTES = np.concatenate([np.arange(256), _RANDOM.integers(0, 256, 700)]).astype(np.uint8)
_TARGETS = [name for name, target in TARGETS.items() if is_permuted(target, "i8", 256)]


@pytest.mark.parametrize("name", _TARGETS)
@sweep("table", [Scalar.INT8, Scalar.UINT8, Scalar.INT16])
@sweep("source", [Scalar.INT8, Scalar.UINT8])
@sweep("count", [16, 32, 50, 64, 100, 956])
def test_elements_equal_those_of_numpy(name: str, table: Scalar, source: Scalar, count: int) -> None:
    if not runs_here(TARGETS[name]):
        pytest.skip(f"this machine does not run code for {name}")
    info = np.iinfo(table.dtype.name)
    elements = _RANDOM.integers(info.min, info.max, 256, endpoint=True).astype(table.dtype)
    value, first = Value((256,), table, elements), int(np.iinfo(source.dtype.name).min)

    def body(number: Expression) -> Expression:
        return load(value, (number.to(Scalar.INDEX) - first,))

    given = [_BYTES[:count].view(source.dtype)]
    np.testing.assert_array_equal(computed([body], given, TARGETS[name])[0], expected([body], given)[0])


def test_words_are_looked_up_where_bytes_are_permuted() -> None:
    found = {name for name, target in TARGETS.items() if is_permuted(target, "i16", 512)}
    assert found == {"amx", "avx512fp16", "avx512vbmi"}
    assert not any(is_permuted(target, "i16", 256) for target in TARGETS.values())
    assert not any(is_permuted(target, "i8", 512) for target in TARGETS.values())


def test_as_many_are_looked_up_at_once_as_a_register_holds() -> None:
    lanes = {name: permuted_lanes(TARGETS[name]) for name in _TARGETS if name != "generic"}
    arm = {name: 16 for name, target in TARGETS.items() if target.machine == "aarch64" and name in lanes}
    assert "aarch64" in arm
    permuted = dict.fromkeys(("amx", "avx512fp16", "avx512vbmi"), 64)
    assert lanes == permuted | dict.fromkeys(("avx512vnni", "avx512", "avx2"), 32) | arm
