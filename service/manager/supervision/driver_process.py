"""A process that serves a driver's device."""

import asyncio
import contextlib
import logging
import os
import signal
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from neurald.hal.crashes.breadcrumbs import create_memory
from neurald.hal.open_file_limit import descriptor_advice
from neurald.hal.process.orphans import ORPHANS
from neurald.service.console.output import printable
from neurald.service.crashes.autopsy import (
    DriverEnd,
    describe_end,
    faulting_thread,
    is_stopped,
    memory_kills,
)
from neurald.service.daemon.notifications import SANDBOX, SANDBOX_MISSING, THREADS
from neurald.service.daemon.start_signal import BEGIN
from neurald.service.logs.formatters import split_priority
from neurald.service.sandbox.sandbox import ALL_PARTS

#: How many of the last lines of stderr are kept, and how long a line may be.
_KEPT_LINES: Final = 20
_MAX_LINE_BYTES: Final = 2000
_SANDBOX_STATES: Final = ("full", "partial", "off")
_READ_BYTES: Final = 1 << 16
#: How often stderr is read after the end of the process: a pipe holds no more.
_LAST_READS: Final = 16
#: Makes a pidfd that of one thread, since Linux 6.9, and how many threads of a process are watched.
_PIDFD_THREAD: Final = os.O_EXCL
_MAX_THREADS: Final = 4
#: How long after the end of a thread notifications that the process sent before are read.
_SAID_S: Final = 0.005
#: Time before the signal that writes stack traces to the log, and from then to the one that ends
#: any process. Stacks of running threads cannot be read safely, and the one that reported a hang
#: still runs.
_REST_S: Final = 0.05
_TRACEBACK_S: Final = 0.25


