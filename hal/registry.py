"""Finds devices: creates those of installed drivers, and lists daemons that run.

A driver is a factory, a function without arguments that returns a `neurald.hal.device.Device`. Some
are built in, those of other packages are entry points of the group `neurald.drivers`, and any other
is written `module:factory`. A daemon that listens in the runtime directory is a device that is
available; there is no broker.
"""

import importlib
import importlib.util
import os
import re
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from neurald.hal.api_arguments import shown
from neurald.hal.device import Device
from neurald.hal.errors import DRIVER_FAULTS, BadData, Error, UnavailableDevice
from neurald.hal.open_file_limit import descriptor_advice
from neurald.hal.process.activation import OTHER_SOCKETS, is_served
from neurald.hal.process.files.runtime_directory import machine_directory, machine_user, runtime_directory
from neurald.hal.process.memory.gc_pause import paused_gc
from neurald.hal.validation.device_rules import validate_name
from neurald.hal.wording import described_with_place

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "neurald.drivers"
#: What each device has.
_MEMBERS = tuple(name for name in vars(Device) if not name.startswith("_"))
BUILT_IN = {
    "cpu": "neurald.drivers.cpu.device:create",
    "opencl": "neurald.drivers.opencl.device:create",
    "reference": "neurald.drivers.reference.device:create",
    "sample-float-fast": "neurald.drivers.sample.device:create_float_fast",
    "sample-float-slow": "neurald.drivers.sample.device:create_float_slow",
    "sample-quant": "neurald.drivers.sample.device:create_quant",
    "sample-minimal": "neurald.drivers.sample.device:create_minimal",
    "sample-all": "neurald.drivers.sample.device:create_all",
}

_FACTORY = re.compile(r"[\w.]+:[^\W\d][\w.]*")
_ADDRESS = re.compile(r"unix:|[^/]+:[0-9]+$")


def driver_names() -> tuple[str, ...]:
    """Returns the names of all installed drivers, the built-in ones first."""
    return (*BUILT_IN, *sorted(_installed().keys() - BUILT_IN.keys()))


def default_drivers() -> tuple[str, ...]:
    """Returns the installed drivers of devices that applications do not have by themselves."""
    found = [name for name in driver_names() if name not in BUILT_IN]
    if importlib.util.find_spec("pyopencl") is not None:
        found.insert(0, "opencl")
    return tuple(found)


def create_device(driver: str) -> Device:
    """Creates a device.

    Args:
        driver: one of `driver_names()`, or `module:factory`.

    Raises:
        UnavailableDevice: there is no such driver, or its device is not available here.
        BadData: the factory does not return a device, or one without a name.
        Error: what the factory raises.
    """
    try:
        with paused_gc():
            _, create = _factory(driver)
            device = create()
        # Fails early for a device whose property raises. The value is validated when it is created.
        _ = getattr(device, "cache_files_needed", None)
    except Error:
        raise
    except DRIVER_FAULTS as error:
        reason = f"{described_with_place(error)}{descriptor_advice(error)}"
        raise UnavailableDevice(f"driver {driver}: {reason}") from error
    # Properties are not evaluated, which may take long, unless an object only finds them so.
    lacking = [name for name in _MEMBERS if not (hasattr(type(device), name) or hasattr(device, name))]
    if device is None:
        raise BadData(f"driver {driver} returned None; a device is expected, see neurald.hal.device.Device")
    if lacking:
        raise BadData(
            f"driver {driver} returned a {type(device).__name__}; a device is expected, see "
            f"neurald.hal.device.Device, and it lacks {', '.join(lacking)}"
        )
    validate_name(cast(Device, device), driver)
    return cast(Device, device)


def load_driver(driver: str) -> None:
    """Imports the modules of a driver, without creating its device.

    Raises:
        UnavailableDevice, BadData: as for `create_device`.
        Exception: what importing the modules raises.
    """
    _factory(driver)


def get_ready(driver: str) -> None:
    """Does beforehand, without opening a device, what `create_device` takes long for.

    A driver's module may have a function `get_ready` for that beside the factory.

    Raises:
        UnavailableDevice, BadData: as for `create_device`.
        Exception: what importing the modules, or that function, raises.
    """
    module, _ = _factory(driver)
    of_driver = getattr(module, "get_ready", None)
    if callable(of_driver):
        of_driver()


def entry_points(group: str) -> "Iterable[EntryPoint]":
    """Returns the entry points of a group that installed packages declare."""
    from importlib import metadata  # slow to import, and built-in drivers need none

    return metadata.entry_points(group=group)


def _installed() -> "dict[str, EntryPoint]":
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def require_driver(driver: str) -> None:
    """Raises an error unless a driver is part of neurald, or installed, or has the form of a place.

    Nothing of it is imported.

    Raises:
        UnavailableDevice, BadData: as for `create_device`.
    """
    _place(driver)


def _place(driver: str) -> str:
    """Returns the `module:factory` of a driver."""
    place = BUILT_IN.get(driver, driver)
    if ":" not in place:
        entry = _installed().get(driver)
        if entry is None:
            raise UnavailableDevice(
                f"there is no driver {driver!r}; available are {', '.join(driver_names())}, and module:factory"
            )
        place = entry.value
    if not _FACTORY.fullmatch(place):
        hint = "; nd.connect connects to a daemon" if _ADDRESS.match(place) else ""
        raise BadData(f"driver {place!r} is not valid; module:factory is expected{hint}")
    return place


def _factory(driver: str) -> tuple[ModuleType, Callable[[], Any]]:
    """Returns the module of a driver's factory, and the factory."""
    place = _place(driver)
    module_name, _, name = place.partition(":")
    module = importlib.import_module(module_name)
    factory: Any = module
    for part in name.split("."):
        factory = getattr(factory, part)
    if not callable(factory):
        raise BadData(f"driver {place} is {shown(factory)}; a function that returns a device is expected")
    return module, cast(Callable[[], Any], factory)


def running_daemons() -> tuple[str, ...]:
    """Returns the addresses of the daemons of this user, and then those of the machine's service.

    Both are sorted. Those that a service manager has not started yet are among them. Sockets
    without a server are left out, as is a directory that other users can write to. A socket of
    the machine's service that does not admit this user is listed, so that connecting tells why.
    """
    own, machine = runtime_directory(), machine_directory()
    paths = [path for path in _sockets(own, os.getuid()) if is_served(path)]
    if machine != own and (user := machine_user()) is not None:
        paths += (path for path in _sockets(machine, user) if is_served(path, or_forbidden=True))
    return tuple(f"unix://{path}" for path in paths)


def _sockets(directory: Path, owner: int) -> list[Path]:
    """Returns the drivers' sockets in a directory that nobody but this user can change, sorted."""
    try:
        status = os.lstat(directory)
        is_private = status.st_uid == owner and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if not stat.S_ISDIR(status.st_mode) or not is_private:
            return []
        # Faster than a pattern; most directories have no sockets.
        names = sorted(name for name in os.listdir(directory) if name.endswith(".sock"))  # noqa: PTH208
        return [directory / name for name in names if name not in OTHER_SOCKETS]
    except OSError:
        return []
