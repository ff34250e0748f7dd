"""The command `neurald serve`."""

from pathlib import Path
from typing import Annotated

import typer

from neurald.service.cli.log_options import LogFormatOption, LogLevelOption


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
    drain: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="How long running calls of a driver may take when it is stopped. [default: 30]",
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
    system: Annotated[
        bool,
        typer.Option(
            "--system",
            help="Serve all users of the machine whom the configuration admits, by default the members of "
            "the group neurald, in /run/neurald.",
        ),
    ] = False,
    exit_when_idle: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0,
            help="End when no driver has run for this long. Managers that applications start do. "
            "[default: never]",
            show_default=False,
        ),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the log to this file instead of stderr. At 1 MiB it becomes FILE.1 and a new one "
            "begins.",
            show_default=False,
        ),
    ] = None,
    log_format: LogFormatOption = None,
    log_level: LogLevelOption = None,
) -> None:
    """Supervises drivers until SIGTERM or Ctrl-C.

    Drivers start at their first connection and stop when they are idle. One that dies is started
    again after a pause, and one that keeps dying is not. SIGHUP loads the configuration again.
    """
    import asyncio
    from functools import partial

    from neurald.hal.process.runtime_directory import serve_machine
    from neurald.service.logs.setup import notice, start_log
    from neurald.service.manager.configuration import Flags, load_for_this_machine
    from neurald.service.manager.manager import Manager

    flags = Flags(
        drivers=tuple(driver or ()),
        idle_s=idle,
        drain_s=drain,
        log_level=log_level,
        log_format=log_format,
        system=system,
    )
    if system:
        serve_machine()
    load = partial(load_for_this_machine, config, flags)
    configuration = load()
    start_log(configuration.log_format, configuration.log_level, log)

    def ready(directory: str) -> None:
        names = ", ".join(configuration.drivers) or "no drivers"
        notice(f"supervising {names} in {directory}")

    async def run() -> None:
        await Manager(configuration, load, exit_when_idle_s=exit_when_idle).run(ready)

    asyncio.run(run())
