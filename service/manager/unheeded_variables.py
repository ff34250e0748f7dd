"""Finds variables of this process that a running service manager was started without.

Drivers have the variables of their manager, also if an application with others asks for a device.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from neurald.hal.process.environment import variables_with
from neurald.runtime.devices.measurements import decisive_prefixes
from neurald.service.manager.state import ManagerStatus

#: Others, such as LD_LIBRARY_PATH, differ between shells of people who choose no device.
_PREFIX: Final = "NEURALD_"


def unheeded_variables(manager: ManagerStatus) -> tuple[str, ...]:
    """Describes the variables of drivers that this process has otherwise than their manager.

    Returns:
        A sentence for each.
    """
    try:
        content = Path(f"/proc/{manager.process}/environ").read_bytes()
    except OSError:  # it has just ended, or this process must not read it
        return ()
    pairs = (entry.partition("=") for entry in content.decode(errors="surrogateescape").split("\0"))
    prefixes = tuple(prefix for each in manager.drivers for prefix in decisive_prefixes(each.name))
    there = {name: text for name, _, text in pairs if name.startswith(prefixes)}
    here = variables_with(*prefixes)
    return tuple(
        f"{name} is {_described(here, name)} here and {_described(there, name)} in the service manager "
        f"(process {manager.process}), which decides for its drivers"
        for name in sorted(here.keys() | there.keys())
        if name.startswith(_PREFIX) and here.get(name) != there.get(name)
    )


def _described(variables: Mapping[str, str], name: str) -> str:
    return repr(variables[name]) if name in variables else "not set"
