"""The command `neurald serve`."""

from pathlib import Path
from typing import Annotated

import typer


def serve(
    driver: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A driver to supervise, instead of those of the configuration. May be repeated.",
            show_default=False,
        ),
    ] = None,
    idle: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Stop a driver that has had no clients for this long; 0 never does. [default: 300]",
            show_default=False,
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The configuration file. [default: NEURALD_CONFIG, or neurald/neurald.toml in "
            "XDG_CONFIG_HOME or /etc]",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Supervises drivers until SIGTERM or Ctrl-C.

    Drivers start at their first connection and stop when they are idle. One that dies is started
    again after a pause, and one that keeps dying is not. SIGHUP loads the configuration again.
    """
    import asyncio
    import sys
    from functools import partial

    from neurald.service.console.output import printable
    from neurald.service.manager.configuration import load_configuration
    from neurald.service.manager.manager import Manager

    load = partial(load_configuration, config, tuple(driver or ()), idle)
    configuration = load()

    def write(line: str) -> None:
        sys.stderr.write(printable(line) + "\n")
        sys.stderr.flush()

    def ready(directory: str) -> None:
        names = ", ".join(configuration.drivers) or "no drivers"
        write(f"supervising {names} in {directory}")

    async def run() -> None:
        await Manager(configuration, load, write).run(ready)

    asyncio.run(run())


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


#: How many of the last lines of a driver that does not run are shown.
_SHOWN_LINES = 5


def restart(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The driver.", show_default=False)],
) -> None:
    """Replaces a driver's process by a new one without a gap.

    Clients of the old process finish their calls. If the new process does not become ready, the old
    one stays. A driver in quarantine may be started again.
    """
    from neurald.service.manager.control import restart_driver

    restart_driver(name)


def config(
    file: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="The configuration file.", show_default=False),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Prints the configuration of the service manager, and where each value comes from."""
    import msgspec

    from neurald.service.console.output import write_json, write_table
    from neurald.service.manager.configuration import load_configuration

    found = load_configuration(file)
    if json:
        write_json(msgspec.to_builtins(found))
        return
    values: dict[str, object] = {"drivers": list(found.drivers)}
    for name, settings in found.drivers.items():
        for field, value in msgspec.to_builtins(settings).items():
            values[f"drivers.{name}.{field}"] = value
    rows = [(name, str(value), found.sources[name]) for name, value in values.items()]
    write_table(("setting", "value", "source"), rows)
