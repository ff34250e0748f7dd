"""Estimates: from what was measured down to what a driver declares."""

import math

import pytest
from support.models.small import add_model

import neurald as nd
from neurald.hal.device import Capabilities, Link, Performance
from neurald.runtime.costs import estimate
from neurald.runtime.costs.estimate import STEP_S, ModelWork, device_costs
from neurald.runtime.costs.table import Average, CostSource, CostTable, DeviceLink
from neurald.runtime.costs.work import OperationKind

MODEL = add_model((64, 64))
WORK = 16.0 * 3 * 64 * 64
ADD = OperationKind(operation="ADD", operand="TENSOR_FLOAT32")
MUL = OperationKind(operation="MUL", operand="TENSOR_FLOAT32")


def capabilities(exec_time: float = 0.5, power: float = 0.25) -> Capabilities:
    performance = Performance(exec_time=exec_time, power_usage=power)
    return Capabilities(
        operand_performance={nd.OperandType.TENSOR_FLOAT32: performance},
        relaxed_float32_scalar=performance,
        relaxed_float32_tensor=Performance(exec_time=0.1, power_usage=0.1),
        if_performance=performance,
        while_performance=performance,
    )


@pytest.fixture(autouse=True)
def _speed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "host_multiplications_per_s", lambda: 1e9)


def cost(table: CostTable, **options: object) -> estimate.OperationCost:
    costs = device_costs(table, capabilities(), **options)  # type: ignore[arg-type]
    return ModelWork(MODEL).cost(MODEL.main, MODEL.main.operations[0], costs)


def test_sources_from_best_to_worst() -> None:
    declared = cost(CostTable())
    assert declared.source is CostSource.DECLARED
    assert declared.seconds == pytest.approx(0.5 * WORK / 1e9)
    assert declared.energy == pytest.approx(0.25 * WORK / 1e9)
    roofline = cost(CostTable().observed(MUL, 1e6, 1.0))
    assert roofline.source is CostSource.ROOFLINE
    assert roofline.seconds == pytest.approx(1e-6 * WORK)
    scaled = cost(CostTable().observed(ADD, 10_000.0, 1e-1))
    assert scaled.source is CostSource.SCALED
    assert scaled.seconds == pytest.approx(1e-5 * WORK)
    measured = cost(CostTable().observed(ADD, WORK, 7.0))
    assert measured.source is CostSource.MEASURED
    assert measured.seconds == pytest.approx(7.0)
    assert cost(CostTable().observed(ADD, WORK, 7.0), weight=2.0).seconds == pytest.approx(14.0)


def test_types_that_a_device_does_not_list_are_infinitely_slow() -> None:
    costs = device_costs(CostTable(), capabilities())
    found = costs.of(ADD, nd.OperandType.TENSOR_QUANT8_ASYMM, 1.0, relaxed=False)
    assert found.seconds == found.energy == math.inf
    relaxed = costs.of(ADD, nd.OperandType.TENSOR_FLOAT32, 1e9, relaxed=True)
    assert relaxed.seconds == pytest.approx(0.1)
    broken = device_costs(CostTable(), capabilities(exec_time=math.nan))
    assert broken.of(ADD, nd.OperandType.TENSOR_FLOAT32, 1.0, relaxed=False).seconds == math.inf


def test_launches_and_links_of_unmeasured_devices_are_usual_ones() -> None:
    cpu, local, daemon = (
        device_costs(CostTable(), capabilities(), is_cpu=cpu, is_remote=remote)
        for cpu, remote in ((True, False), (False, False), (False, True))
    )
    assert cpu.launch_s < local.launch_s < daemon.launch_s
    assert cpu.transfer_s(1 << 30, inward=True) == local.transfer_s(1 << 30, inward=False) == 0
    assert daemon.transfer_s(1 << 30, inward=True) > 0.01
    assert not cpu.is_measured
    assert cpu.step_s == local.step_s == daemon.step_s == STEP_S
    host = device_costs(
        CostTable(), capabilities(), is_remote=True, host_link=Link(latency_s=1.0, bytes_per_s=100.0)
    )
    assert host.launch_s == 1.0
    assert host.transfer_s(200, inward=True) == 2.0


def test_measured_launches_and_links_count() -> None:
    table = CostTable(
        launch=Average(seconds=0.5),
        step=Average(seconds=0.25),
        link=DeviceLink(input_bytes_per_s=10.0, output_bytes_per_s=20.0),
    )
    costs = device_costs(table, capabilities(), is_remote=True)
    assert (costs.launch_s, costs.step_s) == (0.5, 0.25)
    assert costs.transfer_s(40, inward=True) == 4.0
    assert costs.transfer_s(40, inward=False) == 2.0
