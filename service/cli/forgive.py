"""The command `neurald forgive`."""

from typing import Annotated

import typer

from neurald.service.cli.completion import driver_names
from neurald.service.cli.manager_options import SystemOption


def forgive(
    driver: Annotated[
        str,
        typer.Argument(
            autocompletion=driver_names,
            metavar="[DRIVER]",
            help="Only what killed this driver, a name as in `neurald status`. [default: all drivers]",
            show_default=False,
        ),
    ] = "",
    pattern: Annotated[
        str,
        typer.Argument(
            metavar="[PATTERN]",
            help="Only the pattern whose identifier begins with this; `neurald status` shows them.",
            show_default=False,
        ),
    ] = "",
    system: SystemOption = False,
) -> None:
    """Forgets what killed a driver, so that it is given such models again.

    A pattern of operations that killed a driver twice is no longer given to this version of it.
    """
    from neurald.hal.crashes.records import CrashRecords
    from neurald.hal.errors import UnavailableDevice
    from neurald.service.console.output import printable, write_line
    from neurald.service.crashes.investigator import forgive_in
    from neurald.service.manager.control import forgive_patterns

    try:
        gone = forgive_patterns(driver, pattern, system=system)
    except UnavailableDevice:
        if system:
            raise
        # Daemons without a manager read the same records.
        gone = forgive_in(CrashRecords.of_user(), (driver,) if driver else (), pattern)
    for each in gone:
        write_line(printable(f"forgiven: {each}"))
