"""Converts faults of drivers in this process to errors of their devices.

A driver in a process of its own can only send errors. A driver in this process is third-party
Python code that may raise or return anything. Every call of such a driver by the runtime goes
through this module. Therefore the application sees an `Error`, and the CPU device can take over as
after any other failure.
"""

import logging
from types import TracebackType
from typing import TypeVar

from neurald.hal.device import CacheFilesNeeded, Capabilities, Device, Performance, Timing
from neurald.hal.errors import DRIVER_FAULTS, BadData, Error, OpFailed, OutOfMemory
from neurald.hal.model.types import DeviceType, FeatureLevel
from neurald.hal.wording import MAX_DESCRIBED, described_with_place, shortened, text_of
from neurald.runtime.devices.exhaustion import exhaustion

logger = logging.getLogger(__name__)

_T = TypeVar("_T")


class convert_driver_faults:  # noqa: N801 - reads as a function in `with convert_driver_faults(name):`
    """Context manager that converts the exceptions of a driver to `Error`.

    An `Error` stays as it is, with a text of limited length. An exception for lack of memory, files
    or threads becomes OutOfMemory, ResourceExhaustedTransient or, in an interpreter that has no
    threads, BadState. Any other Exception, and SystemExit, is a fault of the driver and becomes
    OpFailed.

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
        if isinstance(error, Error):
            _bound(error)
            return
        if not isinstance(error, DRIVER_FAULTS):
            return
        if isinstance(error, MemoryError):
            raise OutOfMemory(f"{self._device}: the driver ran out of memory: {text_of(error)}") from None
        lack = exhaustion(self._device, error)
        if lack is not None:
            _bound(lack)
            try:
                raise lack from None
            finally:
                # The error refers to this frame, so the frame must not refer to it.
                del lack
        logger.debug("the driver of %s raised an exception", self._device, exc_info=error)
        raise OpFailed(
            f"{self._device}: the driver has a fault: it raised {described_with_place(error)}"
        ) from None


def _bound(error: Error) -> None:
    """Shortens the text of an error of a driver, which is kept in reports and logs."""
    if any(isinstance(each, str) and len(each) > MAX_DESCRIBED for each in error.args):
        error.args = tuple(shortened(each) if isinstance(each, str) else each for each in error.args)


def checked(answer: object, expected: type[_T], device: str, what: str) -> _T:
    """Returns a driver's answer after checking its type.

    Args:
        answer: the value that the driver returned.
        expected: the type that the HAL requires.
        device: name of the driver's device.
        what: name of the call, such as `capabilities()`, for messages.

    Raises:
        OpFailed: the type is wrong.
    """
    if not isinstance(answer, expected):
        raise OpFailed(
            f"{device}: the driver has a fault: {what} returned {_described(answer)}; "
            f"{expected.__name__} is expected"
        )
    return answer


def checked_timing(answer: object, device: str, what: str) -> Timing:
    """Returns a driver's answer after checking that it has possible durations; see `checked`."""
    timing = checked(answer, Timing, device, what)
    try:
        timing.check()
    except BadData as error:
        raise OpFailed(f"{device}: the driver has a fault: {what}: {error}") from None
    return timing


def checked_capabilities(device: Device) -> Capabilities:
    """Returns the capabilities of a device after checking all types in them.

    Raises:
        OpFailed: the driver raises an exception, or a type is wrong.
    """
    with convert_driver_faults(device.name):
        what = "capabilities()"
        found = checked(device.capabilities(), Capabilities, device.name, what)
        for performance in (
            *found.operand_performance.values(),
            found.relaxed_float32_scalar,
            found.relaxed_float32_tensor,
            found.if_performance,
            found.while_performance,
        ):
            checked(performance, Performance, device.name, what)
            for figure in (performance.exec_time, performance.power_usage):
                if not isinstance(figure, int | float):
                    checked(figure, float, device.name, what)
        return found


def checked_executable(answer: _T, expected: str, device: str, what: str) -> _T:
    """Returns a driver's answer after checking that it has a method `execute`.

    Args:
        answer: the value that the driver returned.
        expected: name of the expected type in the HAL.
        device: name of the driver's device.
        what: name of the call, such as `create_burst()`, for messages.

    Raises:
        OpFailed: the value has no method `execute`.
    """
    if not callable(getattr(answer, "execute", None)):
        raise OpFailed(
            f"{device}: the driver has a fault: {what} returned {_described(answer)}; a {expected} is "
            "expected"
        )
    return answer


def feature_level(device: Device) -> FeatureLevel:
    """Returns the feature level of a device.

    Raises:
        OpFailed: the driver raises an exception or returns something else.
    """
    with convert_driver_faults(device.name):
        return FeatureLevel(device.feature_level)


def cache_files_needed(device: Device) -> CacheFilesNeeded:
    """Returns how many files a device needs to cache a model.

    Raises:
        OpFailed: the driver raises an exception, also for numbers that are not possible, or returns
            something else.
    """
    what = "cache_files_needed"
    try:
        with convert_driver_faults(device.name):
            return checked(device.cache_files_needed, CacheFilesNeeded, device.name, what)
    except BadData as error:  # it would mean that the device rejects the model
        raise OpFailed(f"{device.name}: the driver has a fault: {what}: {error}") from None


def is_cpu(device: Device) -> bool:
    """Returns True if a device reports that it is a CPU; False if its driver fails."""
    try:
        with convert_driver_faults(device.name):
            return device.type is DeviceType.CPU
    except Error as error:
        logger.warning("%s", error)
        return False


def _described(answer: object) -> str:
    return "None" if answer is None else f"a {type(answer).__name__}"
