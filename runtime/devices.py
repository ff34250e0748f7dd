"""The devices that there are: in this process, and in the driver daemons that run now."""

import logging
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from neurald.hal import registry
from neurald.hal.device import Device, Verdict
from neurald.hal.errors import BadData, BadState, Error, UnexpectedNull
from neurald.hal.extension_support import refused_operations
from neurald.hal.numbering import positions_by_number
from neurald.hal.types import Model
from neurald.runtime.extensions import conflicts
from neurald.runtime.slicing import slice_for

if TYPE_CHECKING:
    from neurald.hal.remote import RemoteDevice

_LOGGER = logging.getLogger(__name__)

_lock = threading.Lock()
_connected: dict[str, "RemoteDevice"] = {}


@cache
def cpu_device() -> Device:
    """The CPU device of this process, which every other one falls back to."""
    return registry.create_device("cpu")


def devices() -> tuple[Device, ...]:
    """The CPU device, then a device for each driver daemon in the runtime directory.

    Looked up at every call: a daemon that came or went since is there or gone.
    """
    found = registry.running_daemons()
    remote: list[Device] = []
    for address in found:
        try:
            remote.append(connect(address))
        except Error as error:
            _LOGGER.warning("the daemon at %s is left out: %s", address, error)
    with _lock:
        for address in _connected.keys() - set(found):
            del _connected[address]
    return (cpu_device(), *remote)


def connect(address: str) -> "RemoteDevice":
    """The device that the driver daemon at `unix:///path` or `host:port` serves.

    Raises:
        BadData: the address has neither form.
        UnavailableDevice: nobody serves it.
    """
    from neurald.hal.remote import connect as open_connection  # gRPC is slow to import

    with _lock:
        known = _connected.get(address)
        if known is not None and known.is_alive:
            return known
        device = _connected[address] = open_connection(address)
        return device


def supported_operations(model: Model, devices: Sequence[Device]) -> dict[str, tuple[Verdict, ...]]:
    """What each device says of each operation of the main graph, by the device's name.

    Verdicts come in the order in which the application added the operations. A device that fails, or answers with another number of verdicts, supports nothing.

    Raises:
        BadState: the model is not finished.
        BadData: there is no device, or one is listed twice.
        UnexpectedNull: there is no model.
    """
    if model is None:
        raise UnexpectedNull("model is None")
    if not isinstance(model, Model):
        raise BadState(f"{type(model).__name__} is no finished model; finish() returns one")
    found = verdicts_as_run(model, devices)
    positions = positions_by_number(model.main).values()
    return {name: tuple(verdicts[position] for position in positions) for name, verdicts in found.items()}


def verdicts_as_run(model: Model, devices: Sequence[Device]) -> dict[str, tuple[Verdict, ...]]:
    """The same as `supported_operations` in the order in which the operations of a finished model run.

    Raises:
        BadData: there is no device, or one is listed twice.
    """
    check_devices(devices)
    disabled = conflicts(devices)
    return {device.name: _verdicts(model, device, disabled) for device in devices}


def check_devices(devices: Sequence[Device]) -> None:
    """Raises BadData for an empty list of devices, or one that names a device twice."""
    if not devices:
        raise BadData("the list of devices is empty")
    for device in devices:
        if not isinstance(getattr(device, "name", None), str):
            raise BadData(f"{device!r} is no device; see neurald.devices()")
    name, count = Counter(device.name for device in devices).most_common(1)[0]
    if count > 1:
        raise BadData(f"device {name} is listed {count} times")


def _verdicts(model: Model, device: Device, disabled: Mapping[str, str]) -> tuple[Verdict, ...]:
    """One verdict for each operation; the device is only asked about those that its feature level and its extensions have."""
    refused = refused_operations(model, device, disabled)
    part, positions = slice_for(model, device.feature_level, refused)
    newer = f"newer than its feature level, {device.feature_level.name}"
    verdicts = [
        Verdict(ok=False, reason=refused.get(position, newer))
        for position in range(len(model.main.operations))
    ]
    answers = _answers(part, device) if positions else ()
    for position, answer in zip(positions, answers, strict=True):
        verdicts[position] = answer
    return tuple(verdicts)


def _answers(model: Model, device: Device) -> tuple[Verdict, ...]:
    expected = len(model.main.operations)
    try:
        verdicts = tuple(device.supported_operations(model))
    except Error as error:
        _LOGGER.warning("%s supports nothing: %s", device.name, error)
        return (Verdict(ok=False, reason=str(error)),) * expected
    if len(verdicts) != expected:
        reason = f"it gave {len(verdicts)} verdicts on {expected} operations"
        _LOGGER.warning("%s supports nothing: %s", device.name, reason)
        return (Verdict(ok=False, reason=reason),) * expected
    return verdicts
