"""Costs on disk: kept for one machine, device and driver version, and nothing wrong is read."""

from pathlib import Path

import msgspec
import pytest
from support.devices.misbehaving import SampleDevice

from neurald.hal.records import replace
from neurald.runtime.costs import store
from neurald.runtime.costs.table import Average, CostTable, DeviceLink
from neurald.runtime.costs.work import OperationKind

ADD = OperationKind(operation="ADD", operand="TENSOR_FLOAT32")
TABLE = CostTable(
    launch=Average(seconds=1e-3, measurements=3),
    step=Average(seconds=5e-6, measurements=2),
    link=DeviceLink(latency_s=1e-4),
).observed(ADD, 64.0, 1e-3)


def stored(device: SampleDevice) -> None:
    store.costs_of(device).use(TABLE)
    store.save(at_once=True)
    store.forget()


def files(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "neurald" / "devices").glob("costs-*"))


def test_costs_are_read_again(tmp_path: Path) -> None:
    device = SampleDevice("kept")
    stored(device)
    assert store.costs_of(device).table == TABLE
    assert len(files(tmp_path)) == 1


def test_costs_of_an_earlier_version_have_no_step(tmp_path: Path) -> None:
    device = SampleDevice("kept")
    stored(device)
    (path,) = files(tmp_path)
    content = msgspec.json.decode(path.read_bytes())
    del content["step"]
    path.write_bytes(msgspec.json.encode(content))
    assert store.costs_of(device).table == replace(TABLE, step=None)


def test_costs_belong_to_a_device_a_version_and_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    device = SampleDevice("kept")
    stored(device)
    other = SampleDevice("kept")
    other.version = "another"
    assert store.costs_of(other).table == CostTable()
    assert store.costs_of(SampleDevice("other")).table == CostTable()
    monkeypatch.setattr(store, "machine", lambda: "another machine")
    assert store.costs_of(device).table == CostTable()


def test_costs_of_another_machine_are_taken_over_for_the_same_version_only() -> None:
    device = SampleDevice("kept")
    store.costs_of(device).use(TABLE)
    content = store.export_costs(device)
    store.forget()
    for version, expected in (("another", CostTable()), (device.version, TABLE), (device.version, TABLE)):
        store.seed_costs(device, version, content)
        assert store.costs_of(device).table == expected
    store.seed_costs(device, device.version, content.replace(b"0.001", b"0.002"))
    assert store.costs_of(device).table == TABLE


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:-3],
        lambda content: content.replace(b"costs 1", b"costs 0"),
        lambda content: content.replace(b"1.5625e-5", b"-1.5625e-5").replace(b"0.000015625", b"-0.000015625"),
        lambda content: content.replace(b'"identity":"', b'"identity":"x'),
        lambda content: content.replace(b'"launch":[0.001', b'"launch":[-0.001'),
        lambda content: content.replace(b'"step":[5e-6', b'"step":[-5e-6').replace(
            b'"step":[0.000005', b'"step":[-0.000005'
        ),
    ],
)
def test_damaged_files_count_as_absent(tmp_path: Path, damage: object) -> None:
    device = SampleDevice("kept")
    stored(device)
    (path,) = files(tmp_path)
    content = path.read_bytes()
    assert damage(content) != content  # type: ignore[operator]
    path.write_bytes(damage(content))  # type: ignore[operator]
    assert store.costs_of(device).table == CostTable()


def test_only_changes_are_written_and_not_all_the_time(tmp_path: Path) -> None:
    device = SampleDevice("kept")
    stored(device)
    (path,) = files(tmp_path)
    path.unlink()
    store.costs_of(device)
    store.save(at_once=True)
    assert files(tmp_path) == []
    store.costs_of(device).scale({(ADD, 64.0): 1.0}, 1.0)
    store.save()  # too soon
    assert files(tmp_path) == []
    store.save(at_once=True)
    (path,) = files(tmp_path)
    assert msgspec.json.decode(path.read_bytes())["format"] == "costs 1"


def test_a_driver_that_fails_has_no_costs(tmp_path: Path) -> None:
    class Failing(SampleDevice):
        @property
        def version(self) -> str:  # type: ignore[override]
            raise RuntimeError("no version")

    store.costs_of(Failing("failing")).use(TABLE)
    store.save(at_once=True)
    assert files(tmp_path) == []
