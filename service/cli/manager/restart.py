"""The command `neurald restart`."""

from typing import Annotated

import typer

from neurald.service.cli.options.completion import driver_names
from neurald.service.cli.options.manager import SystemOption


def restart(
    name: Annotated[
        str,
        typer.Argument(autocompletion=driver_names, metavar="NAME", help="The driver.", show_default=False),
    ],
    wait: Annotated[
        bool,
        typer.Option("--wait/--no-wait", help="Wait until the new process serves or was given up."),
    ] = True,
    system: SystemOption = False,
) -> None:
    """Replaces a driver's process by a new one without a gap.

    Clients of the old process finish their calls. If the new process does not become ready, the old
    one stays, and the exit status is 1. A driver in quarantine may be started again.
    """
    from neurald.service.console.output import printable, write_line
    from neurald.service.manager.control import restart_driver

    text = restart_driver(name, system=system, waits=wait)
    if text:
        write_line(printable(text))
