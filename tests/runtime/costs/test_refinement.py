"""Real runs refine the costs of devices."""

import numpy as np
import pytest
from support.devices.simulated import SimulatedDevice
from support.models.control_flow import arithmetic, branching
from support.models.small import add_model, branching_model

import neurald as nd
from neurald.hal.device import Capabilities, KernelTime
from neurald.hal.records import replace
from neurald.runtime.costs import store
from neurald.runtime.costs.estimate import device_costs
from neurald.runtime.costs.refinement import refine_kernels, refine_step
from neurald.runtime.costs.table import Average, CostSource, CostTable, DeviceLink
from neurald.runtime.costs.work import OperationKind

ADD = OperationKind(operation="ADD", operand="TENSOR_FLOAT32")
WORK = 16.0 * 3 * 64 * 64
MODEL = add_model((64, 64))


def seconds(device: nd.Device) -> tuple[float, CostSource] | None:
    return store.costs_of(device).table.seconds(ADD, WORK)


def test_a_step_shares_its_time_among_its_operations() -> None:
    device = SimulatedDevice("refined")
    refine_step(device, MODEL, 0.5)
    found = seconds(device)
    assert found is not None
    # What was only declared is worth no more than a factor of 100 in a single run.
    assert found[1] is CostSource.MEASURED
    for _ in range(40):
        refine_step(device, MODEL, 0.5)
    found = seconds(device)
    assert found is not None
    assert found[0] == pytest.approx(0.5, rel=0.01)


def test_a_step_of_which_most_is_the_launch_says_nothing() -> None:
    device = SimulatedDevice("refined")
    store.costs_of(device).use(CostTable().launched(1.0))
    refine_step(device, MODEL, 1.1)
    assert seconds(device) is None


def test_a_long_step_of_which_half_is_transfers_says_something() -> None:
    device = SimulatedDevice("refined")
    link = DeviceLink(input_bytes_per_s=2 * 64 * 64 * 4 / 0.5, shares_memory=False)
    store.costs_of(device).use(CostTable(launch=Average(seconds=1e-6), link=link))
    for _ in range(60):
        refine_step(device, MODEL, 1.0)
    found = seconds(device)
    assert found is not None
    assert found[0] == pytest.approx(0.5, rel=0.02)
    # A short one does not, because the transfers are not known so exactly.
    store.costs_of(device).use(
        CostTable(launch=Average(seconds=1e-6), link=replace(link, input_bytes_per_s=2e8))
    )
    refine_step(device, MODEL, 330e-6)
    assert seconds(device) is None


def test_transfers_of_outputs_count_as_those_of_inputs_do() -> None:
    device = SimulatedDevice("refined")
    link = DeviceLink(output_bytes_per_s=64 * 64 * 4 / 0.9, shares_memory=False)
    store.costs_of(device).use(CostTable(launch=Average(seconds=1e-6), link=link))
    refine_step(device, MODEL, 1.0)
    assert seconds(device) is None


def test_a_single_run_changes_a_cost_by_a_factor_of_a_hundred_at_most() -> None:
    device = SimulatedDevice("refined")
    declared = device_costs(CostTable(), device.capabilities(), is_remote=False)
    assert declared is not None
    estimate = declared.of(ADD, nd.OperandType.TENSOR_FLOAT32, WORK, relaxed=False).seconds
    refine_step(device, MODEL, 1e6 * estimate + 1.0)
    found = seconds(device)
    assert found is not None
    assert found[0] == pytest.approx(100 * estimate)
    store.costs_of(device).use(CostTable())
    refine_kernels(device, MODEL, [KernelTime(name="a", duration_ns=0, operations=(0,))])
    found = seconds(device)
    assert found is not None
    assert found[0] == pytest.approx(estimate / 100)


@pytest.mark.parametrize("performance", [0.0, float("inf")])
def test_nothing_is_divided_over_operations_of_unknown_times(performance: float) -> None:
    device = SimulatedDevice("refined", performance=performance)
    refine_step(device, MODEL, 0.5)
    refine_kernels(device, MODEL, [KernelTime(name="a", duration_ns=2_000, operations=(0,))])
    assert not store.costs_of(device).table.rates


def test_control_flow_says_nothing() -> None:
    """Keeps the costs: nobody knows how often its operations ran."""
    device = SimulatedDevice("refined")
    model = branching(arithmetic(nd.OperationType.ADD, 1.0), arithmetic(nd.OperationType.MUL, 2.0))
    refine_step(device, model, 0.5)
    refine_kernels(device, model, [KernelTime(name="a", duration_ns=2_000, operations=(0,))])
    assert not store.costs_of(device).table.rates


def test_kernels_that_share_an_operation_in_part_say_nothing() -> None:
    device = SimulatedDevice("refined")
    kernels = [
        KernelTime(name="a", duration_ns=2_000, operations=(0, 1)),
        KernelTime(name="b", duration_ns=2_000, operations=(1, 2)),
    ]
    refine_kernels(device, branching_model(), kernels)
    assert not store.costs_of(device).table.rates
    refine_kernels(device, branching_model(), [kernels[0], replace(kernels[1], operations=(2,))])
    assert len(store.costs_of(device).table.rates) == 3


def test_a_device_whose_driver_fails_is_left_as_it_is() -> None:
    class Failing(SimulatedDevice):
        def capabilities(self) -> Capabilities:
            raise RuntimeError("the driver has a fault")

    device = Failing("refined")
    refine_step(device, MODEL, 0.5)
    refine_kernels(device, MODEL, [KernelTime(name="a", duration_ns=2_000, operations=(0,))])
    assert not store.costs_of(device).table.rates


@pytest.mark.timed
def test_the_fast_runs_of_the_cpu_device_refine_its_costs() -> None:
    """Also those whose work is all done in native code, without an execution."""
    device = nd.devices()[0]
    store.costs_of(device).use(CostTable())
    model = add_model((2048, 2048))
    compilation = nd.CompilationBuilder(model, [device]).finish()
    array = np.zeros((2048, 2048), np.float32)
    for _ in range(30):
        compilation.run(array, array)
    found = store.costs_of(device).table.seconds(ADD, WORK * 1024)
    assert found is not None
    assert found[1] is CostSource.MEASURED
    assert found[0] < 0.1


def test_kernels() -> None:
    device = SimulatedDevice("refined")
    kernels = [KernelTime(name="a", duration_ns=2_000, operations=(0,))] * 2
    for _ in range(40):
        refine_kernels(device, MODEL, kernels)
    found = seconds(device)
    assert found is not None
    assert found[0] == pytest.approx(4e-6, rel=0.05)


@pytest.mark.timed
def test_executions_refine_the_costs_of_their_devices() -> None:
    device = SimulatedDevice("executed", default_s=0.05)
    compilation = nd.CompilationBuilder(MODEL, [device]).finish()
    zeros = np.zeros((64, 64), np.float32)
    for _ in range(9):
        compilation.run(zeros, zeros)
    found = seconds(device)
    assert found is not None
    first = found[0]
    device.default_s = 0.2
    for _ in range(24):
        compilation.run(zeros, zeros)
    found = seconds(device)
    assert found is not None
    assert found[0] > 1.5 * first
