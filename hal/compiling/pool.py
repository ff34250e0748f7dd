"""The daemon's side of compiling in other processes: starts jobs within limits, and reads replies.

A job is a socket pair, of which one end goes to the process that compiles
(`neurald.hal.compiling.server`). The daemon can end a job at any moment by closing its own end.
"""

import contextlib
import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from neurald.hal.accounting.limits import Limits
from neurald.hal.admission.session import Session
from neurald.hal.compiling.compile_admission import CompileAdmission
from neurald.hal.compiling.job import (
    EXCHANGE_S,
    CompileJob,
    CompileProgress,
    CompileReply,
    ProcessExit,
    memory_exceeded,
    receive_message,
    received_memories,
    send_message,
    time_exceeded,
)
from neurald.hal.device import Artifact, CompileResult, Device, InputShapes, PrepareOptions
from neurald.hal.errors import (
    Cancelled,
    MissedDeadlineTransient,
    OpFailed,
    ResultCode,
    error_for,
)
from neurald.hal.memory.pool import HostMemory, Memory
from neurald.hal.records import replace
from neurald.hal.rpc.transport.packet import rights
from neurald.hal.rpc.wire.device import encode_prepare_options
from neurald.hal.rpc.wire.model import member
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.sync.progress import report_progress

logger = logging.getLogger(__name__)

#: How often a thread that waits for a compilation checks whether it is still wanted.
_POLL_MS = 20
#: Messages of LLVM and the C++ library when a process has no memory left.
_NO_MEMORY = ("out of memory", "bad_alloc")

#: Signals that somebody else has sent.
_FOREIGN_SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

_PROGRAM = (
    "import json, sys; about = json.loads(sys.argv[1]); sys.path[:] = about['path']; "
    "from neurald.hal.compiling.server import main; main(0, about['driver'], niceness=about['niceness'])"
)


#: In a daemon, executions have precedence.
_NICENESS: Final = 10


