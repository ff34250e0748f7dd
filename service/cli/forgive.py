"""The command `neurald forgive`."""

from typing import Annotated

import typer


def forgive(
    driver: Annotated[
        str | None,
        typer.Argument(
            metavar="[DRIVER]",
            help="Only what killed this driver: its name, as in `neurald status`, or module:factory. "
            "[default: all drivers]",
            show_default=False,
        ),
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Argument(
            metavar="[PATTERN]",
            help="Only the pattern whose identifier begins with this; `neurald status` shows them.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Forgets what killed a driver, so that it is given such models again.

    A pattern of operations that killed a driver twice is no longer given to this version of it.
    """
    from neurald.hal.crashes.records import CrashRecords
    from neurald.hal.errors import BadState
    from neurald.service.console.output import printable, write_line
    from neurald.service.manager.configuration import driver_of

    records = CrashRecords.of_user()
    if records is None:
        raise BadState("there are no records of what killed drivers, since this user has no home directory")
    drivers = () if driver is None else (driver, driver_of(driver))
    gone = records.forgive(drivers, pattern or "")
    if not gone and (driver is not None or pattern is not None):
        known = ", ".join(f"{each.driver} {each.pattern.digest}" for each in records.entries()) or "none"
        raise BadState(f"no such pattern is known; known are: {known}")
    for each in gone:
        write_line(printable(f"forgiven: {each.driver} {each.pattern.digest}: {each.pattern.text}"))
