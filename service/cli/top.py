"""The command `neurald top`."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from neurald.service.cli.manager_options import SystemOption

if TYPE_CHECKING:
    from neurald.service.console.process_usage import UsageMeter
    from neurald.service.manager.state import DriverStatus, ManagerStatus

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
            help="How many tables to show. [default: until q or Ctrl-C is pressed; one if the output is not a terminal]",
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
    from neurald.service.console.keys import pressed, single_keys
    from neurald.service.console.output import live_tables, write_json, write_table
    from neurald.service.console.process_usage import UsageMeter
    from neurald.service.manager.control import manager_status

    meter = UsageMeter()
    found = _measured(manager_status(system=system), meter)
    if not sys.stdout.isatty() or json:
        for number in range(count or 1):
            if number or count is not None:
                pressed(_QUIT, interval)
                found = _measured(manager_status(system=system), meter)
            if not json:
                write_table(_COLUMNS, [_row(each) for each in found], right=_RIGHT)
        if json:
            write_json(found)
        return
    with single_keys(), live_tables() as show:
        shown = 0
        while True:
            show(_COLUMNS, [_row(each) for each in found], right=_RIGHT, shorten=_COLUMNS[-1:])
            shown += 1
            if shown == count or pressed(_QUIT, interval):
                return
            found = _measured(manager_status(system=system), meter)


def _measured(status: "ManagerStatus", meter: "UsageMeter") -> list[dict[str, object]]:
    """Describes the drivers with what they use; what is not known is None."""
    return [_described(each, meter) for each in status.drivers]


def _described(driver: "DriverStatus", meter: "UsageMeter") -> dict[str, object]:
    usage = None if driver.process is None else meter.measure(driver.process)
    return {
        "driver": driver.name,
        "state": driver.state.value,
        "process": driver.process,
        "cores": None if usage is None else round(usage.cores, 3),
        "memory_bytes": None if usage is None else usage.memory_bytes,
        "processes": None if usage is None else usage.processes,
        "sessions": driver.sessions,
        "starts": driver.starts,
        "deaths": driver.deaths,
        "reason": driver.reason or driver.last_exit,
    }


def _row(driver: "dict[str, object]") -> tuple[str, ...]:
    memory, cores = driver["memory_bytes"], driver["cores"]
    figures = (
        driver["driver"],
        driver["state"],
        driver["process"],
        f"{cores:.2f}" if isinstance(cores, float) else None,
        memory // _MIB if isinstance(memory, int) else None,
        driver["sessions"],
        driver["deaths"],
        driver["reason"],
    )
    return tuple("-" if each in (None, "") else str(each) for each in figures)
