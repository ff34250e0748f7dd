"""Installed drivers whose devices are not listed."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class MissingDevices(NamedTuple):
    """Installed drivers that have no device, and the reasons.

    Attributes:
        unavailable: reasons of those that cannot start, by address.
        starting: addresses of those that start for the first time.
    """

    unavailable: Mapping[str, str]
    starting: tuple[str, ...]

    @classmethod
    def found(cls) -> "MissingDevices":
        """Returns those that are missing now."""
        from neurald.runtime.devices.measuring import failures, unmeasured

        return cls(failures(), unmeasured())

    def fields(self) -> dict[str, Any]:
        """Returns the fields of a JSON document."""
        return {"unavailable": self.unavailable, "starting": self.starting}

    def show(self) -> None:
        """Tells the user about each."""
        from neurald.service.console.output import note

        for address in self.starting:
            note(f"the driver at {address} is starting for the first time; `neurald devices` lists it then")
        for address, reason in self.unavailable.items():
            note(f"no device at {address}: {reason}")
