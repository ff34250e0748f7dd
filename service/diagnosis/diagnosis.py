"""Examines everything that can be wrong with an installation."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from neurald.hal.errors import Error
from neurald.service.diagnosis.devices import examine_devices
from neurald.service.diagnosis.finding import Finding, Severity
from neurald.service.diagnosis.installation import examine_installation
from neurald.service.diagnosis.machine import examine_machine
from neurald.service.diagnosis.manager import examine_manager
from neurald.service.diagnosis.places import examine_places
from neurald.service.diagnosis.settings import examine_settings

#: What is examined, in the order in which one thing depends on another.
_AREAS: Final[tuple[tuple[str, Callable[[], Iterable[Finding]]], ...]] = (
    ("machine", examine_machine),
    ("installation", examine_installation),
    ("settings", examine_settings),
    ("places", examine_places),
    ("service", examine_manager),
    ("devices", examine_devices),
)


def diagnose(*, with_devices: bool = True) -> Iterator[tuple[str, Finding]]:
    """Yields findings with their areas.

    Args:
        with_devices: False starts no driver and computes nothing.
    """
    for area, examine in _AREAS:
        if area == "devices" and not with_devices:
            continue
        try:
            for finding in examine():
                yield area, finding
        except (Error, OSError) as error:
            yield (
                area,
                Finding(subject=area, found=f"cannot be examined: {error}", severity=Severity.PROBLEM),
            )
