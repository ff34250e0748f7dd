"""Asks devices about a model and builds the candidates of a partitioning from their answers."""

from collections.abc import Sequence
from typing import cast

from neurald.hal.device import Capabilities, Device, HasLink, Link, Performance, Verdict, declared_extensions
from neurald.hal.errors import Error
from neurald.hal.model.model import Model
from neurald.hal.model.types import Preference
from neurald.runtime.devices.asking import verdicts_in_execution_order
from neurald.runtime.devices.driver_faults import checked_capabilities, convert_driver_faults, is_cpu
from neurald.runtime.devices.local import cpu_device
from neurald.runtime.devices.named_devices import check_devices
from neurald.runtime.model.branches import MAIN, Nesting, graph_of, is_control_flow, model_of
from neurald.runtime.model.dead_operations import without_dead_branches
from neurald.runtime.partitioning.options import PartitioningMode
from neurald.runtime.partitioning.placement import Candidate, DeviceScores

_UNIT_PERFORMANCE = Performance(exec_time=1.0, power_usage=1.0)

#: Capabilities of a device that was not queried, did not answer, or has no other beside it.
_UNKNOWN_CAPABILITIES = Capabilities(
    relaxed_float32_scalar=_UNIT_PERFORMANCE,
    relaxed_float32_tensor=_UNIT_PERFORMANCE,
    if_performance=_UNIT_PERFORMANCE,
    while_performance=_UNIT_PERFORMANCE,
)


def find_candidates(
    model: Model,
    devices: Sequence[Device],
    mode: PartitioningMode = PartitioningMode.WITH_FALLBACK,
    deadline_s: float | None = None,
    spares: Preference | None = None,
    *,
    knows_costs: bool = False,
) -> tuple[Candidate, ...]:
    """Returns one candidate per device, in their order.

    If the CPU device is included, control flow may be interpreted. Then devices are also asked
    about the graphs that control flow refers to, each as a separate model. With mode NONE only the
    CPU device is asked. A device that fails, or has not answered by the deadline, supports nothing.

    Args:
        model: a valid model.
        devices: the devices to ask.
        mode: the mode of the partitioning.
        deadline_s: when to stop waiting for daemons, on the clock of `time.monotonic()`.
        spares: leaves drivers alone that do not run, and whose devices could win no operation from
            the CPU device by this preference; None starts all.
        knows_costs: whether candidates have their costs, which a policy asks for.

    Raises:
        BadData: there is no device, or one is listed twice.
    """
    check_devices(devices)
    knows_costs = knows_costs and len(devices) > 1
    cpu = _cpu_among(devices)
    asked = [device for device in devices if mode is not PartitioningMode.NONE or device is cpu]
    numbers = (MAIN,) if cpu is None or mode is PartitioningMode.NONE else Nesting(model).placed_graphs()
    spared = [] if cpu is None or spares is None else [each for each in asked if _may_be_spared(each)]
    verdicts = _verdicts(model, numbers, [device for device in asked if device not in spared], deadline_s)
    if spares is not None and cpu is not None and spared:
        is_complete = all(verdict.ok for found in verdicts.values() for verdict in found[cpu.name])
        could_win = _could_save if knows_costs else _could_win
        wanted = [each for each in spared if not is_complete or could_win(model, each, cpu, spares)]
        for number, more in _verdicts(model, numbers, wanted, deadline_s).items():
            verdicts[number] |= more
        spared = [device for device in spared if device not in wanted]
    return tuple(
        _candidate(
            device,
            {n: _without_wrong(model, n, device, verdicts[n][device.name]) for n in numbers},
            is_cpu=device is cpu,
            is_alone=len(devices) == 1,
            knows_costs=knows_costs,
        )
        if device in asked and device not in spared
        else _unqueried_candidate(
            model,
            device,
            "its driver was not started, because the CPU device is at least as fast"
            if device in spared
            else "not asked, because partitioning is off",
        )
        for device in devices
    )


def _verdicts(
    model: Model, numbers: Sequence[int], devices: Sequence[Device], deadline_s: float | None
) -> dict[int, dict[str, tuple[Verdict, ...]]]:
    """Asks devices about graphs; returns verdicts by graph's number and device's name."""
    return {
        number: verdicts_in_execution_order(
            without_dead_branches(model_of(model, number)), devices, deadline_s
        )
        if devices
        else {}
        for number in numbers
    }


