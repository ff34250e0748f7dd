"""A device is checked by its description of itself, and the member that is wrong is named."""

from collections.abc import Callable
from typing import Any

import pytest
from support.models.addition import AddingDevice

from neurald.drivers.sample.device import create_all
from neurald.hal.errors import BadData, OutOfMemory
from neurald.hal.validation.device_rules import validate_description, validate_name

pytestmark = pytest.mark.quick


def device_with(member: str, value: Any) -> AddingDevice:
    kind = type("Wrong", (AddingDevice,), {"version": "1", "__init__": lambda self: None, member: value})
    device: AddingDevice = kind()
    return device


def raising(error: Exception) -> Callable[[Any], Any]:
    def fail(self: Any) -> Any:
        raise error

    return fail


def test_devices_that_are_right() -> None:
    for device in (AddingDevice(), create_all()):
        validate_name(device, "right")
        validate_description(device, "right")


@pytest.mark.parametrize(
    ("member", "value", "reason"),
    [
        ("name", 3, "name is 3; a text of printable characters is expected"),
        ("name", "", "name is ''; a text"),
        ("name", "a\nb", "name is 'a\\nb'; a text"),
        ("version", None, "version is None; a text"),
        ("type", "gpu", "type is 'gpu'; a DeviceType is expected"),
        ("is_remote", "no", "is_remote is 'no'; True or False is expected"),
        ("feature_level", 99, "feature_level is 99; a FeatureLevel is expected"),
        ("extensions", ["a.b"], "extensions is ['a.b']; a tuple of names is expected"),
        ("extensions", (1,), "extensions is (1,); a tuple of names is expected"),
        ("cache_files_needed", 5, "cache_files_needed is 5; a CacheFilesNeeded is expected"),
        ("capabilities", lambda self: None, "capabilities() is None; a Capabilities is expected"),
        ("capabilities", None, "capabilities() raised TypeError"),
        ("capabilities", raising(ValueError("cap")), "capabilities() raised ValueError: cap"),
        ("version", property(raising(OSError("libnpu.so"))), "version raised OSError: libnpu.so"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_wrong_member_is_named(member: str, value: Any, reason: str) -> None:
    with pytest.raises(BadData) as caught:
        validate_description(device_with(member, value), "npu")
    assert f"driver npu has a fault: its {reason}" in str(caught.value)


def test_errors_of_the_driver_itself_stay_what_they_are() -> None:
    device = device_with("capabilities", raising(OutOfMemory("no room")))
    with pytest.raises(OutOfMemory, match="no room"):
        validate_description(device, "npu")
