"""Finds devices by their names on the command line.

A name is one that `neurald devices` lists, the address of a daemon, or the name of a driver.
"""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

import neurald as nd
from neurald.hal.errors import BadData
from neurald.hal.model.types import OperandType
from neurald.hal.process.files.runtime_directory import runtime_directory
from neurald.hal.registry import driver_names
from neurald.runtime.devices.local import cpu_device

_ADDRESS = re.compile(r"unix:.+|.+:[0-9]{1,5}")
_FACTORY = re.compile(r"[\w.]+:[A-Za-z_][\w.]*")

#: The types that `performance` reports, by the names that it uses.
_REPORTED = {"float32": OperandType.TENSOR_FLOAT32, "quant8": OperandType.TENSOR_QUANT8_ASYMM}


class _RemoteDevice(Protocol):
    """The attribute that `neurald.hal.rpc.client.device.RemoteDevice` adds to devices.

    The class itself is not imported here, because gRPC takes long to import.
    """

    @property
    def address(self) -> str:
        """The address of the daemon."""
        ...


def find_devices(names: Sequence[str]) -> list[nd.Device] | None:
    """Returns the devices with these names or addresses, in order; None if there are no names.

    The name of a driver, or `module:factory`, creates a device of that driver in this process,
    unless a running device has that name.

    Raises:
        BadData: there is no such device or driver.
        UnavailableDevice: no daemon serves an address, or a driver's device is unavailable here.
    """
    if not names:
        return None
    return [find_device(name) for name in names]


def find_device(name: str) -> nd.Device:
    """Returns the device with a name, without asking other daemons, which might not answer.

    Raises:
        BadData, UnavailableDevice: see `find_devices`.
    """
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
        return nd.open_device(name)
    if name in driver_names():
        return nd.open_device(name)
    if not _ADDRESS.fullmatch(name):
        known = {device.name: device for device in nd.devices()}
        if name in known:
            return known[name]
        _, at, place = name.partition("@")
        if at and place in driver_names():
            raise BadData(f"no daemon serves the device {name!r}; `neurald driver {place}` starts one")
        raise BadData(
            f"there is no device {name!r}; expected a device ({', '.join(known)}), a driver "
            f"({', '.join(driver_names())}), or the address of a daemon (unix:///path or host:port)"
        )
    return nd.connect(name)


def address(device: nd.Device) -> str | None:
    """Returns the address of a device's daemon; None for a device of this process."""
    return cast(_RemoteDevice, device).address if device.is_remote else None


def daemon(device: nd.Device) -> dict[str, Any] | None:
    """Describes the daemon of a device: its status, access and sandbox.

    Returns None for a device of this process, and for one whose driver does not run.

    Raises:
        Error: the daemon does not answer.
    """
    if not device.is_remote or not getattr(device, "is_started", True):
        return None
    from neurald.hal.rpc.client.device import RemoteDevice
    from neurald.runtime.devices.on_demand import OnDemandDevice
    from neurald.service.sandbox.sandbox import ALL_PARTS

    if not isinstance(device, RemoteDevice | OnDemandDevice):
        return None
    status = device.status()
    return {
        "status": status.device.name,
        "sessions": status.sessions,
        "access": status.access.name,
        "sandbox": list(status.sandbox),
        "sandbox_missing": [part for part in ALL_PARTS if part not in status.sandbox],
    }


def link(device: nd.Device) -> dict[str, float] | None:
    """Returns the measured link to a device on another host; None for other devices."""
    from neurald.hal.rpc.client.device import RemoteDevice

    found = device.link() if device.is_remote and isinstance(device, RemoteDevice) else None
    return None if found is None else {"latency_s": found.latency_s, "bytes_per_s": found.bytes_per_s}


def performance(device: nd.Device) -> dict[str, dict[str, float] | None]:
    """Returns time and power of a device relative to the CPU device (1.0), by operand type.

    The value of a type is None if the device does not report it.

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


def executions_on_cpu(compilation: nd.Compilation) -> dict[int, int]:
    """Returns for each step how many executions the CPU device ran instead of its own device."""
    return {found.step: found.executions for found in compilation.recovery.substitutions}


def describe_steps(
    compilation: nd.Compilation, before: Mapping[int, int] | None = None
) -> list[dict[str, Any]]:
    """Describes the steps of a compilation and where their executions ran.

    Args:
        compilation: the compilation.
        before: an earlier result of `executions_on_cpu`, which is subtracted; None to count all
            executions.

    Returns:
        For each step: its device, its number of operations, how it was prepared (see
            `PreparationReport`), how many executions the CPU device ran instead, and why.
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


def fallback_messages(steps: Sequence[Mapping[str, Any]], fallback: str) -> list[str]:
    """Returns one sentence for each part of a model that did not run on the device chosen for it.

    Args:
        steps: the steps from `describe_steps`.
        fallback: `CompilationReport.fallback`, the reason why the CPU device got the whole model.
    """
    messages = [f"the whole model was prepared for the CPU device: {fallback}"] if fallback else []
    messages += [
        f"the CPU device ran {step['executions_on_cpu_instead']} executions of step {number} "
        f"instead of {step['device']}: {step['failure']}"
        for number, step in enumerate(steps)
        if step["executions_on_cpu_instead"]
    ]
    return messages
