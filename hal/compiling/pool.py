"""The daemon's side of compiling in other processes: it starts jobs within limits, and reads their outcomes.

A job is a socket pair. One end goes to the process that compiles (`neurald.hal.compiling.server`). The daemon ends a job at any
moment by closing the other end.
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
from collections.abc import Sequence
from dataclasses import replace

from neurald.hal.accounting.limits import Limits
from neurald.hal.admission.session import Session
from neurald.hal.compiling.job import (
    EXCHANGE_S,
    End,
    Job,
    Outcome,
    over_memory,
    over_time,
    receive_told,
    received_memories,
    send_told,
)
from neurald.hal.compiling.queue import CompileQueue
from neurald.hal.device import Artifact, Compiled, Device, InputShapes, PrepareOptions
from neurald.hal.errors import (
    Cancelled,
    MissedDeadlineTransient,
    OpFailed,
    ResultCode,
    error_for,
)
from neurald.hal.memory.pool import HostMemory, Memory
from neurald.hal.rpc.transport.packet import rights
from neurald.hal.rpc.wire.device import encode_prepare_options
from neurald.hal.rpc.wire.model import member
from neurald.hal.sync.cancellation import Cancellation

logger = logging.getLogger(__name__)

#: How often a thread that waits for a compilation checks whether the client still wants it.
_LOOK_MS = 20
#: What LLVM and the C++ library print when a process has no memory left.
_NO_MEMORY = ("out of memory", "bad_alloc")

_PROGRAM = (
    "import json, sys; about = json.loads(sys.argv[1]); sys.path[:] = about['path']; "
    "from neurald.hal.compiling.server import main; main(0, about['driver'])"
)


class CompilePool:
    """Compiles the models of one device's clients in other processes. Thread-safe.

    The process that forks them starts with the first model, and again when it has ended.

    Args:
        driver: that `neurald.hal.registry.create_device` makes the device of.
        device: of the daemon, one that `CompilesApart`.
        limits: how many, how long and with how much memory.

    Attributes:
        queue: says which model is compiled next.
    """

    def __init__(self, driver: str, device: Device, limits: Limits) -> None:
        self.queue = CompileQueue(limits)
        self._driver = driver
        self._device = device
        self._limits = limits
        self._lock = threading.Lock()
        self._server: _Server | None = None
        self._is_closed = False

    def compiler(
        self, session: Session, model: bytes, pools: Sequence[Memory], options: PrepareOptions
    ) -> "SessionCompiler":
        """What compiles one model.

        Args:
            session: of the client whose model it is; compilations end when it does.
            model: valid, in wire form.
            pools: that its constants lie in.
            options: as for `Device.prepare_model`.
        """
        return SessionCompiler(self, session, model, tuple(pools), options)

    @property
    def process(self) -> int | None:
        """The number of the process that forks those that compile; None where there is none yet."""
        with self._lock:
            return None if self._server is None else self._server.process

    def close(self) -> None:
        """Ends all processes."""
        with self._lock:
            self._is_closed = True
            server, self._server = self._server, None
        if server is not None:
            server.close()

    def job(self, model: bytes, pools: Sequence[Memory], shapes: InputShapes | None, options: bytes) -> Job:
        """A job within the limits."""
        return Job(
            model=model,
            pools=tuple(pool.size for pool in pools),
            shapes=None if shapes is None else {int(key): tuple(shape) for key, shape in shapes.items()},
            options=options,
            device_version=self._device.version,
            compile_bytes=self._limits.compile_bytes,
            compile_s=self._limits.compile_s,
            log_level=logging.getLogger("neurald").getEffectiveLevel(),
        )

    def begin(self) -> socket.socket:
        """The daemon's end of a new job.

        Raises:
            OpFailed: no process can be started.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            for _ in range(2):
                if self._running().take(theirs):
                    return ours
        ours.close()
        raise OpFailed("the process that compiles has ended, and could not be started again")

    def _running(self) -> "_Server":
        with self._lock:
            if self._is_closed:
                raise OpFailed("the daemon is about to stop, and compiles nothing any more")
            if self._server is not None and self._server.has_ended:
                self._server.close()
                self._server = None
            if self._server is None:
                self._server = _Server(self._driver)
            return self._server


