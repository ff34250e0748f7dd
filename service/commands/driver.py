"""`neurald driver`."""

from typing import Annotated

import typer


def driver(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="cpu, the name of an installed driver, or module:factory (also of the current folder).",
            show_default=False,
        ),
    ],
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="ADDR",
            help="unix:///path or host:port. [default: a socket named after the driver, where `neurald devices` looks]",
        ),
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Let other hosts connect without encryption; anybody can then.")
    ] = False,
    limit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=NUMBER",
            help="What clients may have, such as sessions=8, memory of a session (memory_bytes=512MiB), of all sessions of a "
            "user (user_memory_bytes=2GiB) and of all clients (total_memory_bytes=4GiB), or how many seconds an execution "
            "may take before the device counts as hanging (execution_s=600); may be repeated.",
            show_default=False,
        ),
    ] = None,
    until_exit_of: Annotated[
        int | None,
        typer.Option(metavar="PID", min=1, help="Stop when this process ends.", show_default=False),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what happens to stderr.")] = False,
) -> None:
    """Serves a device until SIGTERM or Ctrl-C, then lets calls under way finish; a second one does not wait."""
    import logging
    import os
    import sys

    from neurald.hal.address import Address
    from neurald.hal.limits import parse_limits
    from neurald.service.daemon import serve
    from neurald.service.output import printable

    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    if ":" in name:
        # At the end, so that no module there hides one of ours.
        sys.path.append(os.getcwd())  # noqa: PTH109 - a plain string is wanted

    def ready(address: str) -> None:
        if insecure and not Address.parse(address).is_loopback:
            sys.stderr.write(
                "warning: --insecure: whoever reaches this address can run models on this machine "
                "and read what is sent, since nothing is authenticated or encrypted\n"
            )
        sys.stderr.write(printable(f"serving {name} on {address}") + "\n")
        sys.stderr.flush()

    chosen = parse_limits(limit or ())
    status = serve(name, listen, insecure=insecure, limits=chosen, ready=ready, until_exit_of=until_exit_of)
    raise typer.Exit(status)
