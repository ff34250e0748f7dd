"""Checks what a device says of itself, which a driver with faults may have wrong."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from neurald.hal.api_arguments import shown
from neurald.hal.device import CacheFilesNeeded, Capabilities, Device
from neurald.hal.errors import DRIVER_FAULTS, BadData, Error
from neurald.hal.model.types import DeviceType, FeatureLevel
from neurald.hal.wording import described


class _Rule(NamedTuple):
    """The rule for a member of a device.

    Attributes:
        member: its name, or that of a method, with parentheses.
        is_kept: tells whether a value is right.
        expected: what is right, for messages.
    """

    member: str
    is_kept: Callable[[Any], bool]
    expected: str


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value) and value.isprintable()


_NAME: Final = _Rule("name", _is_text, "a text of printable characters")
_RULES: Final = (
    _NAME,
    _Rule("version", _is_text, "a text of printable characters"),
    _Rule("type", lambda value: isinstance(value, DeviceType), "a DeviceType"),
    _Rule("is_remote", lambda value: isinstance(value, bool), "True or False"),
    _Rule("feature_level", lambda value: value in tuple(FeatureLevel), "a FeatureLevel"),
    _Rule(
        "extensions",
        lambda value: isinstance(value, tuple) and all(map(_is_text, value)),
        "a tuple of names",
    ),
    _Rule("cache_files_needed", lambda value: isinstance(value, CacheFilesNeeded), "a CacheFilesNeeded"),
    _Rule("capabilities()", lambda value: isinstance(value, Capabilities), "a Capabilities"),
)


def validate_name(device: Device, driver: str) -> None:
    """Requires that a device has a name; see `validate_description`."""
    _validate(device, driver, _NAME)


def validate_description(device: Device, driver: str) -> None:
    """Requires that what a device says of itself has the types of the `Device` protocol.

    Args:
        device: the device.
        driver: the name of its driver, for messages.

    Raises:
        BadData: something is of another type, or finding it out raises an exception.
        Error: what the driver itself raises.
    """
    for rule in _RULES:
        _validate(device, driver, rule)


def _validate(device: Device, driver: str, rule: _Rule) -> None:
    member, is_method = rule.member.removesuffix("()"), rule.member.endswith("()")
    try:
        value = getattr(device, member)
        if is_method:
            value = value()
    except Error:
        raise
    except DRIVER_FAULTS as error:
        raise BadData(f"driver {driver} has a fault: its {rule.member} raised {described(error)}") from error
    if not rule.is_kept(value):
        raise BadData(
            f"driver {driver} has a fault: its {rule.member} is {shown(value)}; {rule.expected} is expected"
        )
