"""The `neurald` command.

Every command follows three rules. Results go to stdout, with `--json` as one JSON document. Errors
go to stderr as one sentence, never as a traceback; the exit status is 1, or 2 if the command line
itself is wrong. After Ctrl-C the exit status is 130.

This module and those of the commands must not import anything that takes long, since that would
slow down `neurald --help`.
"""

import contextlib
import errno
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from neurald._version import __version__
from neurald.hal.process.environment import environment_variable
from neurald.service.cli.cache import cache
from neurald.service.cli.cert import cert
from neurald.service.cli.demo import demo
from neurald.service.cli.doctor import doctor
from neurald.service.cli.drivers.calibrate import calibrate
from neurald.service.cli.drivers.conformance import conformance
from neurald.service.cli.drivers.devices import devices
from neurald.service.cli.drivers.driver import driver
from neurald.service.cli.drivers.new_driver import new_driver
from neurald.service.cli.manager.config import config
from neurald.service.cli.manager.forgive import forgive
from neurald.service.cli.manager.install_service import install_service, uninstall_service
from neurald.service.cli.manager.restart import restart
from neurald.service.cli.manager.serve import serve
from neurald.service.cli.manager.status import status
from neurald.service.cli.manager.top import top
from neurald.service.cli.models.benchmark import BenchmarkCommand, benchmark
from neurald.service.cli.models.compile import compile  # noqa: A004
from neurald.service.cli.models.explain import explain
from neurald.service.cli.models.inspect import inspect
from neurald.service.cli.models.run import RunCommand, run
from neurald.service.cli.models.verify import verify
from neurald.service.cli.options.service import ServeCommand
from neurald.service.console.interrupts import interrupt_soon
from neurald.service.sandbox.mode import OWN_PROCESS

#: If this variable is set, unexpected errors are shown with a traceback.
DEBUG_VARIABLE = "NEURALD_DEBUG"

#: Maximum length of an error message. Longer ones are truncated, since names in a hostile model can
#: have any length.
_MAX_MESSAGE_LENGTH = 2000

#: What Typer writes before a message of wrong usage.
_TYPER_PREFIX = "Error: "

#: Errors of the system that only writing has, which does not name what is written.
_WRITING_FAILED = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EBADF)

_INTERRUPTED = 130
_BROKEN_PIPE = 141


class _Commands(TyperGroup):
    """Lists commands by subject, and converts exceptions to a sentence and an exit status."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Lists the commands of each subject under its title."""
        sections: dict[str, dict[str, Any]] = {}
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                title = getattr(command, "rich_help_panel")  # noqa: B009 - only Typer's commands have it
                sections.setdefault(title, {})[name] = command
        width = max(len(name) for commands in sections.values() for name in commands)
        for title, commands in sections.items():
            with formatter.section(title):
                # Names have the same width in all sections.
                formatter.write_dl(
                    [
                        (name.ljust(width), command.get_short_help_str(formatter.width - 6 - width))
                        for name, command in commands.items()
                    ]
                )

    def make_context(self, *args: Any, **options: Any) -> Any:
        with _reporting_errors(), _wrapping_usage_errors():
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        with _reporting_errors(), _wrapping_usage_errors():
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result


@contextlib.contextmanager
def _reporting_errors() -> Iterator[None]:
    """Ends the command with a sentence and an exit status if the block raises an error."""
    from neurald.service.console.output import discard_stdout, write_error

    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(_INTERRUPTED) from None
    except BrokenPipeError:
        discard_stdout()
        raise typer.Exit(_BROKEN_PIPE) from None
    except Exception as error:
        # Typer reports its own exceptions (wrong usage and exits), which have an exit status.
        if hasattr(error, "exit_code") or isinstance(error, typer.Abort):
            raise
        write_error(_one_line(_message(error)))
        try:
            sys.stdout.flush()
        except OSError:
            # Output that could not be written must not fail again when the interpreter ends.
            discard_stdout()
        raise typer.Exit(1) from None