def _without_wrong(
    model: Model, number: int, device: Device, verdicts: tuple[Verdict, ...]
) -> tuple[Verdict, ...]:
    """Refuses operations of a graph that a device was found to compute wrong."""
    if device is cpu_device():
        return verdicts
    from neurald.hal.crashes.wrong_results import WrongResults  # only for other devices

    records = WrongResults.of_user()
    if records is None or not records.entries():
        return verdicts
    with convert_driver_faults(device.name):
        version = device.version
    refused = records.refused(device.name, version, model_of(model, number))
    return tuple(
        Verdict(ok=False, reason=refused[position].reason) if position in refused else verdict
        for position, verdict in enumerate(verdicts)
    )


def _may_be_spared(device: Device) -> bool:
    """Returns True if asking a device would start a process, and its measurements tell enough."""
    return not getattr(device, "is_started", True) and not declared_extensions(device)


def _could_win(model: Model, device: Device, cpu: Device, preference: Preference) -> bool:
    """Returns True if a device is faster than the CPU device for an operation of a model.

    The operations that it supports are not known before its driver runs, so it may win fewer.
    """
    nesting = Nesting(model)
    theirs, ours = (DeviceScores(model, nesting, each.capabilities(), preference) for each in (device, cpu))
    return any(
        theirs.operation(graph, operation) < ours.operation(graph, operation)
        for graph in (graph_of(model, number) for number in nesting.order)
        for operation in graph.operations
    )


def _could_save(model: Model, device: Device, cpu: Device, preference: Preference) -> bool:
    """Returns True if a device that supported everything could save more than its launch."""
    from neurald.runtime.costs.estimate import ModelWork, device_costs  # slow to import
    from neurald.runtime.costs.store import costs_of

    work = ModelWork(model)
    theirs, ours = (
        device_costs(costs_of(each).table, each.capabilities(), is_cpu=each is cpu, is_remote=each.is_remote)
        for each in (device, cpu)
    )
    saved = 0.0
    for graph in (model.main, *model.referenced):
        for operation in graph.operations:
            if not is_control_flow(operation):
                here, there = work.cost(graph, operation, ours), work.cost(graph, operation, theirs)
                if preference is Preference.LOW_POWER:
                    saved += max(0.0, here.energy - there.energy)
                else:
                    # A loop may run any number of times.
                    saved += max(0.0, here.seconds - there.seconds) * (1 if graph is model.main else 1000)
    return saved > theirs.launch_s


def _cpu_among(devices: Sequence[Device]) -> Device | None:
    """Returns the CPU device of this process if it is listed, else the first device of type CPU."""
    ours = cpu_device()
    if any(device is ours for device in devices):
        return ours
    return next((device for device in devices if is_cpu(device)), None)


def _candidate(
    device: Device,
    verdicts: dict[int, tuple[Verdict, ...]],
    *,
    is_cpu: bool,
    is_alone: bool,
    knows_costs: bool,
) -> Candidate:
    if is_alone:
        # There is nothing to compare it with, and some devices have to measure their capabilities.
        return Candidate(
            name=device.name, verdicts=verdicts, capabilities=_UNKNOWN_CAPABILITIES, is_cpu=is_cpu
        )
    try:
        capabilities = checked_capabilities(device)
    except Error as error:
        refused = Verdict(ok=False, reason=f"its capabilities are unknown: {error}")
        return Candidate(
            name=device.name,
            verdicts={number: (refused,) * len(given) for number, given in verdicts.items()},
            capabilities=_UNKNOWN_CAPABILITIES,
            is_cpu=is_cpu,
        )
    costs = None
    if knows_costs:
        from neurald.runtime.costs.estimate import device_costs  # slow to import
        from neurald.runtime.costs.slowness import slowness_of
        from neurald.runtime.costs.store import costs_of

        is_able = any(verdict.ok for found in verdicts.values() for verdict in found)
        costs = device_costs(
            costs_of(device).table,
            capabilities,
            is_cpu=is_cpu,
            is_remote=device.is_remote,
            host_link=_link(device) if is_able else None,
            weight=slowness_of(device.name),
        )
    return Candidate(
        name=device.name, verdicts=verdicts, capabilities=capabilities, is_cpu=is_cpu, costs=costs
    )


def _link(device: Device) -> Link | None:
    """Returns the link to a device of another host; None for others."""
    measure = getattr(device, "link", None)
    if not device.is_remote or measure is None:
        return None
    with convert_driver_faults(device.name):
        return cast(HasLink, device).link()


def _unqueried_candidate(model: Model, device: Device, reason: str) -> Candidate:
    refused = Verdict(ok=False, reason=reason)
    return Candidate(
        name=device.name,
        verdicts={MAIN: (refused,) * len(model.main.operations)},
        capabilities=_UNKNOWN_CAPABILITIES,
    )