class DriverProcess:
    """Starts a process and watches it: its end through a pidfd, and what it writes to stderr.

    The process loads the driver, and then waits for `begin` before it opens the device.

    Args:
        launch: starts it with these descriptors: standard input, standard error, breadcrumbs.
        write: receives what it writes to stderr, line by line, with the level of each line.
        ended: the function that is called once it has ended, or could not be started.
        ends: the function that is called before that, if it is noticed, when it does not serve any
            more.

    Attributes:
        pid: the id of the process; None before it was started.
        failure: why there is no process; empty if there is, or may still be one.
        last_lines: the last lines that it wrote.
        has_begun: whether `begin` was called.
        is_stopping: whether it was told to end, and completes its running calls.
        ready_s: when it became ready, on the loop's clock; None before.
        sandbox: what restricts it, as it has told itself; None before it is ready.
        sandbox_missing: the parts of the sandbox that are not in force.
        breadcrumbs: descriptor of its breadcrumbs, until `ended` returns.
        helper_deaths: how many deaths of its helpers are known.

    Raises:
        OSError: there are no descriptors for it.
    """

    def __init__(
        self,
        launch: Callable[[int, int, int], Awaitable[int]],
        write: Callable[[str, int], None],
        ended: Callable[["DriverProcess"], None],
        ends: Callable[["DriverProcess"], None] = lambda process: None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._write = write
        self._ended = ended
        self._ends = ends
        #: The pidfds of the threads that are watched.
        self._thread_pidfds: list[int] = []
        self._ending: asyncio.TimerHandle | None = None
        self._killing: asyncio.TimerHandle | None = None
        self._partial = b""
        self.pid: int | None = None
        self.failure = ""
        self.last_lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self.has_begun = self.is_stopping = False
        self.ready_s: float | None = None
        self.sandbox: str | None = None
        self.sandbox_missing: tuple[str, ...] = ()
        self.helper_deaths = 0
        self._status: int | None = None
        self._pidfd: int | None = None
        self._thread: int | None = None
        self._was_aborted = self._was_stopped = False
        self._memory_kills = memory_kills()
        with contextlib.ExitStack() as cleanup:
            self.breadcrumbs = create_memory()
            cleanup.callback(os.close, self.breadcrumbs)
            its_stdin, stdin = os.pipe()
            cleanup.callback(os.close, its_stdin)
            self._stdin = cleanup.enter_context(os.fdopen(stdin, "wb", buffering=0))
            stderr, its_stderr = os.pipe()
            cleanup.callback(os.close, its_stderr)
            self._stderr = cleanup.enter_context(os.fdopen(stderr, "rb", buffering=0))
            cleanup.pop_all()
        os.set_blocking(stderr, False)
        self._loop.add_reader(stderr, self._read)
        self._its = its_stdin, its_stderr
        self._launching = self._loop.create_task(self._launch(launch))
        # Also if it is cancelled before it begins.
        self._launching.add_done_callback(self._launched)

    async def _launch(self, launch: Callable[[int, int, int], Awaitable[int]]) -> None:
        pid = await launch(*self._its, self.breadcrumbs)
        try:
            self._pidfd = os.pidfd_open(pid)
        except OSError:
            os.kill(pid, signal.SIGKILL)
            _wait_for(pid)
            raise
        self.pid = pid

    def _launched(self, launching: "asyncio.Task[None]") -> None:
        for descriptor in self._its:
            os.close(descriptor)
        error = None if launching.cancelled() else launching.exception()
        if error is not None:
            # Also one that is no OSError, such as that of an argument with a null character:
            # a thread that waits for the process must learn that there is none.
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            self.failure = f"it could not be started: {reason}{descriptor_advice(error)}"
        if self._pidfd is not None:
            self._loop.add_reader(self._pidfd, self._reap)
            if self.has_begun:
                # Not before its id is known, by which its notifications are recognized.
                self._send_begin()
            return
        self.failure = self.failure or "it was stopped before it was started"
        self._finish()

    def describe_sandbox(self, values: Mapping[str, str]) -> None:
        """Takes over what the process has told of its sandbox."""
        state = values.get(SANDBOX, "")
        self.sandbox = state if state in _SANDBOX_STATES else None
        missing = values.get(SANDBOX_MISSING, "")
        self.sandbox_missing = tuple(part for part in ALL_PARTS if part in missing.split(","))

    def watch_threads(self, values: Mapping[str, str]) -> None:
        """Watches the threads that serve clients, as the process has told; the first end counts.

        A process that is killed gives its memory back before its end can be noticed, which takes
        tenths of a second with the memory of a GPU. Its threads end at once.
        """
        for text in values.get(THREADS, "").split(",")[:_MAX_THREADS]:
            if text.isascii() and text.isdecimal():
                # Not with an older kernel, or if it has ended already.
                with contextlib.suppress(OSError, OverflowError):
                    pidfd = os.pidfd_open(int(text), _PIDFD_THREAD)
                    self._thread_pidfds.append(pidfd)
                    self._loop.add_reader(pidfd, self._thread_ended)

    def _thread_ended(self) -> None:
        self._forget_threads()
        # Not before what the process has said last is read, which may be that it stops.
        self._ending = self._loop.call_later(_SAID_S, self._ends, self)

    def _forget_threads(self) -> None:
        for pidfd in self._thread_pidfds:
            self._loop.remove_reader(pidfd)
            os.close(pidfd)
        self._thread_pidfds.clear()
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None

    @property
    def exit_text(self) -> str:
        """The end of the process, such as "signal SIGKILL"."""
        return "" if self._status is None else describe_end(self._status)

    @property
    def end(self) -> DriverEnd:
        """The end of the process, for finding out its cause."""
        return DriverEnd(
            status=self._status or 0,
            was_aborted=self._was_aborted,
            was_stopped=self._was_stopped,
            ran_out_of_memory=memory_kills() > self._memory_kills,
            thread=self._thread,
        )

    def begin(self) -> None:
        """Lets the process open the device and serve it."""
        self.has_begun = True
        self._memory_kills = memory_kills()
        if self.pid is not None:
            self._send_begin()

    def _send_begin(self) -> None:
        if not self._stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self._stdin.write(BEGIN)
            self._stdin.close()

    def stop(self, within_s: float) -> None:
        """Asks the process to end, and kills it unless it does so in time."""
        if self.pid is None:
            self._launching.cancel()
        elif self.has_begun and not self.is_stopping:
            # After a second signal it would not complete its running calls.
            self._signal(signal.SIGTERM)
        self.is_stopping = True
        self._stdin.close()
        self.kill_later(within_s)

    def abort(self) -> None:
        """Ends a process that hangs. If it still can, it writes the stacks of its threads first."""
        self._was_aborted = True
        self._was_stopped = self.pid is not None and is_stopped(self.pid)
        if self.pid is None or self._was_stopped:
            self.kill()  # it would write nothing
            return
        self._loop.call_later(_REST_S, self._signal, signal.SIGABRT)
        self.kill_later(_REST_S + _TRACEBACK_S)

    def kill(self) -> None:
        """Ends the process and those that it started."""
        if self.pid is None:
            self._launching.cancel()
            return
        if self._status is not None:
            return  # it has ended, and its id may be another process's by now
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def kill_later(self, within_s: float) -> None:
        """Ends the process after some time, unless it has ended by itself by then."""
        if self._killing is not None:
            self._killing.cancel()
        self._killing = self._loop.call_later(within_s, self.kill)

    def _signal(self, number: int) -> None:
        if self._pidfd is not None:
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
        pid, pidfd = self.pid, self._pidfd
        assert pid is not None  # noqa: S101 - it was started
        assert pidfd is not None  # noqa: S101
        self._status = _wait_for(pid)
        ORPHANS.end()
        self._loop.remove_reader(pidfd)
        os.close(pidfd)
        self._pidfd = None
        self._forget_threads()
        self._finish()

    def _finish(self) -> None:
        # A process that has left the group may still hold the pipe, and write to the end.
        for _ in range(_LAST_READS):
            if not self._read():
                break
        self._loop.remove_reader(self._stderr.fileno())
        if self._partial:
            self._keep(self._partial)
        self._stderr.close()
        self._stdin.close()
        if self._killing is not None:
            self._killing.cancel()
        self._ended(self)
        os.close(self.breadcrumbs)


def _wait_for(pid: int) -> int:
    """Waits for the end of a child; returns its exit status, or the signal's number negated."""
    _, status = os.waitpid(pid, 0)
    ORPHANS.ended(pid)
    return os.waitstatus_to_exitcode(status)
