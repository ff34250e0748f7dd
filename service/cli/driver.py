"""`neurald driver`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from neurald.service.sandbox.mode import OWN_PROCESS, SandboxMode

if TYPE_CHECKING:
    from neurald.hal.process.address import Address


def driver(
    context: typer.Context,
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
            help="unix:///path or host:port, on this host. Clients on TCP show a token, which is in a file in "
            "the runtime directory. [default: a socket named after the driver, where `neurald devices` looks]",
        ),
    ] = None,
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure",
            help="Ask nobody for the token: every user of this machine may use the device, and so may every "
            "host that reaches the address. Nothing is encrypted.",
        ),
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
    sandbox: Annotated[
        SandboxMode,
        typer.Option(
            help="Keep the driver's process from writing elsewhere, from other processes and from connections: auto with "
            "what the kernel has, full not without all of it, off not at all."
        ),
    ] = SandboxMode.AUTO,
    writable: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH",
            help="A directory, file or device that the driver writes to, inside the sandbox; may be repeated.",
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

    from neurald.hal.accounting.limits import parse_limits
    from neurald.hal.process.runtime_directory import address_of
    from neurald.service.sandbox.sandbox import enter

    chosen = parse_limits(limit or ())
    # Before anything is loaded that starts threads.
    entered = enter(
        sandbox,
        address_of(name, listen),
        [path.absolute() for path in writable or ()],
        is_own_process=context.obj is OWN_PROCESS,
    )
    from neurald.hal.process.address import Address
    from neurald.service.console.output import printable
    from neurald.service.daemon.daemon import serve

    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    if ":" in name:
        # At the end, so that no module there hides one of ours.
        sys.path.append(os.getcwd())  # noqa: PTH109 - a plain string is wanted

    def ready(address: str) -> None:
        if insecure:
            sys.stderr.write(_warning(Address.parse(address)) + "\n")
        sys.stderr.write(printable(f"serving {name} on {address}") + "\n")
        sys.stderr.flush()

    status = serve(
        name,
        listen,
        insecure=insecure,
        limits=chosen,
        sandbox=entered,
        ready=ready,
        until_exit_of=until_exit_of,
    )
    raise typer.Exit(status)


def _warning(address: "Address") -> str:
    """Says what --insecure does to a daemon at an address."""
    if address.path is not None:
        return (
            "warning: --insecure: whoever the modes of the socket admit may ask about the device, "
            "without a token"
        )
    if address.is_loopback:
        return "warning: --insecure: every user of this machine may use it: nobody is asked for a token"
    return (
        "warning: --insecure: whoever reaches this address can run models on this machine "
        "and read what is sent, since nothing is authenticated or encrypted"
    )
