"""Properties of devices are remembered: every byte of a file is checked before it is used."""

import json
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from support.sweeps import sweep

from neurald.drivers.sample.device import create_all
from neurald.hal.device import Capabilities, Performance
from neurald.hal.process.address import Address
from neurald.hal.records import replace
from neurald.runtime.devices import kept_file, measurements
from neurald.runtime.devices.measurements import (
    RETRY_S,
    Failure,
    Measurement,
    load,
    store,
    store_failure,
)

_ADDRESS = Address(path=Path("/run/gpu.sock"))


@pytest.fixture(autouse=True)
def _own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))


def stored() -> dict[str, Any]:
    (content,) = kept_file.contents(measurements._file_name(_ADDRESS))
    found: dict[str, Any] = json.loads(content)
    return found


def test_a_device_comes_back_with_all_its_properties() -> None:
    assert load(_ADDRESS) is None
    device = create_all()
    store(_ADDRESS, device)
    found = load(_ADDRESS)
    assert isinstance(found, Measurement)
    assert (found.name, found.type, found.version) == (device.name, device.type, device.version)
    assert (found.feature_level, found.extensions) == (device.feature_level, tuple(device.extensions))
    assert found.declared_extensions == device.declared_extensions
    assert found.cache_files_needed == device.cache_files_needed
    ours, theirs = found.capabilities, device.capabilities()
    for kind, performance in ours.operand_performance.items():
        assert theirs.operand_performance[kind] == performance
    assert replace(ours, operand_performance={}) == replace(theirs, operand_performance={})
    assert load(Address(path=Path("/run/other.sock"))) is None


def test_infinite_figures_stay_large(monkeypatch: pytest.MonkeyPatch) -> None:
    device = create_all()
    slow = Performance(exec_time=float("inf"), power_usage=float("inf"))
    capabilities = Capabilities(
        operand_performance=MappingProxyType({}),
        relaxed_float32_scalar=slow,
        relaxed_float32_tensor=slow,
        if_performance=slow,
        while_performance=slow,
    )
    monkeypatch.setattr(device, "capabilities", lambda: capabilities)
    store(_ADDRESS, device)
    found = load(_ADDRESS)
    assert isinstance(found, Measurement)
    assert found.capabilities.if_performance.exec_time > 1e300


def test_nothing_new_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Plain:
        """A device without types of its own."""

        def __init__(self) -> None:
            self._all = create_all()

        def __getattr__(self, name: str) -> Any:
            return getattr(self._all, name)

        def capabilities(self) -> Capabilities:
            return replace(self._all.capabilities(), operand_performance={})

    store(_ADDRESS, Plain())
    written: list[str] = []
    monkeypatch.setattr(kept_file, "write", lambda name, content: written.append(name))
    store(_ADDRESS, Plain())
    assert not written


_Damage = Callable[[dict[str, Any]], object]
_DAMAGES: dict[str, _Damage] = {
    "format": lambda found: found.update(format="0"),
    "address": lambda found: found.update(address="unix:///run/other.sock"),
    "unknown field": lambda found: found.update(more=1),
    "no device": lambda found: found.update(device=None),
    "type": lambda found: found["device"].update(type="TOASTER"),
    "level": lambda found: found["device"].update(feature_level=3),
    "name": lambda found: found["device"].update(name="a\nb"),
    "no name": lambda found: found["device"].update(name=""),
    "long name": lambda found: found["device"].update(name="a" * 5000),
    "extension": lambda found: found["device"].update(extensions=["\x1b[2J"]),
    "declaration": lambda found: found["device"]["declared_extensions"][0].__setitem__(0, "Not A Name"),
    "operation": lambda found: found["device"]["declared_extensions"][0][2][0].__setitem__(0, -1),
    "cache files": lambda found: found["device"].update(cache_files_needed=[33, 0]),
    "operand type": lambda found: found["device"]["operand_performance"].update(BANANA=[1, 1]),
    "negative": lambda found: found["device"]["operand_performance"].update(FLOAT32=[-1, 1]),
    "text": lambda found: found["device"]["operand_performance"].update(FLOAT32=["1", 1]),
    "zero": lambda found: found["device"]["other_performance"].__setitem__(0, [0, 0]),
    "null": lambda found: found["device"]["other_performance"].__setitem__(0, [None, None]),
    "few": lambda found: found["device"]["other_performance"].pop(),
}


@sweep("damage", list(_DAMAGES))
def test_a_damaged_file_counts_as_none(damage: str) -> None:
    store(_ADDRESS, create_all())
    found = stored()
    _DAMAGES[damage](found)
    kept_file.write(measurements._file_name(_ADDRESS), json.dumps(found).encode())
    assert load(_ADDRESS) is None


def test_no_bytes_are_an_error() -> None:
    store(_ADDRESS, create_all())
    (content,) = kept_file.contents(measurements._file_name(_ADDRESS))
    for end in range(0, len(content), 37):
        kept_file.write(measurements._file_name(_ADDRESS), content[:end])
        assert load(_ADDRESS) is None
    for hostile in (b"\xff" * 100, b"[" * 100_000, b'{"format": ' + b"9" * 10_000 + b"}"):
        kept_file.write(measurements._file_name(_ADDRESS), hostile)
        assert load(_ADDRESS) is None


def test_a_failure_is_remembered_until_it_is_time_to_try_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 1e9
    monkeypatch.setattr("time.time", lambda: now_s)
    store_failure(_ADDRESS, "there is no platform")
    assert load(_ADDRESS) == Failure(reason="there is no platform", is_due=False)
    now_s += RETRY_S
    assert load(_ADDRESS) == Failure(reason="there is no platform", is_due=True)
    now_s -= 2 * RETRY_S  # the clock was set back
    assert load(_ADDRESS) == Failure(reason="there is no platform", is_due=True)
    boot = tmp_path / "boot"
    boot.write_text("another one")
    with monkeypatch.context() as after:
        after.setattr(measurements, "_BOOT_ID", boot)
        assert load(_ADDRESS) is None
    store(_ADDRESS, create_all())
    assert isinstance(load(_ADDRESS), Measurement)
