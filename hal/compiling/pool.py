"""Compiles in other processes: starts what forks them, and gives it jobs within limits.

A job is a socket pair, of which one end goes to the process that compiles
(`neurald.hal.compiling.server`). This process, the owner of the pool, can end a job at any moment
by closing its own end.
"""

import _socket
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from neurald.hal.accounting.events import CountedEvent, note_event
from neurald.hal.accounting.limits import Limits
from neurald.hal.cache.store import CacheLocation
from neurald.hal.compiling.contract import spares_imports
from neurald.hal.compiling.fork_server_process import ForkServerProcess
from neurald.hal.compiling.job import LEFT, NOW, CompileJob, Keep, LocalModel, send_message
from neurald.hal.compiling.job_exchange import compiled_from, error_of_death, exchange
from neurald.hal.device import CompileResult, Device, InputShapes
from neurald.hal.errors import Cancelled, OpFailed
from neurald.hal.memory.pool import Memory
from neurald.hal.open_file_limit import descriptor_advice
from neurald.hal.process.threads.checked_thread import CheckedTimer
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.wording import output_clause

logger = logging.getLogger(__name__)

#: The niceness of compiling processes of a daemon, whose executions have precedence.
_NICENESS: Final = 10


class CompilePool:
    """Compiles models for one device in other processes. Thread-safe.

    The process that forks them starts with the first model, and again if it has ended.

    Args:
        driver: the driver from which `neurald.hal.registry.create_device` creates the device.
        device: the device of this process, which implements `CompilesApart`.
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
        self._server: ForkServerProcess | None = None
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
            return None if self._server is None else self._server.number

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
        """Creates a job with the limits of the pool; see `CompileJob`."""
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
        with self._working(), contextlib.closing(self.begin()) as connection:
            try:
                received = exchange(connection, job, memories, deadline_s, end_s, stop)
            except OSError as error:
                if not (stop.is_cancelled or self._is_closed):
                    logger.warning("the compiler process does not answer: %s", error)
                received = None
            if isinstance(received, tuple):
                return compiled_from(*received)
        if stop.is_cancelled:
            raise Cancelled("the compilation was cancelled")
        if self._is_closed:
            raise Cancelled("the compiler processes were ended during the compilation")
        if received is None:
            raise OpFailed(f"the compiler process has ended{self._said()}; prepare the model again")
        raise error_of_death(job, received, on_crash)

    def leave(self, job: CompileJob, memories: Sequence[Memory]) -> None:
        """Leaves a job to the process, which does it when this process has exited.

        Args:
            job: says where its result is kept.
            memories: the memories of the model's constants.

        Raises:
            OpFailed: no process can be started, or it does not take the job.
        """
        try:
            ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
            # Messages that were sent stay readable when this end is closed.
            with contextlib.closing(ours), contextlib.closing(theirs):
                send_message(ours, job, memories)
                if not self._running_process().take(theirs, LEFT):
                    raise OpFailed("the compiler process has ended")
        except OSError as error:
            raise OpFailed(f"the compiler process gets no jobs: {error}{descriptor_advice(error)}") from None
        with self._lock:
            self._has_left = True

    def begin(self) -> _socket.socket:
        """Begins a new job, and returns the owner's end of its socket.

        Raises:
            OpFailed: no process can be started.
        """
        with contextlib.ExitStack() as cleanup:
            try:
                ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
            except OSError as error:
                raise OpFailed(
                    f"the compiler process gets no jobs: {error}{descriptor_advice(error)}"
                ) from None
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
            return "" if self._server is None else output_clause(self._server.output)

    def _running_process(self) -> ForkServerProcess:
        with self._lock:
            if self._is_closed:
                raise OpFailed("the process is about to end and compiles no more models")
            if self._server is not None and self._server.has_ended:
                written, text = output_clause(self._server.output), "the compiler process has ended%s"
                note_event(CountedEvent.COMPILER_DEATH, "server", logger.error, text, written)
                self._server.close()
                self._server = None
            if self._server is None:
                self._server = ForkServerProcess(
                    self._driver,
                    niceness=self._niceness,
                    lasts=self._idle_s is None,
                    spares=spares_imports(self._device),
                )
            return self._server
