"""A process that serves a driver's device."""

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from neurald.hal.admission.sharing import Sharing
from neurald.hal.crashes.breadcrumbs import VARIABLE as BREADCRUMBS_VARIABLE
from neurald.hal.crashes.breadcrumbs import create_memory
from neurald.hal.process.autostart import AUTOSTART_VARIABLE
from neurald.hal.process.orphans import ORPHANS
from neurald.service.console.output import printable
from neurald.service.crashes.autopsy import (
    DriverEnd,
    describe_end,
    faulting_thread,
    is_stopped,
    memory_kills,
)
from neurald.service.daemon.notifications import SANDBOX, SANDBOX_MISSING, SOCKET_VARIABLE
from neurald.service.daemon.start_signal import BEGIN
from neurald.service.logs.choices import LogFormat, LogLevel
from neurald.service.logs.formatters import split_priority
from neurald.service.manager.configuration import DriverSettings, limit_arguments, tls_arguments
from neurald.service.sandbox.sandbox import ALL_PARTS

#: Tells processes that drivers leave behind from others. Its value is the id of the manager.
MANAGER_VARIABLE: Final = "NEURALD_MANAGER"
#: How many of the last lines of stderr are kept, and how long a line may be.
_KEPT_LINES: Final = 20
_MAX_LINE_BYTES: Final = 2000
_SANDBOX_STATES: Final = ("full", "partial", "off")
_READ_BYTES: Final = 1 << 16
#: How often stderr is read after the end of the process: a pipe holds no more.
_LAST_READS: Final = 16
#: Time between the signal that writes stack traces to the log and the one that ends any process.
_TRACEBACK_S: Final = 0.25


