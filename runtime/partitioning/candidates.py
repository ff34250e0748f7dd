"""Asks devices about a model and builds the candidates of a partitioning from their answers."""

from collections.abc import Sequence
from typing import cast

from neurald.hal.device import Capabilities, Device, HasLink, Link, Performance, Verdict, declared_extensions
from neurald.hal.errors import Error
from neurald.hal.model.types import Model, Preference
from neurald.runtime.devices.discovery import check_devices, cpu_device, verdicts_in_execution_order
from neurald.runtime.devices.driver_faults import checked, convert_driver_faults, is_cpu
from neurald.runtime.model.branches import MAIN, Nesting, graph_of
from neurald.runtime.partitioning.options import PartitioningMode
from neurald.runtime.partitioning.placement import Candidate, DeviceScores

_UNIT_PERFORMANCE = Performance(exec_time=1.0, power_usage=1.0)

#: For a device that was not queried or did not answer.
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
    weighs_links: bool = False,
) -> tuple[Candidate, ...]:
    """Returns one candidate per device, in their order.

    If the CPU device is included, control flow may be interpreted. Then devices are also asked
    about the graphs that control flow refers to, each as a separate model. With mode NONE only the
    CPU device is asked. A device that fails, or has not answered by the deadline, supports nothing.

    Args:
        model: a valid model.
        devices: to ask.
        mode: of the partitioning.
        deadline_s: when to stop waiting for daemons, on the clock of `time.monotonic()`.
        spares: leaves drivers alone that do not run, and whose devices could win no operation from
            the CPU device by this preference; None starts all.
        weighs_links: whether candidates have their links, so that steps whose transfers take longer
            than what they save go to the CPU device.

    Raises:
        BadData: there is no device, or one is listed twice.
    """
    check_devices(devices)
    cpu = _cpu_among(devices)
    asked = [device for device in devices if mode is not PartitioningMode.NONE or device is cpu]
    numbers = (MAIN,) if cpu is None or mode is PartitioningMode.NONE else Nesting(model).placed_graphs()
    spared = [] if cpu is None or spares is None else [each for each in asked if _may_be_spared(each)]
    verdicts = _verdicts(model, numbers, [device for device in asked if device not in spared], deadline_s)
    if spares is not None and cpu is not None and spared:
        is_complete = all(verdict.ok for found in verdicts.values() for verdict in found[cpu.name])
        wanted = [each for each in spared if not is_complete or _could_win(model, each, cpu, spares)]
        for number, more in _verdicts(model, numbers, wanted, deadline_s).items():
            verdicts[number] |= more
        spared = [device for device in spared if device not in wanted]
    return tuple(
        _candidate(
            device,
            {n: verdicts[n][device.name] for n in numbers},
            is_cpu=device is cpu,
            weighs_links=weighs_links,
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
    """Asks devices about graphs; returns their verdicts by the graph's number and the device's name."""
    return {
        number: verdicts_in_execution_order(_as_model(model, number), devices, deadline_s) if devices else {}
        for number in numbers
    }


def _may_be_spared(device: Device) -> bool:
    """Returns True if asking a device would start a process, and its measurements tell enough."""
    return not getattr(device, "is_started", True) and not declared_extensions(device)


def _could_win(model: Model, device: Device, cpu: Device, preference: Preference) -> bool:
    """Returns True if a device is faster than the CPU device for an operation of a model.

    What it supports is not known before its driver runs, so it may win less than that.
    """
    nesting = Nesting(model)
    theirs, ours = (DeviceScores(model, nesting, each.capabilities(), preference) for each in (device, cpu))
    return any(
        theirs.operation(graph, operation) < ours.operation(graph, operation)
        for graph in (graph_of(model, number) for number in nesting.order)
        for operation in graph.operations
    )


def _cpu_among(devices: Sequence[Device]) -> Device | None:
    """Returns the CPU device of this process if it is listed, else the first device of type CPU."""
    ours = cpu_device()
    if any(device is ours for device in devices):
        return ours
    return next((device for device in devices if is_cpu(device)), None)


def _as_model(model: Model, number: int) -> Model:
    if number == MAIN:
        return model
    return Model(
        main=graph_of(model, number),
        referenced=model.referenced,
        pools=model.pools,
        relaxed=model.relaxed,
    )


def _candidate(
    device: Device, verdicts: dict[int, tuple[Verdict, ...]], *, is_cpu: bool, weighs_links: bool
) -> Candidate:
    try:
        with convert_driver_faults(device.name):
            capabilities = checked(device.capabilities(), Capabilities, device.name, "capabilities()")
    except Error as error:
        refused = Verdict(ok=False, reason=f"its capabilities are unknown: {error}")
        return Candidate(
            name=device.name,
            verdicts={number: (refused,) * len(given) for number, given in verdicts.items()},
            capabilities=_UNKNOWN_CAPABILITIES,
            is_cpu=is_cpu,
        )
    link = _link(device) if weighs_links and any(v.ok for found in verdicts.values() for v in found) else None
    return Candidate(name=device.name, verdicts=verdicts, capabilities=capabilities, is_cpu=is_cpu, link=link)


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