@contextlib.contextmanager
def _wrapping_usage_errors() -> Iterator[None]:
    """Wraps the messages of wrong usage on a terminal, since Typer writes them as one line."""
    try:
        yield
    except Exception as error:
        message = getattr(error, "format_message", None)
        if message is not None:
            from neurald.service.console.output import wrapped

            lines = (_TYPER_PREFIX + _with_value(message(), error)).split("\n")
            text = "\n".join(wrapped(line, sys.stderr) for line in lines).removeprefix(_TYPER_PREFIX)
            error.format_message = lambda: text  # type: ignore[attr-defined]
        raise


def _with_value(message: str, error: Exception) -> str:
    """Adds which value is wrong to a message that only says what is expected."""
    # Pydantic, which newer versions of Typer check values with, says how it has checked, too.
    details = getattr(error.__cause__, "errors", None)
    if not callable(details):
        return message
    from neurald.hal.api_arguments import shown

    expected = re.sub(r", unable to parse string as an? \w+|Value error, ", "", message).removesuffix(".")
    value = shown(details()[0]["input"])
    return expected if f": {value} is " in expected else f"{expected}; {value} is given"


def _message(error: Exception) -> str:
    from neurald.hal.errors import Error
    from neurald.hal.open_file_limit import descriptor_advice

    if isinstance(error, Error):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        if error.filename is not None:
            return f"{error.filename}: {error.strerror}{descriptor_advice(error)}"
        # Files that are written have a name.
        is_output = error.errno in _WRITING_FAILED
        return (
            f"standard output cannot be written: {error.strerror}"
            if is_output
            else error.strerror + descriptor_advice(error)
        )
    if isinstance(error, MemoryError):
        return f"out of memory: {error}" if str(error) else "out of memory"
    if environment_variable(DEBUG_VARIABLE):
        raise error
    return f"unexpected {type(error).__name__}: {error} (set {DEBUG_VARIABLE}=1 to see where)"


def _one_line(text: str) -> str:
    """Joins lines with semicolons, or with a space after a colon, and truncates long text."""
    joined = ""
    for line in text.split("\n"):
        separator = "" if not joined else " " if joined.endswith(":") else "; "
        joined += separator + line.strip()
    return joined if len(joined) <= _MAX_MESSAGE_LENGTH else joined[:_MAX_MESSAGE_LENGTH] + "…"


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"neurald {__version__}\n")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A copy of the token file of the TCP daemon to use. It is needed for a daemon of "
            "another user, or behind a forwarded port. NEURALD_TOKEN_FILE has the same effect.",
            show_default=False,
        ),
    ] = None,
) -> None:
    if token_file is not None:
        from neurald.hal.rpc.transport.access_token import TOKEN_VARIABLE

        os.environ[TOKEN_VARIABLE] = str(token_file)


