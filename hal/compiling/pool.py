"""Compiles in other processes: starts jobs within limits, and reads replies.

A job is a socket pair, of which one end goes to the process that compiles
(`neurald.hal.compiling.server`). This process, the owner of the pool, can end a job at any moment
by closing its own end.
"""

import _socket
import contextlib
import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from neurald.hal.accounting.events import CountedEvent, note_event
from neurald.hal.accounting.limits import Limits
from neurald.hal.cache.store import CacheLocation
from neurald.hal.compiling.contract import spares_imports
from neurald.hal.compiling.job import (
    EXCHANGE_S,
    LEFT,
    NOW,
    CompileJob,
    CompileProgress,
    CompileReply,
    Keep,
    LocalModel,
    ProcessExit,
    last_text,
    memory_exceeded,
    receive_message,
    received_memories,
    send_message,
    time_exceeded,
)
from neurald.hal.device import Artifact, CompileResult, Device, InputShapes
from neurald.hal.errors import (
    BadData,
    Cancelled,
    MissedDeadlineTransient,
    OpFailed,
    ResultCode,
    error_for,
)
from neurald.hal.memory.pool import HostMemory, Memory
from neurald.hal.process.checked_thread import CheckedTimer
from neurald.hal.process.spawned import SpawnedProcess
from neurald.hal.rpc.transport.packet import rights
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.sync.interpreter_turns import turns
from neurald.hal.sync.progress import report_progress

logger = logging.getLogger(__name__)

#: How often a thread that waits for a compilation checks whether it is still wanted.
_POLL_MS = 20
#: Messages of LLVM and the C++ library when a process has no memory left.
_NO_MEMORY = ("out of memory", "bad_alloc")

#: Signals that somebody else has sent.
_FOREIGN_SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

#: Imported modules last until the process ends, so a search for garbage meanwhile finds nothing.
_PROGRAM = (
    # Libraries of the application may have opened descriptors that programs inherit.
    "import os; os.closerange(3, os.sysconf('SC_OPEN_MAX')); "
    "import gc; gc.disable(); import sys; "
    "driver, niceness, lasts, spares, bytecode, *sys.path[:] = sys.argv[1:]; "
    "sys.pycache_prefix = bytecode or None; "
    "from neurald.hal.compiling.spared_imports import spare_imports; spares and spare_imports(); "
    "from neurald.hal.compiling.server import main; "
    "main(0, driver, niceness=int(niceness), lasts=bool(lasts))"
)


#: The niceness of compiling processes of a daemon, whose executions have precedence.
_NICENESS: Final = 10