class SessionCompiler:
    """Implements `neurald.hal.device.Compiler` for one model of one session. Arguments are those of `CompilePool.compiler`."""

    def __init__(
        self,
        pool: CompilePool,
        session: Session,
        model: bytes,
        pools: tuple[Memory, ...],
        options: PrepareOptions,
    ) -> None:
        self._pool = pool
        self._session = session
        self._model = model
        self._pools = pools
        self._priority = options.priority
        self._options = encode_prepare_options(replace(options, deadline_s=None))

    def compile(
        self,
        shapes: InputShapes | None = None,
        *,
        deadline_s: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> Compiled:
        """See `Compiler.compile`. Waits for a turn; users, and the sessions of one user, take turns."""
        with self._pool.queue.turn(self._session, self._priority, deadline_s, cancellation) as stop:
            return self._compiled(shapes, deadline_s, stop)

    def _compiled(self, shapes: InputShapes | None, deadline_s: float | None, stop: Cancellation) -> Compiled:
        job = self._pool.job(self._model, self._pools, shapes, self._options)
        end_s = time.monotonic() + job.compile_s
        with self._pool.begin() as connection:
            try:
                send_told(connection, job, self._pools)
                _await_reply(connection, job, deadline_s, end_s, stop)
                told = receive_told(connection, Outcome)
            except OSError as error:
                logger.warning("the process that compiles does not answer: %s", error)
                told = None
            if isinstance(told, tuple):
                return _read(*told)
        if told is None:
            raise OpFailed("the process that compiles has ended; the model can be prepared again")
        if told.signal == signal.SIGXCPU:
            raise over_time(job.compile_s)
        logger.error("the process that compiled a model has ended: %s", _how(told))
        if any(text in told.said for text in _NO_MEMORY):
            raise over_memory(job.compile_bytes)
        raise OpFailed(f"the compiler has died of the model: {_signal_name(told.signal)}")


def _await_reply(
    connection: socket.socket, job: Job, deadline_s: float | None, end_s: float, stop: Cancellation
) -> None:
    """Returns when there is something to read.

    Raises:
        Cancelled, MissedDeadlineTransient, ResourceExhaustedPersistent: see `Compiler.compile`.
    """
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    while not poll.poll(_LOOK_MS):
        if stop.is_cancelled:
            raise Cancelled("nobody waits for the model any more that was being compiled")
        now = time.monotonic()
        if deadline_s is not None and now >= deadline_s:
            raise MissedDeadlineTransient("the deadline passed while the model was compiled")
        if now >= end_s:
            raise over_time(job.compile_s)


def _read(outcome: Outcome, descriptors: list[int]) -> Compiled:
    """What came of a job; also logs what its process has logged."""
    for name, level, text in outcome.log:
        logging.getLogger(name).log(level, "%s", text)
    sizes = () if outcome.model is None else (*outcome.model, *outcome.data)
    memories = received_memories(descriptors, [size for size in sizes if size])
    if outcome.code:
        raise error_for(member(ResultCode, outcome.code, "the code of a failed compilation"), outcome.text)
    if outcome.model is None:
        return Compiled(note=outcome.note)
    following = iter(memories)
    found = [next(following) if size else HostMemory(b"") for size in sizes]
    count = len(outcome.model)
    return Compiled(
        note=outcome.note, artifact=Artifact(model=tuple(found[:count]), data=tuple(found[count:]))
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "it has ended without an answer"


def _how(end: End) -> str:
    said = " ".join(end.said.split())
    return f"{_signal_name(end.signal)}{f', after it had said: {said}' if said else ''}"


class _Server:
    """The process that forks those that compile.

    Raises:
        OpFailed: it cannot be started.
    """

    def __init__(self, driver: str) -> None:
        if not sys.executable:
            raise OpFailed("nobody knows which Python this is, so no process can be started that compiles")
        about = json.dumps({"path": sys.path, "driver": driver})
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(EXCHANGE_S)
        with theirs:
            try:
                self._process = subprocess.Popen(  # noqa: S603 - this Python, and a module of ours
                    [sys.executable, "-I", "-c", _PROGRAM, about],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    # It may only fork while it has one thread.
                    env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
                    start_new_session=True,
                )
            except OSError as error:
                self._control.close()
                raise OpFailed(f"no process can be started that compiles: {error}") from None

    @property
    def process(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def take(self, theirs: socket.socket) -> bool:
        """Gives it the other end of a job; whether it could take it."""
        try:
            self._control.sendmsg([b"j"], rights([theirs.fileno()]), socket.MSG_NOSIGNAL)
        except OSError:
            # It is about to end, if it has not ended yet.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(1.0)
            return False
        return True

    def close(self) -> None:
        """Ends it, and all processes that it has forked."""
        self._control.close()
        try:
            self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
