"""Measures what the runtime needs for a step of a plan of several, with a small plan of its own."""

from typing import Final

from neurald.hal.device import Device, ExecuteOptions, PrepareOptions
from neurald.hal.errors import Error, OpFailed
from neurald.hal.memory.pool import HostMemory, Memory, SharedMemory
from neurald.hal.memory.private_memory import aligned_zeros
from neurald.hal.model.request import Argument, Request
from neurald.hal.model.types import DeviceType, Preference
from neurald.hal.records import replace
from neurald.runtime.costs.micro_models import MicroModel, chained_models
from neurald.runtime.costs.table import Average, CostTable
from neurald.runtime.devices.driver_faults import convert_driver_faults
from neurald.runtime.execution.measurement.step_overhead import StepOverhead
from neurald.runtime.execution.program.executor import plan_executor
from neurald.runtime.execution.recovery.recovery import Recovery
from neurald.runtime.model.branches import MAIN
from neurald.runtime.partitioning.groups import StepGroup
from neurald.runtime.plan.plan import CompoundBody
from neurald.runtime.plan.planner import make_plan
from neurald.runtime.plan.preparer import Preparer

#: Plans mostly have few steps, which share what is needed once.
_STEPS: Final = 4
_RUNS: Final = 256


def with_step(table: CostTable, device: Device, earlier: CostTable) -> CostTable:
    """Returns the costs of a device, with what the runtime needs for a step.

    Args:
        table: the table that was measured.
        device: the device that it is of.
        earlier: keeps its figure if the device can run none of the plans.
    """
    for build in chained_models(_STEPS):
        micro = build()
        try:
            with convert_driver_faults(device.name):
                if all(verdict.ok for verdict in device.supported_operations(micro.model)):
                    seconds = _measured_s(device, micro)
                    return replace(table, step=Average(seconds=seconds, measurements=_RUNS))
        except Error:
            continue  # it claims more than it can
    return replace(table, step=earlier.step)


def _measured_s(device: Device, micro: MicroModel) -> float:
    """Returns the shortest time that a plan with a step for each operation needs around a call."""
    model = micro.model
    groups = [StepGroup(graph=MAIN, device=0, operations=(n,)) for n in range(_STEPS)]
    is_processor = device.type is DeviceType.CPU
    # Other drivers may measure kernels for minutes if an answer is to be fast.
    preference = PrepareOptions().preference if is_processor else Preference.LOW_POWER
    preparer = Preparer(PrepareOptions(preference=preference))
    plan = make_plan(model, groups, (device,), preparer, may_fall_back=False).plan
    assert isinstance(plan.body, CompoundBody)  # noqa: S101 - it has several steps
    recovery = Recovery(model, plan.steps, preparer, may_fall_back=False)
    executor, overhead = plan_executor(plan), StepOverhead(plan.body)
    request, found = _request(micro, device), []
    for _ in range(_RUNS):
        begin = overhead.begin()
        executor.execute(request, ExecuteOptions(), runner=recovery.run)
        seconds = overhead.step_s(begin)
        if seconds is not None:
            found.append(seconds)
    if not found:
        raise OpFailed(f"{device.name} ran none of the steps of a plan")
    return min(found)


def _request(micro: MicroModel, device: Device) -> Request:
    sizes = micro.input_bytes, micro.output_bytes
    pools: list[Memory] = [
        SharedMemory.working(size) if device.is_remote else HostMemory(aligned_zeros(size).data)
        for size in sizes
    ]
    inside, outside = (Argument(pool=number, length=size) for number, size in enumerate(sizes))
    return Request(inputs=(inside,), outputs=(outside,), pools=tuple(pools))