class CompilePool:
    """Compiles models for one device in other processes. Thread-safe.

    The process that forks them starts with the first model, and again if it has ended.

    Args:
        driver: the driver from which `neurald.hal.registry.create_device` creates the device.
        device: the device of the daemon, which implements `CompilesApart`.
        limits: the limits of the number, time and memory of compilations.
        niceness: the niceness of the processes that compile.
        idle_s: time without a job after which the process that forks them ends; None to keep it, as
            for a daemon.
    """

    def __init__(
        self,
        driver: str,
        device: Device,
        limits: Limits,
        *,
        niceness: int = _NICENESS,
        idle_s: float | None = None,
    ) -> None:
        self._niceness = niceness
        self._driver = driver
        self._device = device
        self._limits = limits
        self._idle_s = idle_s
        self._lock = threading.Lock()
        self._server: _ForkServerProcess | None = None
        self._is_closed = False
        self._has_left = False
        #: Jobs that run, and the time at which the last one ended.
        self._jobs = 0
        self._idle_since_s = 0.0
        self._timer: threading.Timer | None = None

    def end_now(self) -> None:
        """Ends all processes without waiting for them, since this process exits.

        Jobs that were left are done first.
        """
        with self._lock:
            self._is_closed = True
            server, self._server = self._server, None
            if self._timer is not None:
                self._timer.cancel()
        if server is not None:
            if not self._has_left:
                server.kill()
            server.forget()

    @property
    def process(self) -> int | None:
        """The number of the process that forks the compiling processes; None if there is none."""
        with self._lock:
            return None if self._server is None else self._server.process

    def close(self) -> None:
        """Ends all processes."""
        with self._lock:
            self._is_closed = True
            server, self._server = self._server, None
            if self._timer is not None:
                self._timer.cancel()
        if server is not None:
            server.close()

    def start(self) -> None:
        """Starts the process that forks the compiling processes, since a job will follow soon.

        A failure is that of the job.
        """
        with contextlib.suppress(OpFailed), self._working():
            self._running_process()

    @contextlib.contextmanager
    def _working(self) -> Iterator[None]:
        """Counts a job, and ends the process some time after the last one."""
        with self._lock:
            self._jobs += 1
        try:
            yield
        finally:
            with self._lock:
                self._jobs -= 1
                self._idle_since_s = time.monotonic()
                if not self._jobs and self._timer is None and not self._is_closed:
                    self._watch_idleness(self._idle_s)

    def _watch_idleness(self, after_s: float | None) -> None:
        """Looks after some time whether the process is idle. The caller holds the lock."""
        if after_s is None:
            return
        timer = CheckedTimer(after_s, self._end_if_idle)
        timer.daemon = True
        try:
            timer.start()
        except RuntimeError:
            return  # There are no more threads, or the interpreter exits.
        self._timer = timer

    def _end_if_idle(self) -> None:
        with self._lock:
            self._timer = None
            if self._jobs or self._is_closed or self._idle_s is None:
                return  # The end of the last job looks again.
            left_s = self._idle_since_s + self._idle_s - time.monotonic()
            if left_s > 0:
                self._watch_idleness(left_s)
                return
            server, self._server = self._server, None
        if server is not None:
            server.close()

    def job(
        self,
        model: bytes | LocalModel | None,
        pools: Sequence[Memory],
        shapes: InputShapes | None,
        options: bytes,
        *,
        is_open: bool,
        shared_cache: CacheLocation | None = None,
        keep: Keep | None = None,
    ) -> CompileJob:
        """Creates a job with the limits of the daemon; see `CompileJob`."""
        return CompileJob(
            model=model,
            pools=tuple(pool.size for pool in pools),
            shapes=None if shapes is None else {int(key): tuple(shape) for key, shape in shapes.items()},
            options=options,
            device_version=self._device.version,
            compile_bytes=self._limits.compile_bytes,
            compile_s=self._limits.compile_s,
            is_open=is_open,
            shared_cache=shared_cache,
            log_level=logging.getLogger("neurald").getEffectiveLevel(),
            keep=keep,
        )

    def run(
        self,
        job: CompileJob,
        memories: Sequence[Memory],
        deadline_s: float | None,
        stop: Cancellation,
        on_crash: Callable[[int, str], None] | None = None,
    ) -> CompileResult:
        """Runs a job.

        Args:
            job: the job.
            memories: the memories of the model's constants.
            deadline_s: the deadline on the clock of `time.monotonic()`; None for no limit.
            stop: ends the job.
            on_crash: the function that is called if the process dies of the model, with the signal
                that ended it and a description.

        Raises:
            Error: see `Compiler.compile`.
        """
        end_s = time.monotonic() + job.compile_s
        with self._working(), contextlib.closing(self.begin()) as connection, _ending(connection, stop):
            try:
                send_message(connection, job, memories)
                while True:
                    with turns.waiting():
                        _await_reply(connection, job, deadline_s, end_s, stop)
                    received = receive_message(connection, CompileReply)
                    if not isinstance(received, CompileProgress):
                        break
                    report_progress(received.percent / 100)
            except OSError as error:
                if not (stop.is_cancelled or self._is_closed):
                    logger.warning("the compiler process does not answer: %s", error)
                received = None
            if isinstance(received, tuple):
                return _compiled_from(*received)
        if stop.is_cancelled:
            raise Cancelled("the compilation was cancelled")
        if self._is_closed:
            raise Cancelled("the compiler processes were ended during the compilation")
        if received is None:
            raise OpFailed(f"the compiler process has ended{self._said()}; prepare the model again")
        if received.signal == signal.SIGXCPU:
            raise time_exceeded(job.compile_s)
        name, text = _signal_name(received.signal), "a process that compiled a model has ended: %s"
        note_event(CountedEvent.COMPILER_DEATH, name, logger.error, text, _describe_exit(received))
        if any(text in received.stderr for text in _NO_MEMORY):
            raise memory_exceeded(job.compile_bytes)
        if on_crash is not None and received.signal not in _FOREIGN_SIGNALS:
            on_crash(received.signal, name)
        raise OpFailed(f"the compiler crashed on the model: {name}")

    def leave(self, job: CompileJob, memories: Sequence[Memory]) -> None:
        """Leaves a job to the process, which does it when this process has exited.

        Args:
            job: says where its result is kept.
            memories: the memories of the model's constants.

        Raises:
            OpFailed: no process can be started, or it does not take the job.
        """
        ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        try:
            # Messages that were sent stay readable when this end is closed.
            with contextlib.closing(ours), contextlib.closing(theirs):
                send_message(ours, job, memories)
                if not self._running_process().take(theirs, LEFT):
                    raise OpFailed("the compiler process has ended")
        except OSError as error:
            raise OpFailed(f"the compiler process takes no jobs: {error}") from None
        with self._lock:
            self._has_left = True

    def begin(self) -> _socket.socket:
        """Begins a new job, and returns the daemon's end of its socket.

        Raises:
            OpFailed: no process can be started.
        """
        with contextlib.ExitStack() as cleanup:
            ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
            cleanup.enter_context(contextlib.closing(ours))
            with contextlib.closing(theirs):
                for _ in range(2):
                    if self._running_process().take(theirs, NOW):
                        cleanup.pop_all()
                        return ours
        raise OpFailed(f"the compiler process has ended, and could not be restarted{self._said()}")

    def forget(self) -> None:
        """Leaves the processes to the parent, in a forked child."""
        if self._server is not None:
            self._server.forget()

    def _said(self) -> str:
        """Returns the end of a sentence, with what the process has written."""
        with self._lock:
            return "" if self._server is None else _with_output(self._server.output)

    def _running_process(self) -> "_ForkServerProcess":
        with self._lock:
            if self._is_closed:
                raise OpFailed("the daemon is about to stop and compiles no more models")
            if self._server is not None and self._server.has_ended:
                written, text = _with_output(self._server.output), "the compiler process has ended%s"
                note_event(CountedEvent.COMPILER_DEATH, "server", logger.error, text, written)
                self._server.close()
                self._server = None
            if self._server is None:
                self._server = _ForkServerProcess(
                    self._driver,
                    niceness=self._niceness,
                    lasts=self._idle_s is None,
                    spares=spares_imports(self._device),
                )
            return self._server


