"""Calibration of devices whose speed is known."""

import pytest
from support.devices.misbehaving import FailingDevice
from support.devices.simulated import SimulatedDevice

import neurald as nd
from neurald.hal.errors import OpFailed
from neurald.runtime.costs import calibration
from neurald.runtime.costs.calibration import calibrate
from neurald.runtime.costs.work import OperationKind


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "_TURNS", 3)
    monkeypatch.setattr(calibration, "_MIN_RUNS", 1)
    monkeypatch.setattr(calibration, "_MIN_TURN_S", 0.0)


@pytest.mark.timed
def test_a_device_of_known_speed_is_measured() -> None:
    supported = (nd.OperationType.ADD, nd.OperationType.RESHAPE, nd.OperationType.RELU)
    device = SimulatedDevice(
        "known",
        seconds={nd.OperationType.ADD: 0.04, nd.OperationType.RELU: 0.08},
        launch_s=0.02,
        bytes_per_s=2e8,
        supports=supported.__contains__,
    )
    shown: list[tuple[int, int]] = []
    table = calibrate(device, lambda done, total: shown.append((done, total)))
    assert shown[-1][0] == shown[-1][1]
    assert table.launch is not None
    assert table.link is not None
    assert table.launch.seconds == pytest.approx(0.02, rel=0.3)
    assert table.link.input_bytes_per_s == pytest.approx(2e8, rel=0.3)
    assert not table.link.shares_memory
    assert {kind.operation for kind in table.rates} == {"ADD", "RELU"}
    for operation, expected in (("ADD", 0.04), ("RELU", 0.08)):
        kind = OperationKind(operation=operation, operand="TENSOR_FLOAT32")
        found = table.seconds(kind, 16.0 * 2 * 16**3)
        assert found is not None
        assert found[0] == pytest.approx(expected, rel=0.4)


def test_the_cpu_device_copies_nothing() -> None:
    table = calibrate(nd.devices()[0])
    assert table.link is not None
    assert table.link.shares_memory
    assert len(table.rates) == 22


def test_a_device_that_runs_nothing_is_an_error() -> None:
    with pytest.raises(OpFailed, match="broken"):
        calibrate(FailingDevice(error=OpFailed("broken")))


def test_faults_of_a_driver_are_errors() -> None:
    class Faulty(SimulatedDevice):
        def supported_operations(self, model: nd.Model):  # type: ignore[no-untyped-def]
            raise ValueError("a fault")

    with pytest.raises(OpFailed, match="a fault"):
        calibrate(Faulty("faulty"))
