"""Checks lists of devices, in which an application may name those that are there."""

from collections import Counter
from collections.abc import Sequence

from neurald.hal.api_arguments import shown
from neurald.hal.device import Device
from neurald.hal.errors import BadData, UnavailableDevice, WrongType


def chosen_devices(wanted: Sequence[Device | str]) -> tuple[Device, ...]:
    """Returns the devices of a list in which some may be names of those that are there.

    Args:
        wanted: devices, and names as `neurald.devices` lists them.

    Raises:
        BadData: the list is empty, or has a device twice.
        UnavailableDevice: there is no device of a name.
        WrongType: it is not a list, or contains something else.
    """
    _require_list(wanted)
    chosen = [each for each in wanted if not isinstance(each, str)]
    if len(chosen) < len(wanted):
        # With a list of objects, nothing that finds daemons is imported.
        from neurald.runtime.devices import discovery

        found = {device.name: device for device in discovery.devices()}
        chosen = [_found(each, found) if isinstance(each, str) else each for each in wanted]
    check_devices(chosen)
    return tuple(chosen)


def _found(name: str, found: dict[str, Device]) -> Device:
    if name not in found:
        raise UnavailableDevice(
            f"there is no device {name!r}; there are: {', '.join(sorted(found))}{_remedy(name)}"
        )
    return found[name]


def _remedy(name: str) -> str:
    """Says what to do if a name is that of a driver whose device is not listed."""
    from neurald.hal.registry import driver_names  # rarely needed

    _, at, place = name.partition("@")
    if at and place in driver_names():
        return f". {name} is a device of a daemon: `neurald driver {place}` starts it"
    if name not in driver_names():
        return ""
    return (
        f". {name} is a driver: nd.open_device({name!r}) opens its device in this process, and "
        f"`neurald driver {name}` serves it"
    )


def check_devices(devices: Sequence[Device]) -> None:
    """Raises an error unless the argument is a sequence of distinct devices, at least one."""
    _require_list(devices)
    if not devices:
        raise BadData("the list of devices is empty; name at least one, or pass None for all")
    for device in devices:
        # Other objects may have names, too, such as paths.
        if not isinstance(getattr(device, "name", None), str) or not hasattr(device, "prepare_model"):
            raise WrongType(f"{shown(device)} is not a device; neurald.devices() lists the devices")
        if not _is_unicode(device.name):
            raise BadData(
                f"a device is called {shown(device.name)}, with half of a surrogate pair; its driver has to "
                "give it another name"
            )
    if len({device.name for device in devices}) < len(devices):
        name, count = Counter(device.name for device in devices).most_common(1)[0]
        raise BadData(f"device {name} is listed {count} times; once is expected")


def _require_list(devices: object) -> None:
    if isinstance(devices, str | bytes) or not isinstance(devices, Sequence):
        raise WrongType(f"the devices are {shown(devices)}; a list of devices is expected")


def _is_unicode(name: str) -> bool:
    """Returns whether a name can be encoded, as keys of caches and files need it."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