@contextlib.contextmanager
def _ending(connection: _socket.socket, stop: Cancellation) -> Iterator[None]:
    """Wakes a thread that waits for a reply, if it is cancelled during the block."""

    def wake() -> None:
        with contextlib.suppress(OSError):
            connection.shutdown(_socket.SHUT_RDWR)

    with stop.calling(wake):
        yield


def _await_reply(
    connection: _socket.socket, job: CompileJob, deadline_s: float | None, end_s: float, stop: Cancellation
) -> None:
    """Waits until there is something to read.

    Raises:
        Cancelled, MissedDeadlineTransient, ResourceExhaustedPersistent: see `Compiler.compile`.
    """
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    while not poll.poll(_POLL_MS):
        if stop.is_cancelled:
            raise Cancelled("the compilation was cancelled, or its client is gone")
        now = time.monotonic()
        if deadline_s is not None and now >= deadline_s:
            raise MissedDeadlineTransient("the deadline passed while the model was compiled")
        if now >= end_s:
            raise time_exceeded(job.compile_s)


def _compiled_from(reply: CompileReply, descriptors: list[int]) -> CompileResult:
    """Returns the result of a job, and logs what its process has logged."""
    for name, level, text in reply.log:
        logging.getLogger(name).log(level, "%s", text)
    sizes = () if reply.model is None else (*reply.model, *reply.data)
    memories = received_memories(descriptors, [size for size in sizes if size])
    if reply.code:
        raise error_for(_result_code(reply.code), reply.text)
    if reply.model is None:
        return CompileResult(note=reply.note)
    following = iter(memories)
    contents = [next(following) if size else HostMemory(b"") for size in sizes]
    count = len(reply.model)
    return CompileResult(
        note=reply.note, artifact=Artifact(model=tuple(contents[:count]), data=tuple(contents[count:]))
    )


