"""The command `neurald driver`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from neurald.service.cli.options.completion import driver_names
from neurald.service.cli.options.daemon_access import (
    AllowGroupOption,
    AllowUserOption,
    DaemonInsecureOption,
    DaemonTlsOption,
    LimitOption,
    ListenOption,
    ListenTlsOption,
    SocketModeOption,
    TlsCaOption,
    TlsCertOption,
    TlsKeyOption,
)
from neurald.service.cli.options.sandbox import ReadableOption, SandboxOption, WritableOption
from neurald.service.cli.options.service_process import LogFormatOption, LogLevelOption, UntilExitOption
from neurald.service.logs.choices import LogFormat, LogLevel
from neurald.service.sandbox.mode import OWN_PROCESS, SandboxMode

if TYPE_CHECKING:
    from neurald.hal.process.address import Address
    from neurald.hal.rpc.transport.tls_files import TlsFiles


def driver(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            autocompletion=driver_names,
            metavar="NAME",
            help="cpu, the name of an installed driver, or module:factory (the module may be in the "
            "current folder).",
            show_default=False,
        ),
    ],
    listen: ListenOption = None,
    listen_tls: ListenTlsOption = None,
    tls: DaemonTlsOption = None,
    tls_cert: TlsCertOption = None,
    tls_key: TlsKeyOption = None,
    tls_ca: TlsCaOption = None,
    insecure: DaemonInsecureOption = False,
    limit: LimitOption = None,
    sandbox: SandboxOption = SandboxMode.AUTO,
    allow_user: AllowUserOption = None,
    allow_group: AllowGroupOption = None,
    socket_mode: SocketModeOption = "0600",
    writable: WritableOption = None,
    readable: ReadableOption = None,
    drain: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=0, help="How long running calls may take when the daemon is stopped."
        ),
    ] = 30.0,
    take_over: Annotated[
        bool,
        typer.Option(
            "--take-over",
            help="Replace the process that serves the socket, without a gap, once the device is ready. The "
            "service manager starts drivers in this way; it also prevents that two do so at once.",
        ),
    ] = False,
    await_start: Annotated[
        bool,
        typer.Option(
            "--await-start",
            help="Load the driver, then wait for the line `begin` on standard input before opening the device, "
            "and end if there is none. The service manager keeps such processes ready.",
        ),
    ] = False,
    fork: Annotated[
        bool,
        typer.Option(
            "--fork",
            help="Load what every daemon needs, then fork one, which does what the other options say, for each "
            "request at standard input, which is a socket. The service manager starts drivers in this way.",
        ),
    ] = False,
    until_exit_of: UntilExitOption = None,
    log_format: LogFormatOption = None,
    log_level: LogLevelOption = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="The same as --log-level info.")] = False,
) -> None:
    """Serves a device until SIGTERM or Ctrl-C, then completes running calls.

    After a second signal it does not wait for running calls.
    """
    import contextlib
    import faulthandler

    if fork:
        import neurald.service.logs.setup  # noqa: F401 - for the processes that are forked
        from neurald.service.daemon.forking import is_forked

        if not is_forked(name):
            raise typer.Exit
    from neurald.hal.accounting.limits import parse_limits
    from neurald.hal.cache.secret import keep_derived_secret
    from neurald.hal.process.address import Address
    from neurald.hal.process.files.runtime_directory import address_of
    from neurald.service.daemon.admitted_users import sharing_of
    from neurald.service.daemon.notifications import Notifier, supervisor_address
    from neurald.service.sandbox.sandbox import enter

    if context.obj is OWN_PROCESS:
        # A supervisor that aborts a hanging driver finds its stack traces in the log.
        faulthandler.enable()
    chosen = parse_limits(limit or ())
    sharing = sharing_of(allow_user or (), allow_group or (), socket_mode)
    files = _tls_files(tls, tls_cert, tls_key, tls_ca)
    remote = None if listen_tls is None else Address.parse(listen_tls)
    notifier = Notifier(supervisor_address())
    if context.obj is OWN_PROCESS:
        keep_derived_secret(name)
    # The process must enter the sandbox before any import that starts threads.
    entered = enter(
        sandbox,
        [address_of(name, listen), *([] if remote is None else [remote])],
        [path.absolute() for path in writable or ()],
        [*(path.absolute() for path in readable or ()), *_own_files(files)],
        driver=name,
        is_own_process=context.obj is OWN_PROCESS,
    )
    from neurald.hal.admission.access.served_clients import ServedClients
    from neurald.hal.process.own_program import find_modules_here
    from neurald.hal.registry import get_ready
    from neurald.service.daemon.daemon import Daemon
    from neurald.service.daemon.running import run_daemon
    from neurald.service.daemon.start_signal import is_to_begin
    from neurald.service.logs.setup import notice, start_log

    start_log(log_format or LogFormat.AUTO, log_level or (LogLevel.INFO if verbose else LogLevel.NOTICE))
    if ":" in name:
        find_modules_here()
    if await_start:
        entered.close()
        with contextlib.suppress(Exception):  # creating the device reports it
            get_ready(name)
        if not is_to_begin():
            entered.remove_temporary_files()
            raise typer.Exit

    def ready(address: str) -> None:
        if insecure:
            notice(_warning(Address.parse(address)))
        notice(f"serving {name} on {address}" + (f" and {remote}" if remote is not None else ""))

    daemon = Daemon(
        name,
        listen,
        listen_tls=remote,
        clients=ServedClients(insecure=insecure, tls=files, sharing=sharing),
        limits=chosen,
        drain_s=drain,
        sandbox=entered,
        takes_over=take_over,
        notifier=notifier,
    )
    raise typer.Exit(run_daemon(daemon, ready=ready, until_exit_of=until_exit_of))


def _own_files(tls: "TlsFiles | None") -> list[Path]:
    """Returns the directories that a daemon with these options reads."""
    return [path.parent for path in (tls.certificate, tls.key, tls.authority)] if tls is not None else []


def _tls_files(
    folder: Path | None, certificate: Path | None, key: Path | None, authority: Path | None
) -> "TlsFiles | None":
    """Returns the files for TLS that the options name; None without any."""
    from neurald.hal.errors import BadData

    if folder is None and certificate is None and key is None and authority is None:
        return None
    from neurald.hal.rpc.transport.tls_files import TlsFiles

    if folder is None:
        if certificate is None or key is None or authority is None:
            raise BadData("TLS needs --tls FOLDER, or each of --tls-cert, --tls-key and --tls-ca")
        return TlsFiles(
            certificate=certificate.absolute(), key=key.absolute(), authority=authority.absolute()
        )
    files = TlsFiles.in_folder(folder)
    return TlsFiles(
        certificate=certificate.absolute() if certificate else files.certificate,
        key=key.absolute() if key else files.key,
        authority=authority.absolute() if authority else files.authority,
    )


def _warning(address: "Address") -> str:
    """Returns the warning about --insecure for a daemon at this address."""
    if address.path is not None:
        return (
            "warning: --insecure: any process that can open the socket may query the device, without a token"
        )
    if address.is_loopback:
        return "warning: --insecure: every user of this machine may use the device without a token"
    return (
        "warning: --insecure: every host that can reach this address can run models on this machine "
        "and read the traffic, since nothing is authenticated or encrypted"
    )
