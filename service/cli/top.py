"""The command `neurald top`."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from neurald.service.cli.options.manager import SystemOption

if TYPE_CHECKING:
    from neurald.service.manager.snapshot import DriverSnapshot

_MIB = 1 << 20
_COLUMNS = ("driver", "state", "process", "cores", "MiB", "sessions", "deaths", "last exit or reason")
_RIGHT = ("process", "cores", "MiB", "sessions", "deaths")
#: Ends the command.
_QUIT = "q"


def top(
    interval: Annotated[
        float, typer.Option(metavar="S", min=0.1, max=3600, help="Seconds from one table to the next.")
    ] = 1.0,
    count: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="How many tables to show. [default: until q or Ctrl-C is pressed; one if the output is "
            "not a terminal]",
            show_default=False,
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document, the last measurement.")
    ] = False,
    system: SystemOption = False,
) -> None:
    """Shows what the drivers of the service manager use, again and again.

    The figures of a driver include the processes that compile for it. Press q to leave.
    """
    import msgspec

    from neurald.service.console.keys import pressed, single_keys
    from neurald.service.console.output import live_tables, write_json, write_table
    from neurald.service.console.process_usage import UsageMeter
    from neurald.service.manager.control import manager_status
    from neurald.service.manager.snapshot import driver_snapshots

    meter = UsageMeter()
    found = driver_snapshots(manager_status(system=system), meter)
    if not sys.stdout.isatty() or json:
        for number in range(count or 1):
            if number or count is not None:
                pressed(_QUIT, interval)
                found = driver_snapshots(manager_status(system=system), meter)
            if not json:
                write_table(_COLUMNS, [_row(each) for each in found], right=_RIGHT)
        if json:
            write_json([msgspec.to_builtins(each) for each in found])
        return
    with single_keys(), live_tables() as show:
        shown = 0
        while True:
            show(_COLUMNS, [_row(each) for each in found], right=_RIGHT, shorten=_COLUMNS[-1:])
            shown += 1
            if shown == count or pressed(_QUIT, interval):
                return
            found = driver_snapshots(manager_status(system=system), meter)


def _row(driver: "DriverSnapshot") -> tuple[str, ...]:
    figures = (
        driver.driver,
        driver.state,
        driver.process,
        None if driver.cores is None else f"{driver.cores:.2f}",
        None if driver.memory_bytes is None else driver.memory_bytes // _MIB,
        driver.sessions,
        driver.deaths,
        driver.reason,
    )
    return tuple("-" if each in (None, "") else str(each) for each in figures)