def _result_code(number: int) -> ResultCode:
    try:
        return ResultCode(number)
    except ValueError:
        raise BadData(f"a compilation failed with the code {number}, which is not known") from None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "it ended without a reply"


def _describe_exit(exit_status: ProcessExit) -> str:
    return f"{_signal_name(exit_status.signal)}{_with_output(exit_status.stderr)}"


def _with_output(stderr: str) -> str:
    """Returns the end of a sentence about a process, with what it has written in one line."""
    written = " ".join(stderr.split())
    return f", with the output: {written}" if written else ""


class _ForkServerProcess:
    """The process that forks the compiling processes.

    Raises:
        OpFailed: it cannot be started.
    """

    def __init__(self, driver: str, *, niceness: int, lasts: bool, spares: bool) -> None:
        if not sys.executable:
            raise OpFailed("no compiler process can be started: the path of this Python is not known")
        # An empty text is false.
        about = (driver, str(niceness), "yes" * lasts, "yes" * spares, sys.pycache_prefix or "")
        self._control, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        self._control.settimeout(EXCHANGE_S)
        # Whoever reads what the application writes, such as `tee`, waits for all that hold its
        # pipe, and this process may outlive the application.
        self._stderr = os.memfd_create("neurald compiler messages")
        with contextlib.closing(theirs):
            try:
                # Ctrl-C does not reach its group. It stays in the session, since Linux may schedule
                # sessions as groups of equal rights, and niceness then counts only within a
                # session.
                self._process = SpawnedProcess(
                    # The path is that of this process, so nothing needs `site`.
                    [sys.executable, "-I", "-S", "-c", _PROGRAM, *about, *sys.path],
                    # The process must have only one thread, since it forks.
                    {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
                    stdin=theirs.fileno(),
                    stderr=self._stderr,
                )
            except OSError as error:
                self.forget()
                raise OpFailed(f"no compiler process can be started: {error}") from None

    @property
    def process(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._process.has_ended

    @property
    def output(self) -> str:
        """The last of what it has written to its standard error."""
        return last_text(self._stderr)

    def take(self, theirs: _socket.socket, kind: bytes) -> bool:
        """Passes the other end of a job to the process; returns whether that succeeded."""
        try:
            self._control.sendmsg([kind], rights([theirs.fileno()]), _socket.MSG_NOSIGNAL)
        except OSError:
            # The process is about to end, if it has not ended yet.
            self._process.wait(1.0)
            return False
        return True

    def forget(self) -> None:
        """Closes this process's end of the control socket, without waiting for the process."""
        self._control.close()
        if self._stderr >= 0:
            os.close(self._stderr)
            self._stderr = -1

    def kill(self) -> None:
        """Kills the process. The kernel ends those that it has forked with it."""
        self._process.kill()

    def close(self) -> None:
        """Ends the process, and all processes that it has forked."""
        self.forget()
        if not self._process.wait(1.0):
            self._process.kill()
            self._process.wait()