class DriverProcess:
    """Starts a process and watches it: its end through a pidfd, and what it writes to stderr.

    The process loads the driver, and then waits for `begin` before it opens the device.

    Args:
        settings: of the driver.
        address: where it serves.
        sharing: whom it serves.
        notify: the socket that receives its notifications.
        write: receives what it writes to stderr, line by line, with the level of each line.
        ended: is called once it has ended.

    Attributes:
        last_lines: the last lines that it wrote.
        has_begun: whether `begin` was called.
        ready_s: when it became ready, on the loop's clock; None before.
        sandbox: what restricts it, as it has told itself; None before it is ready.
        sandbox_missing: the parts of the sandbox that are not in force.
        breadcrumbs: descriptor of its breadcrumbs, until `ended` returns.
        helper_deaths: how many deaths of its helpers are known.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(
        self,
        settings: DriverSettings,
        address: str,
        sharing: Sharing,
        notify: Path,
        write: Callable[[str, int], None],
        ended: Callable[["DriverProcess"], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._write = write
        self._ended = ended
        self._killing: asyncio.TimerHandle | None = None
        self._partial = b""
        self.last_lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self.has_begun = False
        self.ready_s: float | None = None
        self.sandbox: str | None = None
        self.sandbox_missing: tuple[str, ...] = ()
        self.helper_deaths = 0
        self._thread: int | None = None
        self._was_aborted = self._was_stopped = False
        self._memory_kills = memory_kills()
        with contextlib.ExitStack() as cleanup:
            self.breadcrumbs = create_memory()
            cleanup.callback(os.close, self.breadcrumbs)
            self._process = subprocess.Popen(  # noqa: S603 - the operator's own configuration
                _command(settings, address, sharing),
                env={
                    **os.environ,
                    **settings.environment,
                    SOCKET_VARIABLE: str(notify),
                    BREADCRUMBS_VARIABLE: str(self.breadcrumbs),
                    MANAGER_VARIABLE: str(os.getpid()),
                    # A driver must not start the manager of others.
                    AUTOSTART_VARIABLE: "0",
                },
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=(self.breadcrumbs,),
                start_new_session=True,
            )
            ORPHANS.started(self._process.pid)
            cleanup.callback(_abandon, self._process)
            self._pidfd = os.pidfd_open(self._process.pid)
            cleanup.pop_all()
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        assert self._process.stderr is not None  # noqa: S101 - it is a pipe
        self._stdin, self._stderr = self._process.stdin, self._process.stderr
        os.set_blocking(self._stderr.fileno(), False)
        self._loop.add_reader(self._stderr.fileno(), self._read)
        self._loop.add_reader(self._pidfd, self._reap)

    def describe_sandbox(self, values: Mapping[str, str]) -> None:
        """Takes over what the process has told of its sandbox."""
        state = values.get(SANDBOX, "")
        self.sandbox = state if state in _SANDBOX_STATES else None
        missing = values.get(SANDBOX_MISSING, "")
        self.sandbox_missing = tuple(part for part in ALL_PARTS if part in missing.split(","))

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    @property
    def exit_text(self) -> str:
        """The end of the process, such as "signal SIGKILL"."""
        status = self._process.returncode
        return "" if status is None else describe_end(status)

    @property
    def end(self) -> DriverEnd:
        """The end of the process, for finding out its cause."""
        return DriverEnd(
            status=self._process.returncode or 0,
            was_aborted=self._was_aborted,
            was_stopped=self._was_stopped,
            ran_out_of_memory=memory_kills() > self._memory_kills,
            thread=self._thread,
        )

    def begin(self) -> None:
        """Lets the process open the device and serve it."""
        self.has_begun = True
        self._memory_kills = memory_kills()
        with contextlib.suppress(BrokenPipeError):
            self._stdin.write(BEGIN)
            self._stdin.flush()
        self._close_stdin()

    def _close_stdin(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._stdin.close()

    def stop(self, within_s: float) -> None:
        """Asks the process to end, and kills it unless it does so in time."""
        if self.has_begun:
            self._signal(signal.SIGTERM)
        else:
            self._close_stdin()
        self._kill_later(within_s)

    def abort(self) -> None:
        """Ends a process that hangs. If it still can, it writes the stacks of its threads first."""
        self._was_aborted = True
        self._was_stopped = is_stopped(self._process.pid)
        if self._was_stopped:
            self.kill()  # it would write nothing
            return
        self._signal(signal.SIGABRT)
        self._kill_later(_TRACEBACK_S)

    def kill(self) -> None:
        """Ends the process and those that it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _kill_later(self, within_s: float) -> None:
        if self._killing is not None:
            self._killing.cancel()
        self._killing = self._loop.call_later(within_s, self.kill)

    def _signal(self, number: int) -> None:
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def _read(self) -> bool:
        """Reads some of stderr; returns True if there may be more."""
        try:
            received = os.read(self._stderr.fileno(), _READ_BYTES)
        except BlockingIOError:
            return False
        if not received:
            # At its end a pipe stays readable.
            self._loop.remove_reader(self._stderr.fileno())
            return False
        *lines, self._partial = (self._partial + received).split(b"\n")
        self._partial = self._partial[:_MAX_LINE_BYTES]
        for line in lines:
            self._keep(line)
        return True

    def _keep(self, line: bytes) -> None:
        self._thread = faulting_thread(line) or self._thread
        level, text = split_priority(line[:_MAX_LINE_BYTES].decode(errors="replace").rstrip(), logging.INFO)
        # Libraries of vendors write to stderr, too. `neurald status` shows these lines.
        text = printable(text)
        self.last_lines.append(text)
        self._write(text, level)

    def _reap(self) -> None:
        # Helpers of the driver, such as compilers, end with it. Its id is not free before `wait`.
        self.kill()
        _wait_for(self._process)
        ORPHANS.end()
        self._loop.remove_reader(self._pidfd)
        # A process that has left the group may still hold the pipe, and write until it is ended.
        for _ in range(_LAST_READS):
            if not self._read():
                break
        self._loop.remove_reader(self._stderr.fileno())
        if self._partial:
            self._keep(self._partial)
        self._stderr.close()
        self._close_stdin()
        os.close(self._pidfd)
        if self._killing is not None:
            self._killing.cancel()
        self._ended(self)
        os.close(self.breadcrumbs)


def _abandon(process: "subprocess.Popen[bytes]") -> None:
    """Ends a process that cannot be watched."""
    process.kill()
    _wait_for(process)
    for stream in (process.stdin, process.stderr):
        if stream is not None:
            stream.close()


def _wait_for(process: "subprocess.Popen[bytes]") -> None:
    process.wait()
    ORPHANS.ended(process.pid)


def _command(settings: DriverSettings, address: str, sharing: Sharing) -> list[str]:
    command = [sys.executable, "-m", "neurald", "driver", settings.driver, "--listen", address]
    command += ["--await-start", "--take-over", "--until-exit-of", str(os.getpid())]
    command += ["--drain", f"{settings.drain_s:g}"]
    command += ["--sandbox", settings.sandbox.value]
    command += ["--log-format", LogFormat.JOURNAL, "--log-level", settings.log_level or LogLevel.NOTICE]
    command += ["--socket-mode", f"{sharing.socket_mode:04o}"]
    for user in sorted(sharing.users):
        command += ["--allow-user", str(user)]
    for group in sorted(sharing.groups):
        command += ["--allow-group", str(group)]
    command += tls_arguments(settings)
    for limit in limit_arguments(settings):
        command += ["--limit", limit]
    for path in settings.writable:
        command += ["--writable", path]
    for path in settings.readable:
        command += ["--readable", path]
    return command
