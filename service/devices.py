"""Devices as the command line names them: as `neurald devices` lists them, by the address of a daemon, or by a driver."""

import os
import re
import sys
from collections.abc import Sequence
from typing import Any

import neurald as nd
from neurald.hal.errors import BadData
from neurald.hal.registry import create_device, driver_names, runtime_directory
from neurald.hal.types import OperandType
from neurald.runtime.devices import cpu_device

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


def describe_steps(compilation: nd.Compilation) -> list[dict[str, Any]]:
    """Which device runs how many operations, and how it came by them (see `PreparationReport`), step by step."""
    return [
        {
            "device": step.device.name,
            "operations": len(step.operations),
            "prepare_ms": report.milliseconds,
            "cache": report.cache.value,
            "reason": report.reason,
        }
        for step, report in zip(compilation.plan.steps, compilation.report.steps, strict=True)
    ]
