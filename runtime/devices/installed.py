"""Knows the drivers that a service manager of this user would start on demand.

They are those that the configuration names, or else the installed ones. Finding the installed ones
reads the metadata of every package, so the result is kept in a file until a package is installed or
removed.
"""

import logging
import os
import re
import sys
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import msgspec

from neurald._version import __version__
from neurald.hal.decoding import from_json
from neurald.hal.digests import new_digest
from neurald.hal.errors import BadData
from neurald.hal.process.activation import is_served
from neurald.hal.process.address import Address
from neurald.hal.process.autostart import autostart_settings
from neurald.hal.process.files.runtime_directory import machine_directory, machine_user, runtime_directory
from neurald.hal.process.rate_limited_logger import RateLimitedLogger
from neurald.hal.records import DECODE_ERRORS
from neurald.hal.registry import default_drivers
from neurald.runtime.devices import kept_file

_FILE: Final = "installed.json"
_NAME: Final = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}"
_MAX_DRIVERS: Final = 64
_LOGGER: Final = RateLimitedLogger(logging.getLogger(__name__), 3600.0)


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the file. The key covers where packages are, and when that last changed."""

    key: str
    drivers: list[str]


def drivers_on_demand() -> tuple[Address, ...]:
    """Returns the addresses of the drivers that a manager would start; none if none may be started.

    Those that the machine's service serves to this user are left to it.

    Raises:
        BadData: NEURALD_AUTOSTART is neither 0 nor 1.
    """
    settings = autostart_settings()
    if settings.obstacle:
        if settings.is_unexpected:
            _LOGGER.warning("drivers are not started on demand: %s", settings.obstacle)
        return ()
    names = _installed(_places()) if settings.drivers is None else settings.drivers
    machine = machine_directory() if machine_user() is not None else None
    addresses = []
    for name in names[:_MAX_DRIVERS]:
        if machine is not None and is_served(machine / f"{name}.sock"):
            continue  # the machine's service admits this user
        if re.fullmatch(_NAME, name):
            try:
                addresses.append(Address.parse(f"unix://{runtime_directory() / name}.sock"))
            except BadData as error:
                _LOGGER.warning("driver %s is not started on demand: %s", name, error)
    return tuple(addresses)


def _places() -> tuple[tuple[str, int], ...]:
    """Returns where packages are, and when that last changed: when one is installed or removed."""
    places = []
    for entry in sys.path:
        # This happens in each listing of devices, and objects of pathlib take much longer.
        place = os.path.abspath(entry)  # noqa: PTH100
        try:
            places.append((place, os.stat(place).st_mtime_ns))  # noqa: PTH116
        except (OSError, ValueError):  # it does not exist, or is not a path
            continue
    return tuple(places)


def _key(places: Iterable[tuple[str, int]]) -> str:
    digest = new_digest()
    digest.update(f"{__version__} {sys.version}".encode())
    for place, changed_ns in places:
        digest.update(f"\0{place}\0{changed_ns}".encode(errors="surrogateescape"))
    return digest.hexdigest()


@lru_cache(maxsize=1)
def _installed(places: tuple[tuple[str, int], ...]) -> tuple[str, ...]:
    key = _key(places)
    for content in kept_file.contents(_FILE):
        try:
            kept = from_json(content, _Kept)
        except DECODE_ERRORS:
            continue
        if kept.key == key:
            return tuple(kept.drivers)
    drivers = default_drivers()
    kept_file.write(_FILE, msgspec.json.encode(_Kept(key=key, drivers=list(drivers))))
    return drivers
