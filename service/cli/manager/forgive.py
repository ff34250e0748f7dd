"""The command `neurald forgive`."""

from typing import Annotated

import typer

from neurald.service.cli.options.completion import driver_names
from neurald.service.cli.options.manager import SystemOption


def forgive(
    driver: Annotated[
        str,
        typer.Argument(
            autocompletion=driver_names,
            metavar="DRIVER",
            help="Only what killed this driver, or what this device computed wrong: a name as in "
            "`neurald status`. [default: all]",
            show_default=False,
        ),
    ] = "",
    pattern: Annotated[
        str,
        typer.Argument(
            metavar="PATTERN",
            help="Only the pattern whose identifier begins with this; `neurald status` shows them.",
            show_default=False,
        ),
    ] = "",
    system: SystemOption = False,
) -> None:
    """Forgets what killed a driver or was computed wrong, so that it is given such models again.

    A pattern of operations that killed a driver twice, or that a device was found to compute wrong,
    is no longer given to this version of it.
    """
    from neurald.hal.crashes.wrong_results import WrongResults
    from neurald.hal.errors import BadState
    from neurald.service.console.output import printable, write_line

    records = None if system else WrongResults.of_user()
    wrong = () if records is None else records.forgive((driver,) if driver else (), pattern)
    for entry in wrong:
        write_line(
            printable(
                f"forgiven: {entry.device} {entry.pattern.digest}: {entry.pattern.text}, computed wrong"
            )
        )
    try:
        gone = _forgive_crashes(driver, pattern, system=system)
    except BadState as error:
        if not wrong:
            others = () if records is None else records.entries()
            known = ", ".join(f"{each.device} {each.pattern.digest}" for each in others)
            raise BadState(f"{error}{'; computed wrong were: ' if known else ''}{known}") from None
        gone = ()
    for each in gone:
        write_line(printable(f"forgiven: {each}"))
    if not wrong and not gone:
        write_line("there is nothing to forgive")


def _forgive_crashes(driver: str, pattern: str, *, system: bool) -> tuple[str, ...]:
    from neurald.hal.crashes.records import CrashRecords
    from neurald.hal.errors import UnavailableDevice
    from neurald.service.crashes.investigator import forgive_in
    from neurald.service.manager.control import forgive_patterns

    try:
        return forgive_patterns(driver, pattern, system=system)
    except UnavailableDevice:
        if system:
            raise
        # Daemons without a manager read the same records.
        return forgive_in(CrashRecords.of_user(), (driver,) if driver else (), pattern)
