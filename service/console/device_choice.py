"""Devices as the command line names them: as `neurald devices` lists them, by the address of a daemon, or by a driver."""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import neurald as nd
from neurald.hal.errors import BadData
from neurald.hal.model.types import OperandType
from neurald.hal.process.runtime_directory import runtime_directory
from neurald.hal.registry import create_device, driver_names
from neurald.runtime.devices.discovery import cpu_device

_ADDRESS = re.compile(r"unix:.+|.+:[0-9]{1,5}")
_FACTORY = re.compile(r"[\w.]+:[A-Za-z_][\w.]*")

#: What `performance` reports, by the name it has there.
_REPORTED = {"float32": OperandType.TENSOR_FLOAT32, "quant8": OperandType.TENSOR_QUANT8_ASYMM}


def find_devices(names: Sequence[str]) -> list[nd.Device] | None:
    """The devices of these names or addresses, in that order; None, which lets every device take part, for no name.

    The name of a driver, or `module:factory`, is a new device of that driver in this process, unless a device that runs
    already is called so.

    Raises:
        BadData: there is no device or driver of that name.
        UnavailableDevice: nobody serves an address, or a driver's device cannot be had here.
    """
    if not names:
        return None
    return [_found(name) for name in names]


def _found(name: str) -> nd.Device:
    """The device of a name. No other daemon than the one that is named is asked: it may not answer."""
    if name == cpu_device().name:
        return cpu_device()
    _, at, place = name.partition("@")
    path = runtime_directory() / f"{place}.sock"
    if at and not name.startswith("unix:") and "/" not in place and path.exists():
        device = nd.connect(f"unix://{path}")
        if device.name == name:
            return device
    if at and _ADDRESS.fullmatch(place):
        device = nd.connect(place)
        if device.name == name:
            return device
    return _created(name)


def _created(name: str) -> nd.Device:
    if _FACTORY.fullmatch(name):
        sys.path.append(os.getcwd())  # noqa: PTH109 - a plain string is wanted
        return create_device(name)
    if name in driver_names():
        return create_device(name)
    if not _ADDRESS.fullmatch(name):
        known = {device.name: device for device in nd.devices()}
        if name in known:
            return known[name]
        raise BadData(
            f"there is no device {name!r}; there are {', '.join(known)}, the drivers {', '.join(driver_names())}, "
            "and daemons at an address (unix:///path or host:port)"
        )
    return nd.connect(name)


def address(device: nd.Device) -> str | None:
    """Where the daemon of a device listens; None for a device of this process."""
    found = getattr(device, "address", None)
    return None if found is None else str(found)


def daemon(device: nd.Device) -> dict[str, Any] | None:
    """What the daemon of a device does, whom it serves and what restricts its process; None for a device of this process.

    Raises:
        Error: the daemon does not answer.
    """
    if address(device) is None:
        return None
    from neurald.hal.rpc.client.device import RemoteDevice
    from neurald.service.sandbox.sandbox import ALL_PARTS

    if not isinstance(device, RemoteDevice):
        return None
    status = device.status()
    return {
        "status": status.device.name,
        "sessions": status.sessions,
        "access": status.access.name,
        "sandbox": list(status.sandbox),
        "sandbox_missing": [part for part in ALL_PARTS if part not in status.sandbox],
    }


def performance(device: nd.Device) -> dict[str, dict[str, float] | None]:
    """Time and power relative to the CPU device (1.0), for 32-bit floats and 8-bit integers; None where not known.

    Raises:
        Error: the device does not answer.
    """
    known = device.capabilities().operand_performance
    report: dict[str, dict[str, float] | None] = {}
    for name, operand_type in _REPORTED.items():
        found = known.get(operand_type)
        report[name] = (
            None if found is None else {"exec_time": found.exec_time, "power_usage": found.power_usage}
        )
    return report


def executions_elsewhere(compilation: nd.Compilation) -> dict[int, int]:
    """How many executions of each step the CPU device has run in place of the step's device; by step."""
    return {found.step: found.executions for found in compilation.recovery.substitutions}


def describe_steps(
    compilation: nd.Compilation, before: Mapping[int, int] | None = None
) -> list[dict[str, Any]]:
    """Describes step by step which device runs how many operations, and where executions really ran.

    Args:
        compilation: to describe.
        before: what `executions_elsewhere` gave before the executions of interest; None counts all.

    Returns:
        For each step its device, its number of operations, how it was prepared (see
        `PreparationReport`), how many executions the CPU device ran in the device's place and why.
    """
    found = {each.step: each for each in compilation.recovery.substitutions}
    steps = []
    for number, (step, report) in enumerate(
        zip(compilation.plan.steps, compilation.report.steps, strict=True)
    ):
        elsewhere = found[number].executions - (before or {}).get(number, 0) if number in found else 0
        steps.append(
            {
                "device": step.device.name,
                "operations": len(step.operations),
                "prepare_ms": report.milliseconds,
                "cache": report.cache.value,
                "reason": report.reason,
                "executions_on_cpu_instead": elsewhere,
                "failure": found[number].reason if elsewhere else "",
            }
        )
    return steps


def say_where_it_ran(steps: Sequence[Mapping[str, Any]], fallback: str) -> list[str]:
    """Says in one sentence each what did not run on the device that was chosen for it.

    Args:
        steps: from `describe_steps`.
        fallback: `CompilationReport.fallback`: why the whole model was left to the CPU device.
    """
    said = [f"the whole model was prepared for the CPU device: {fallback}"] if fallback else []
    said += [
        f"the CPU device ran {step['executions_on_cpu_instead']} executions of step {number} "
        f"in place of {step['device']}: {step['failure']}"
        for number, step in enumerate(steps)
        if step["executions_on_cpu_instead"]
    ]
    return said
