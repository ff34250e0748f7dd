"""The command `neurald status`."""

from typing import Annotated

import typer

#: How many of the last lines of a driver that does not run are shown.
_SHOWN_LINES = 5


def status(
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Shows the drivers of the service manager, their states, and why."""
    import msgspec

    from neurald.service.console.output import printable, write_json, write_line, write_table
    from neurald.service.manager.control import manager_status

    found = manager_status()
    if json:
        write_json(msgspec.to_builtins(found))
        return
    columns = ("driver", "state", "process", "sessions", "starts", "deaths", "last exit")
    rows = [
        (
            each.name,
            each.state.value,
            "-" if each.process is None else str(each.process),
            "-" if each.sessions is None else str(each.sessions),
            str(each.starts),
            str(each.deaths),
            each.last_exit or "-",
        )
        for each in found.drivers
    ]
    write_table(columns, rows)
    for each in found.drivers:
        if each.reason:
            write_line(f"{each.name}: {each.reason}")
        if each.reason and each.process is None:
            for line in each.last_lines[-_SHOWN_LINES:]:
                write_line(f"  {printable(line)}")
    for each in found.drivers:
        for pattern in each.patterns:
            refused = "refused" if pattern.is_refused else "not refused yet"
            write_line(
                printable(
                    f"{each.name}: {pattern.id} {refused}: {pattern.operations}; {pattern.deaths} deaths, the last by "
                    f"{pattern.cause} while {pattern.phase}, version {pattern.version}"
                )
            )
            if pattern.narrowing:
                write_line(f"  {printable(pattern.narrowing)}")