class CompilePool:
    """Compiles the models of one device's clients in other processes. Thread-safe.

    The process that forks them starts with the first model, and again if it has ended.

    Args:
        driver: from which `neurald.hal.registry.create_device` creates the device.
        device: of the daemon, which implements `CompilesApart`.
        limits: of the number, time and memory of compilations.
        niceness: of the processes that compile.

    Attributes:
        admission: decides which model is compiled next.
    """

    def __init__(self, driver: str, device: Device, limits: Limits, *, niceness: int = _NICENESS) -> None:
        self._niceness = niceness
        self.admission = CompileAdmission(limits)
        self._driver = driver
        self._device = device
        self._limits = limits
        self._lock = threading.Lock()
        self._server: _ForkServerProcess | None = None
        self._is_closed = False

    def compiler(
        self,
        session: Session,
        model: bytes,
        pools: Sequence[Memory],
        options: PrepareOptions,
        on_crash: Callable[[int, str], None],
    ) -> "SessionCompiler":
        """Creates the compiler of one model.

        Args:
            session: of the client whose model it is; compilations end with it.
            model: a valid model, encoded as in messages of the wire protocol.
            pools: the memories of its constants.
            options: as for `Device.prepare_model`.
            on_crash: is called if a process dies of the model, with the signal that ended it and a
                description.
        """
        return SessionCompiler(self, session, model, tuple(pools), options, on_crash)

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
        if server is not None:
            server.close()

    def job(
        self,
        model: bytes,
        pools: Sequence[Memory],
        shapes: InputShapes | None,
        options: bytes,
        *,
        is_open: bool,
        shared_cache: str = "",
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
            deadline_s: on the clock of `time.monotonic()`; None for no limit.
            stop: ends the job.
            on_crash: see `compiler`.

        Raises:
            Error: see `Compiler.compile`.
        """
        end_s = time.monotonic() + job.compile_s
        with self.begin() as connection:
            try:
                send_message(connection, job, memories)
                while True:
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
            raise OpFailed("the compiler process has ended; prepare the model again")
        if received.signal == signal.SIGXCPU:
            raise time_exceeded(job.compile_s)
        logger.error("a process that compiled a model has ended: %s", _describe_exit(received))
        if any(text in received.stderr for text in _NO_MEMORY):
            raise memory_exceeded(job.compile_bytes)
        name = _signal_name(received.signal)
        if on_crash is not None and received.signal not in _FOREIGN_SIGNALS:
            on_crash(received.signal, name)
        raise OpFailed(f"the compiler crashed on the model: {name}")

    def begin(self) -> socket.socket:
        """Begins a new job, and returns the daemon's end of its socket.

        Raises:
            OpFailed: no process can be started.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            for _ in range(2):
                if self._running_process().take(theirs):
                    return ours
        ours.close()
        raise OpFailed("the compiler process has ended, and could not be restarted")

    def forget(self) -> None:
        """Leaves the processes to the parent, in a forked child."""
        if self._server is not None:
            self._server.forget()

    def _running_process(self) -> "_ForkServerProcess":
        with self._lock:
            if self._is_closed:
                raise OpFailed("the daemon is about to stop and compiles no more models")
            if self._server is not None and self._server.has_ended:
                self._server.close()
                self._server = None
            if self._server is None:
                self._server = _ForkServerProcess(self._driver, niceness=self._niceness)
            return self._server


class SessionCompiler:
    """Implements `neurald.hal.device.Compiler` for one model of one session.

    Args:
        pool: that runs the job.
        session, model, pools, options, on_crash: see `CompilePool.compiler`.
    """

    def __init__(
        self,
        pool: CompilePool,
        session: Session,
        model: bytes,
        pools: tuple[Memory, ...],
        options: PrepareOptions,
        on_crash: Callable[[int, str], None],
    ) -> None:
        self._pool = pool
        self._on_crash = on_crash
        self._session = session
        self._model = model
        self._pools = pools
        self._priority = options.priority
        self._options = encode_prepare_options(replace(options, deadline_s=None))

    def compile(
        self,
        shapes: InputShapes | None = None,
        *,
        is_open: bool = False,
        deadline_s: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> CompileResult:
        """See `Compiler.compile`. Waits for its turn among the models of all clients."""
        with self._pool.admission.slot(self._session, self._priority, deadline_s, cancellation) as stop:
            job = self._pool.job(self._model, self._pools, shapes, self._options, is_open=is_open)
            return self._pool.run(job, self._pools, deadline_s, stop, self._on_crash)


def _await_reply(
    connection: socket.socket, job: CompileJob, deadline_s: float | None, end_s: float, stop: Cancellation
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
        raise error_for(member(ResultCode, reply.code, "the code of a failed compilation"), reply.text)
    if reply.model is None:
        return CompileResult(note=reply.note)
    following = iter(memories)
    contents = [next(following) if size else HostMemory(b"") for size in sizes]
    count = len(reply.model)
    return CompileResult(
        note=reply.note, artifact=Artifact(model=tuple(contents[:count]), data=tuple(contents[count:]))
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "it ended without a reply"


def _describe_exit(exit_status: ProcessExit) -> str:
    stderr = " ".join(exit_status.stderr.split())
    return f"{_signal_name(exit_status.signal)}{f', with the output: {stderr}' if stderr else ''}"


class _ForkServerProcess:
    """The process that forks the compiling processes.

    Raises:
        OpFailed: it cannot be started.
    """

    def __init__(self, driver: str, *, niceness: int) -> None:
        if not sys.executable:
            raise OpFailed("no compiler process can be started: the path of this Python is not known")
        about = json.dumps({"path": sys.path, "driver": driver, "niceness": niceness})
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(EXCHANGE_S)
        with theirs:
            try:
                self._process = subprocess.Popen(  # noqa: S603 - this Python, and a module of ours
                    [sys.executable, "-I", "-c", _PROGRAM, about],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    # The process must have only one thread, since it forks.
                    env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
                    start_new_session=True,
                )
            except OSError as error:
                self._control.close()
                raise OpFailed(f"no compiler process can be started: {error}") from None

    @property
    def process(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def take(self, theirs: socket.socket) -> bool:
        """Passes the other end of a job to the process; returns whether that succeeded."""
        try:
            self._control.sendmsg([b"j"], rights([theirs.fileno()]), socket.MSG_NOSIGNAL)
        except OSError:
            # The process is about to end, if it has not ended yet.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(1.0)
            return False
        return True

    def forget(self) -> None:
        """Closes this process's end of the control socket, without waiting for the process."""
        self._control.close()

    def close(self) -> None:
        """Ends the process, and all processes that it has forked."""
        self._control.close()
        try:
            self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
