"""The command `neurald status`."""

from typing import TYPE_CHECKING, Annotated

import typer

from neurald.service.cli.options.manager import SystemOption
from neurald.service.cli.options.output import JsonOption

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neurald.hal.crashes.wrong_results import WrongResult
    from neurald.service.manager.state import ManagerStatus, ServiceStatus

#: How many of the last lines of a driver that does not run are shown.
_SHOWN_LINES = 5


def status(
    json: JsonOption = False,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with status 1 if a driver is in quarantine.")
    ] = False,
    system: SystemOption = False,
) -> None:
    """Shows the drivers of the service manager, their states, and why."""
    import msgspec

    from neurald.hal.crashes.wrong_results import WrongResults
    from neurald.hal.errors import UnavailableDevice
    from neurald.service.console.output import write_json
    from neurald.service.manager.control import manager_status
    from neurald.service.manager.state import DriverState

    records = None if system else WrongResults.of_user()
    wrong = () if records is None else records.entries()
    try:
        found = manager_status(system=system)
    except UnavailableDevice:
        if not json:
            _show_wrong(wrong)
        raise
    if json:
        described = [
            {**msgspec.to_builtins(each), "pattern": each.pattern.digest, "operations": each.pattern.text}
            for each in wrong
        ]
        write_json({**msgspec.to_builtins(found), "wrong_results": described})
    else:
        _show(found)
        _show_wrong(wrong)
    if check and any(each.state is DriverState.QUARANTINED for each in found.drivers):
        raise typer.Exit(1)


def _show(found: "ManagerStatus") -> None:
    from neurald.service.console.output import printable, write_line, write_table

    columns = ("driver", "state", "process", "sessions", "sandbox", "starts", "deaths", "last exit")
    rows = [
        (
            each.name,
            each.state.value,
            "-" if each.process is None else str(each.process),
            "-" if each.sessions is None else str(each.sessions),
            each.sandbox or "-",
            str(each.starts),
            str(each.deaths),
            each.last_exit or "-",
        )
        for each in found.drivers
    ]
    write_table(columns, rows)
    if found.service is not None:
        _show_service(found.service)
    for each in found.drivers:
        if each.listen:
            write_line(f"{each.name}: serves other hosts at {each.listen}, with certificates")
        if each.sandbox == "partial":
            write_line(f"{each.name}: the sandbox lacks {', '.join(each.sandbox_missing)}")
        if each.reason:
            write_line(f"{each.name}: {each.reason}")
        if each.reason and each.process is None:
            for line in each.last_lines[-_SHOWN_LINES:]:
                if line not in each.reason:
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


def _show_wrong(entries: "Sequence[WrongResult]") -> None:
    """Shows what applications of this user found devices to compute wrong."""
    from neurald.service.console.output import printable, write_line

    for each in entries:
        write_line(
            printable(
                f"{each.device}: {each.pattern.digest} refused: {each.pattern.text}; it computed wrong values, "
                f"version {each.version}"
            )
        )
        write_line(printable(f"  {each.difference}; {each.narrowing}"))


def _show_service(service: "ServiceStatus") -> None:
    from neurald.service.console.output import printable, write_line, write_table

    places = ", ".join(f"{protocol} {address}" for protocol, address in service.addresses.items())
    write_line(f"execution service: {places or 'starting'}, {'ready' if service.is_ready else 'not ready'}")
    if service.failure:
        write_line(printable(f"it could not start: {service.failure}"))
    rows = [
        (
            printable(each.name),
            each.version or "-",
            "READY" if each.is_ready else "UNAVAILABLE",
            ", ".join(map(str, each.processes)) or "-",
            ", ".join(dict.fromkeys(each.devices)) or "-",
        )
        for each in service.models
    ]
    if rows:
        write_table(("model", "version", "state", "processes", "devices"), rows)
    for each in service.models:
        if each.reason:
            write_line(printable(f"{each.name}: {each.reason}"))
