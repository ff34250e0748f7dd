"""Asks devices which operations they support."""

import logging
from collections.abc import Mapping, Sequence
from functools import partial

from neurald.hal.device import Device, Verdict
from neurald.hal.errors import Error
from neurald.hal.extension_support import refused_operations
from neurald.hal.model.model import Model
from neurald.hal.model.numbering import positions_by_number
from neurald.hal.validation.verdict_rules import checked_verdicts
from neurald.runtime.devices.driver_faults import convert_driver_faults, feature_level
from neurald.runtime.devices.extensions import conflicts
from neurald.runtime.devices.named_devices import check_devices, chosen_devices
from neurald.runtime.model.feature_level_slice import slice_for
from neurald.runtime.model.finished import finished_model

_LOGGER = logging.getLogger(__name__)


def supported_operations(model: Model, devices: Sequence[Device | str]) -> dict[str, tuple[Verdict, ...]]:
    """Asks each device which operations of the main graph it supports.

    A device that fails, or returns the wrong number of verdicts, supports nothing.

    Args:
        model: a finished model.
        devices: devices, or their names.

    Returns:
        For each device name, one verdict per operation, in the order in which the application added
            the operations.

    Raises:
        BadState: the model is not finished.
        BadData: there is no device, or one is listed twice.
        WrongType: an argument is not a model or not a list of devices.
        UnavailableDevice: there is no device of a name.
        UnexpectedNull: `model` is None.
    """
    found = verdicts_in_execution_order(finished_model(model), chosen_devices(devices))
    positions = positions_by_number(model.main).values()
    return {name: tuple(verdicts[position] for position in positions) for name, verdicts in found.items()}


def verdicts_in_execution_order(
    model: Model, devices: Sequence[Device], deadline_s: float | None = None
) -> dict[str, tuple[Verdict, ...]]:
    """Asks each device like `supported_operations`, but returns the verdicts in execution order.

    Daemons are queried concurrently, each in a thread of its own; devices of this process are
    queried in the calling thread.

    Args:
        model: a finished model.
        devices: devices with different names.
        deadline_s: when to stop waiting for daemons, on the clock of `time.monotonic()`. A daemon
            that has not answered by then supports nothing.

    Raises:
        BadData: there is no device, or one is listed twice.
    """
    check_devices(devices)
    disabled = conflicts(devices)
    remote = [device for device in devices if device.is_remote]
    verdicts: dict[str, tuple[Verdict, ...]] = {}
    if remote:
        from neurald.runtime.devices.daemons import run_concurrently  # Most processes have no daemons.

        asked = [partial(_verdicts, model, device, disabled) for device in remote]
        late = Verdict(ok=False, reason="it has not answered before the compilation's deadline")
        for device, answer in zip(remote, run_concurrently(asked, deadline_s), strict=True):
            verdicts[device.name] = (
                answer if isinstance(answer, tuple) else (late,) * len(model.main.operations)
            )
    return {
        device.name: verdicts.get(device.name) or _verdicts(model, device, disabled) for device in devices
    }


def _verdicts(model: Model, device: Device, disabled: Mapping[str, str]) -> tuple[Verdict, ...]:
    """Asks a device and returns one verdict per operation.

    The device is asked only about operations that its feature level and extensions include.
    """
    try:
        level = feature_level(device)
        with convert_driver_faults(device.name):
            refused = refused_operations(model, device, disabled)
    except Error as error:
        return _none(device, error, len(model.main.operations))
    part, positions = slice_for(model, level, refused)
    if part is model:
        return _answers(model, device)
    newer = f"newer than its feature level, {level.name}"
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
        with convert_driver_faults(device.name):
            return checked_verdicts(device.supported_operations(model), expected, device.name)
    except Error as error:
        return _none(device, error, expected)


def _none(device: Device, reason: Error, count: int) -> tuple[Verdict, ...]:
    """Returns verdicts of a device that supports nothing, whose name readers of them know."""
    text = str(reason).removeprefix(f"{device.name}: ")
    _LOGGER.warning("%s supports nothing: %s", device.name, text)
    return (Verdict(ok=False, reason=text),) * count