app = typer.Typer(
    name="neurald",
    cls=_Commands,
    callback=_options,
    help="Run neural networks on the devices of this machine, and serve devices to others.",
    no_args_is_help=True,
    # Help and errors are plain text, because rich's formatting takes longer than everything else.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_MODELS: Final = "Models"
app.command(cls=RunCommand, help="Run a model on a photo, arrays or random input.", rich_help_panel=_MODELS)(
    run
)
app.command(
    cls=BenchmarkCommand,
    help="Measure how fast a model loads, prepares and runs.",
    rich_help_panel=_MODELS,
)(benchmark)
app.command(help="Compile a model to a signed plan file.", rich_help_panel=_MODELS)(compile)
app.command(
    help="Check that devices compute a model as the reference kernels do.",
    short_help="Check that devices compute a model correctly.",
    rich_help_panel=_MODELS,
)(verify)
app.command(
    help="Show which device would run each operation of a model, and why.",
    short_help="Show which device runs each operation, and why.",
    rich_help_panel=_MODELS,
)(explain)
app.command(
    help="Show what is in a model: inputs, outputs, constants, operations.",
    short_help="Show the inputs, outputs and operations of a model.",
    rich_help_panel=_MODELS,
)(inspect)

_DRIVERS: Final = "Devices and drivers"
app.command(help="List the devices and how fast they are.", rich_help_panel=_DRIVERS)(devices)
app.command(help="Serve a device to other processes until stopped.", rich_help_panel=_DRIVERS)(driver)
app.command(
    help="Measure what operations, launches and transfers cost on each device.",
    short_help="Measure what operations cost on each device.",
    rich_help_panel=_DRIVERS,
)(calibrate)
app.command(
    help="Check that a device behaves as every device must.\n\nA device of this process is also opened "
    "in a separate process, where cases run with their inputs and outputs between inaccessible memory "
    "pages. This is not possible for a daemon; the report says so.",
    rich_help_panel=_DRIVERS,
)(conformance)
app.command("new-driver", help="Write the package of a new driver, with tests.", rich_help_panel=_DRIVERS)(
    new_driver
)

_MANAGER: Final = "Service manager"
app.command(
    cls=ServeCommand,
    help="Start drivers on demand, supervise them, and serve models.",
    short_help="Start and supervise drivers, and serve models.",
    rich_help_panel=_MANAGER,
)(serve)
app.command("up", cls=ServeCommand, help="The same as `neurald serve`.", hidden=True)(serve)
app.command(help="Show what the service manager's drivers do, and why.", rich_help_panel=_MANAGER)(status)
app.command(help="Show what drivers use, and models, again and again.", rich_help_panel=_MANAGER)(top)
app.command(
    help="Replace a driver's process without a gap, or end its quarantine.",
    short_help="Replace a driver's process, or end its quarantine.",
    rich_help_panel=_MANAGER,
)(restart)
app.command(help="Let a driver try again what killed it or was wrong.", rich_help_panel=_MANAGER)(forgive)
app.command(
    help="Show the service manager's configuration and where it comes from.",
    short_help="Show the configuration, and where it comes from.",
    rich_help_panel=_MANAGER,
)(config)
app.command(
    "install-service", help="Make the service manager a service of systemd.", rich_help_panel=_MANAGER
)(install_service)
app.command("uninstall-service", help="Remove the service of systemd.", rich_help_panel=_MANAGER)(
    uninstall_service
)

_MACHINE: Final = "This machine"
app.command(
    help="Say what is installed, what is wrong, and how to mend it.",
    short_help="Say what is wrong here, and how to mend it.",
    rich_help_panel=_MACHINE,
)(doctor)
app.add_typer(
    cache,
    name="cache",
    help="Manage the compilation cache: ls, verify, prune, warm.",
    rich_help_panel=_MACHINE,
)
app.add_typer(
    cert,
    name="cert",
    help="Manage certificates for other hosts: init, issue, revoke, show.",
    short_help="Manage certificates: init, issue, revoke, show.",
    rich_help_panel=_MACHINE,
)
app.command(
    help="Classify handwritten digits in this process, in a daemon and by a service.",
    short_help="Classify handwritten digits in three ways.",
    rich_help_panel=_MACHINE,
)(demo)


def _interrupt_again(unraisable: "sys.UnraisableHookArgs") -> None:
    """Repeats a Ctrl-C that arrived in a finalizer, where Python discards exceptions."""
    if unraisable.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(unraisable)
        return
    interrupt_soon()


def _reopen_closed_streams() -> None:
    """Opens streams that the shell closed (`>&-`), so that no file or socket gets their numbers.

    Writing to a closed stdout then fails with the system's own message, as in other programs.
    """
    # In ascending order, since `os.open` returns the lowest free number.
    for number, name, flags in (
        (0, "stdin", os.O_RDONLY),
        (1, "stdout", os.O_RDONLY),
        (2, "stderr", os.O_WRONLY),
    ):
        if getattr(sys, name) is None:
            if (opened := os.open(os.devnull, flags)) != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115


def main() -> None:
    """Runs the `neurald` command and ends the process."""
    _reopen_closed_streams()
    # gRPC's own messages would only repeat the errors that the command reports.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    if not sys.warnoptions:
        import warnings

        warnings.simplefilter("ignore")
    for stream in (sys.stdout, sys.stderr):
        # Characters that the terminal's encoding lacks must not cause an error.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.unraisablehook = _interrupt_again
    try:
        app(obj=OWN_PROCESS)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
