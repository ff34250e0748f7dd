"""Finds the vendor extensions of devices, and those that are disabled by conflicts."""

from collections.abc import Mapping, Sequence

from neurald.hal.api_arguments import instance, integer
from neurald.hal.device import Device, declared_extensions
from neurald.hal.errors import BadData, UnexpectedNull
from neurald.hal.model.extension import AttributeUse, Extension, check_extension_name
from neurald.hal.model.extension_attribute import AttributeValue, check_attributes


def find_extension(name: str, devices: Sequence[Device]) -> Extension:
    """Returns the vendor extension with that name.

    Args:
        name: the name of the extension.
        devices: devices that may declare it.

    Raises:
        BadData: no device lists or declares it, or two devices declare it differently.
    """
    check_extension_name(name)
    found = {
        extension for device in devices for extension in declared_extensions(device) if extension.name == name
    }
    if not found:
        listed = [device.name for device in devices if name in device.extensions]
        reason = f"{', '.join(listed)} lists it without a declaration" if listed else "no device lists it"
        names = ", ".join(device.name for device in devices)
        raise BadData(f"extension {name}: {reason}; the devices are {names}")
    if len(found) > 1:
        raise BadData(f"extension {name} is disabled: {conflicts(devices)[name]}")
    return found.pop()


def with_attribute(
    values: tuple[AttributeValue, ...],
    use: AttributeUse,
    extension: str,
    attribute: int,
    value: bytes,
    devices: Sequence[Device],
) -> tuple[AttributeValue, ...]:
    """Adds an attribute to those of a compilation or execution.

    Args:
        values: attributes so far.
        use: whether they belong to a compilation or an execution.
        extension: name of a vendor's extension.
        attribute: code of the attribute within the extension.
        value: the value of the attribute.
        devices: devices that receive the attributes; all must declare the extension.

    Raises:
        BadData: a device does not list or declare the extension, the extension has no such
            attribute, the attribute already has a value, or the values are too many or too large.
        UnexpectedNull: `value` is None.
    """
    if value is None:
        raise UnexpectedNull("the value of an attribute is None; pass b'' for an empty value")
    given = AttributeValue(
        extension=find_extension(extension, devices),
        code=integer(attribute, "the code of the attribute"),
        value=bytes(instance(value, bytes, "the value of the attribute")),
    )
    check_attributes((*values, given), use)
    return (*values, given)


def conflicts(devices: Sequence[Device]) -> Mapping[str, str]:
    """Returns the disabled vendor extensions by name, each with the reason.

    As on Android, an extension is disabled if two devices declare it differently.
    """
    first: dict[str, tuple[Device, Extension]] = {}
    found: dict[str, str] = {}
    for device in devices:
        for extension in declared_extensions(device):
            other, declared = first.setdefault(extension.name, (device, extension))
            if declared != extension:
                found.setdefault(
                    extension.name, f"{other.name} and {device.name} declare the extension differently"
                )
    return found
