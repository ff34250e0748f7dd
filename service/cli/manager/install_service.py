"""The commands `neurald install-service` and `neurald uninstall-service`."""

from pathlib import Path
from typing import Annotated

import typer

_System = Annotated[
    bool,
    typer.Option(
        "--system/--user",
        help="For all users of the machine, which needs root, or for this user only. [default: --user]",
        show_default=False,
    ),
]
_Root = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Change the files of the system below this directory, such as an image, and run nothing.",
        show_default=False,
    ),
]


def install_service(
    system: _System = False,
    print_only: Annotated[bool, typer.Option("--print", help="Print the files and change nothing.")] = False,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The configuration file.", show_default=False),
    ] = None,
    root: _Root = None,
) -> None:
    """Makes the service manager a service of systemd.

    systemd listens at the sockets of the configured drivers, and starts the manager at the first
    connection. Run it again after a change of the list of drivers.
    """
    from neurald.service.console.output import write_line
    from neurald.service.installation.installer import install, unit_files
    from neurald.service.manager.settings.configuration import Flags, load_configuration

    files = unit_files(load_configuration(config, Flags(system=system)), is_system=system, file=config)
    if print_only:
        for path, text in files.items():
            write_line(f"# {path}")
            write_line(text)
        return
    install(files, is_system=system, root=root, tell=write_line)


def uninstall_service(system: _System = False, root: _Root = None) -> None:
    """Stops the service and removes what install-service wrote. Configuration and cache stay."""
    from neurald.service.console.output import write_line
    from neurald.service.installation.installer import uninstall, unit_paths

    uninstall(unit_paths(is_system=system), is_system=system, root=root, tell=write_line)
