"""What drivers in this process do wrong, as errors of their devices.

A driver in a process of its own can send errors only. One in this process is somebody's Python: it may raise anything,
and answer anything. Whatever the runtime asks of it goes through here, so that an application sees an `Error`, and the
CPU device can stand in as for any other failure.
"""

import logging
from types import TracebackType
from typing import TypeVar

from neurald.hal.device import Device
from neurald.hal.errors import Error, OpFailed, OutOfMemory
from neurald.hal.model.types import DeviceType, FeatureLevel

logger = logging.getLogger(__name__)

_T = TypeVar("_T")


class faults_of:  # noqa: N801 - reads as a function in `with faults_of(name):`
    """A context that turns whatever a driver raises in it that is no `Error` into one.

    A MemoryError becomes OutOfMemory, anything else OpFailed.

    Args:
        device: name of the driver's device.
    """

    __slots__ = ("_device",)

    def __init__(self, device: str) -> None:
        self._device = device

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, Error) or not isinstance(error, Exception):
            return
        if isinstance(error, MemoryError):
            raise OutOfMemory(f"{self._device}: the driver ran out of memory: {error}") from None
        logger.debug("the driver of %s has a fault", self._device, exc_info=error)
        text = f"{type(error).__name__}: {error}"
        raise OpFailed(f"{self._device}: the driver has a fault: {text}") from None


def checked(answer: object, expected: type[_T], device: str, what: str) -> _T:
    """Returns a driver's answer if it is of the type that the HAL demands.

    Args:
        answer: what the driver gave.
        expected: the type.
        device: name of the driver's device.
        what: what was asked for, such as `capabilities()`.

    Raises:
        OpFailed: it is of another type.
    """
    if not isinstance(answer, expected):
        raise OpFailed(
            f"{device}: the driver has a fault: {what} gave {_described(answer)}; "
            f"{expected.__name__} is expected"
        )
    return answer


def checked_executable(answer: _T, expected: str, device: str, what: str) -> _T:
    """Returns a driver's answer if it can be executed, as prepared models and bursts can.

    Args:
        answer: what the driver gave.
        expected: what the HAL calls it.
        device: name of the driver's device.
        what: what was asked for, such as `create_burst()`.

    Raises:
        OpFailed: it has no method `execute`.
    """
    if not callable(getattr(answer, "execute", None)):
        raise OpFailed(
            f"{device}: the driver has a fault: {what} gave {_described(answer)}; a {expected} is expected"
        )
    return answer


def feature_level(device: Device) -> FeatureLevel:
    """Returns the feature level of a device.

    Raises:
        OpFailed: the driver gives none.
    """
    with faults_of(device.name):
        return FeatureLevel(device.feature_level)


def is_cpu(device: Device) -> bool:
    """Whether a device calls itself a CPU; one whose driver cannot tell does not."""
    try:
        with faults_of(device.name):
            return device.type is DeviceType.CPU
    except Error as error:
        logger.warning("%s", error)
        return False


def _described(answer: object) -> str:
    return "None" if answer is None else f"a {type(answer).__name__}"
