"""Explicit lists of devices, which applications give when they choose the devices of a model."""

from collections.abc import Sequence

from neurald.hal.device import Device
from neurald.hal.errors import BadData


def require_one_device(explicit_devices: Sequence[Device] | None, what: str, when: str = "") -> tuple[Device]:
    """Returns the only device of an explicit list, which Android requires for some features.

    Args:
        explicit_devices: the list of devices; None if the application gave none.
        what: the feature, for messages.
        when: the condition under which the feature needs one device, for messages.

    Raises:
        BadData: no list was given, or it has several devices.
    """
    if explicit_devices is not None and len(explicit_devices) == 1:
        return (explicit_devices[0],)
    count = "none is" if explicit_devices is None else f"{len(explicit_devices)} are"
    raise BadData(f"{what} needs exactly one device in the list{when}; {count} listed")
