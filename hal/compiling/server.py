"""The process that compiles for its owner, a daemon or an application.

It imports the compiler once, and forks for each model. It has one thread, so that it can fork. A
child has the compiler at once, returns all memory when it ends, can be killed at any moment, and
leaves nothing behind that could affect the next model. The kernel enforces the limits of its time
and memory.

Executions have precedence: this process and its children usually run at a lower priority.

An application that exits may leave jobs. This process then finishes them, one after another, within
a limit of time, and ends. It has nothing of the application open.
"""

import contextlib
import errno
import gc
import logging
import math
import mmap
import os
import resource
import select
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from neurald.hal.cache.store import Cache
from neurald.hal.cache.variants import SharedCache
from neurald.hal.compiling.job import (
    LEFT,
    MAX_CHARACTERS,
    CompileJob,
    CompileReply,
    LocalModel,
    ProcessExit,
    last_text,
    memory_exceeded,
    receive_message,
    received_memories,
    send_exit,
    send_message,
    send_progress,
    shareable,
)
from neurald.hal.compiling.keeping import compile_and_keep
from neurald.hal.device import CompileResult, PrepareOptions, declared_extensions
from neurald.hal.errors import Error, OpFailed, OutOfMemory
from neurald.hal.memory.pool import Memory
from neurald.hal.model.model import Model
from neurald.hal.process.fork import permit_forks
from neurald.hal.process.parent import die_with
from neurald.hal.records import replace
from neurald.hal.registry import create_device
from neurald.hal.rpc.transport.packet import receive_packet
from neurald.hal.sync.progress import progress_to

#: How long this process continues at most after its owner has exited, in seconds.
_LEFT_S: Final = 120.0

#: Time between two messages about progress, and until the first one, in seconds.
_PROGRESS_S: Final = 0.1

#: How many objects a child creates before garbage is searched.
_MIN_GARBAGE: Final = 1_000_000

#: How many log records of a child are kept.
_MAX_RECORDS: Final = 200


def main(control_fd: int, driver: str, *, niceness: int, lasts: bool) -> None:
    """Serves its owner until that closes its end of the control socket, and exits.

    Args:
        control_fd: a SEQPACKET socket, from which one packet comes for each job, with a socket for
            it.
        driver: whose device compiles.
        niceness: see `neurald.hal.compiling.pool.CompilePool`.
        lasts: True if many models will follow, False if the first one is waiting.
    """
    # A process that ignores it cannot wait for its children, and an application may have done so.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.nice(niceness)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    control = socket.socket(fileno=os.dup(control_fd))
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), control_fd)
    try:
        device: Any = create_device(driver)
        device.get_ready_to_compile(lasts=lasts)
        compile_job = _compiler_of(device)
    except Exception as error:
        compile_job = _failing(f"{type(error).__name__}: {error}")
    # Children share the memory of these objects until it is written to.
    gc.freeze()
    gc.enable()
    permit_forks()
    _ForkServer(control, compile_job).serve()
    # To take down the interpreter and all its modules takes 20 ms.
    os._exit(0)


#: Compiles the model of a job, given the memories of its constants.
_Compile = Callable[[CompileJob, list[Memory]], CompileResult]


def _failing(reason: str) -> _Compile:
    def fail(job: CompileJob, pools: list[Memory]) -> CompileResult:
        raise OpFailed(f"the compiler process could not create its device: {reason}")

    return fail


def _compiler_of(device: Any) -> _Compile:
    version = device.version

    def compile_job(job: CompileJob, pools: list[Memory]) -> CompileResult:
        if job.device_version != version:
            raise OpFailed(
                "the driver's files have changed since its daemon or application was started (from "
                f"{job.device_version} to {version}); restart that"
            )
        model = None if job.model is None else _model_of(job.model, pools, device)
        if job.keep is not None and job.shared_cache is not None:
            compile_and_keep(device, model, job.keep, job.shared_cache)
            return CompileResult()
        if model is None:
            return CompileResult(artifact=device.compile_common())
        options = _options_of(job)
        if job.shared_cache is not None:
            cache = Cache.at(job.shared_cache)
            shared = SharedCache(cache, device, logging.getLogger(__name__).warning)
            options = replace(options, shared=shared)
        compiled: CompileResult = device.compile(model, job.shapes, options, is_open=job.is_open)
        return compiled

    return compile_job


def _model_of(encoded: bytes | LocalModel, pools: list[Memory], device: Any) -> Model:
    if isinstance(encoded, LocalModel):
        return encoded.model(pools)
    from neurald.hal.rpc.wire.model import decode_model  # Models of an application need no protobuf.

    return decode_model(encoded, pools, declared_extensions(device))


def _options_of(job: CompileJob) -> PrepareOptions:
    if not job.options:
        return PrepareOptions()
    from neurald.hal.rpc.wire.device import decode_prepare_options

    return decode_prepare_options(job.options)


class _ChildProcess(Struct, frozen=True, kw_only=True):
    """A running child.

    Attributes:
        process: its process identifier.
        descriptor: becomes readable when it ends.
        connection: another descriptor of its job's socket.
        stderr: a memfd that receives its standard error.
    """

    process: int
    descriptor: int
    connection: socket.socket
    stderr: int


class _ForkServer:
    """Forks children, kills those whose owner closed the socket, and reports those that die."""

    def __init__(self, control: socket.socket, compile_job: _Compile) -> None:
        self._control = control
        self._compile_job = compile_job
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        #: The processes, each under both of its descriptors that are polled.
        self._children: dict[int, _ChildProcess] = {}
        #: Jobs for later.
        self._left: list[socket.socket] = []

    def serve(self) -> None:
        """Returns when the owner has closed its end of the control socket, and nothing is left."""
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor in self._children:
                    self._end(self._children[descriptor])
                elif descriptor == self._control.fileno() and not self._take():
                    for child in set(self._children.values()):
                        self._end(child)
                    self._finish()
                    return

    def _finish(self) -> None:
        """Does the jobs that an application has left, one after another."""
        if not self._left:
            return
        os.chdir("/")
        end_s = time.monotonic() + _LEFT_S
        for connection in self._left:
            try:
                self._fork(connection)
            except OSError:
                return
            (child,) = set(self._children.values())
            select.select([child.descriptor], [], [], max(0.0, end_s - time.monotonic()))
            self._end(child)

    def _take(self) -> bool:
        """Starts a job; returns False if there will be no more."""
        try:
            packet = receive_packet(self._control, 1, 1)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not packet.data:
            return False
        if len(packet.descriptors) != 1:
            packet.close_descriptors()
            return True
        connection = socket.socket(fileno=packet.descriptors[0])
        if packet.data == LEFT:
            self._left.append(connection)
            return True
        try:
            self._fork(connection)
        except OSError as error:
            send_exit(
                connection, ProcessExit(signal=0, stderr=f"no process could be started: {error.strerror}")
            )
            connection.close()
        return True

    def _fork(self, connection: socket.socket) -> None:
        stderr = os.memfd_create("neurald compile messages")
        parent = os.getpid()
        try:
            process = os.fork()
        except OSError:
            os.close(stderr)
            raise
        if not process:
            try:
                self._run_in_child(connection, stderr, parent)
            finally:
                os._exit(0)
        with contextlib.suppress(OSError):
            os.setpgid(process, process)  # parent and child both do this, in case the other is late
        try:
            descriptor = os.pidfd_open(process)
        except OSError:
            # Nothing would notice its end, nor end it when the owner closes the job.
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            os.close(stderr)
            raise
        child = _ChildProcess(process=process, descriptor=descriptor, connection=connection, stderr=stderr)
        self._children[child.descriptor] = self._children[connection.fileno()] = child
        self._poll.register(child.descriptor, select.POLLIN)
        # The child reads messages. This process only polls for the hang-up, which is always
        # reported.
        self._poll.register(connection, 0)

    def _run_in_child(self, connection: socket.socket, stderr: int, parent: int) -> None:
        os.setpgid(0, 0)
        die_with(parent)
        # The objects created so far last as long as this process.
        gc.set_threshold(_MIN_GARBAGE)
        os.dup2(stderr, 2)
        self._control.close()
        for child in set(self._children.values()):
            child.connection.close()
        for other in self._left:
            if other is not connection:
                other.close()
        _run(connection, self._compile_job)

    def _end(self, child: _ChildProcess) -> None:
        """Ends a child and its process group, and reports to the owner how it ended by itself."""
        for descriptor in (child.descriptor, child.connection.fileno()):
            self._poll.unregister(descriptor)
            del self._children[descriptor]
        # Until waitpid() has returned it, its number cannot be reused.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.process, signal.SIGKILL)
        _, status = os.waitpid(child.process, 0)
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        send_exit(child.connection, ProcessExit(signal=number, stderr=last_text(child.stderr)))
        child.connection.close()
        os.close(child.descriptor)
        os.close(child.stderr)


# The following functions run in a child.


def _run(connection: socket.socket, compile_job: _Compile) -> None:
    """Runs one job."""
    received = receive_message(connection, CompileJob)
    if not isinstance(received, tuple):
        return
    job, descriptors = received
    log = _LogBuffer(job.log_level)
    memories: tuple[Memory, ...] = ()
    try:
        pools = received_memories(descriptors, job.pools)
        _limit(job)
        with progress_to(_Percent(connection).reached):
            compiled = compile_job(job, list(pools))
        artifact = compiled.artifact
        if artifact is None:
            reply = CompileReply(note=compiled.note, log=log.records)
        else:
            memories = tuple(
                memory if not memory.size else shareable(memory)
                for memory in (*artifact.model, *artifact.data)
            )
            reply = CompileReply(
                note=compiled.note,
                model=tuple(memory.size for memory in artifact.model),
                data=tuple(memory.size for memory in artifact.data),
                log=log.records,
            )
    except Exception as error:
        _lift_limits()
        memories = ()
        failure = _failure(error, job)
        reply = CompileReply(code=failure.code, text=str(failure)[:MAX_CHARACTERS], log=log.records)
    if job.keep is None:
        send_message(connection, reply, memories)


class _Percent:
    """Sends progress to the owner, at most once for each percent, and not too often.

    Each message wakes its reader, which may interrupt this process.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._percent = 0
        self._next_s = time.monotonic() + _PROGRESS_S

    def reached(self, share: float) -> None:
        """See `neurald.hal.sync.progress`."""
        percent = int(100 * share)
        if percent > self._percent and (now_s := time.monotonic()) >= self._next_s:
            self._percent, self._next_s = percent, now_s + _PROGRESS_S
            send_progress(self._connection, percent)


def _failure(error: Exception, job: CompileJob) -> Error:
    """Returns the error that the client receives."""
    # An OutOfMemory may be what became of a failure of the system.
    cause = error.__context__ if isinstance(error, OutOfMemory) else error
    number = cause.errno if isinstance(cause, OSError) else None
    if isinstance(error, MemoryError | OutOfMemory) or number in (errno.ENOMEM, errno.EFBIG):
        return memory_exceeded(job.compile_bytes, is_file=number == errno.EFBIG)
    if isinstance(error, Error):
        return error
    logging.getLogger(__name__).error("a compilation failed", exc_info=error)
    return OpFailed("compiling failed with an internal error; see the log of the daemon or application")


def _limit(job: CompileJob) -> None:
    """Makes the kernel limit what this process uses beyond the time and memory it already has."""
    used_s = math.ceil(time.process_time())
    for kind, value in (
        *_memory_limits(job.compile_bytes),
        (resource.RLIMIT_FSIZE, job.compile_bytes),
        (resource.RLIMIT_CPU, used_s + job.compile_s),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard_limit = resource.getrlimit(kind)
        resource.setrlimit(
            kind, (value if hard_limit == resource.RLIM_INFINITY else min(value, hard_limit), hard_limit)
        )


def _memory_limits(more_bytes: int) -> list[tuple[int, int]]:
    """Returns the limits with which this process can have so much more memory than it has.

    There are none where it cannot find out what it has.
    """
    try:
        pages = [int(text) for text in Path("/proc/self/statm").read_text("ascii").split()]
    except OSError:  # as in a changed root directory without /proc
        return []
    mapped, data = pages[0] * mmap.PAGESIZE, pages[5] * mmap.PAGESIZE
    return [
        (resource.RLIMIT_DATA, data + more_bytes),
        # Shared memory does not count as data, and the artifact exists twice while it is sent.
        (resource.RLIMIT_AS, mapped + 2 * more_bytes),
    ]


def _lift_limits() -> None:
    """Lifts the limits of memory, so that the failure can be reported."""
    for kind in (resource.RLIMIT_DATA, resource.RLIMIT_AS, resource.RLIMIT_FSIZE):
        _, hard_limit = resource.getrlimit(kind)
        resource.setrlimit(kind, (hard_limit, hard_limit))


class _LogBuffer(logging.Handler):
    """Keeps the log records of this process, up to a limit."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self._kept: list[tuple[str, int, str]] = []
        self.setFormatter(logging.Formatter("%(message)s"))
        logging.root.handlers[:] = [self]
        logging.root.setLevel(level)

    @property
    def records(self) -> tuple[tuple[str, int, str], ...]:
        """The logger, level and text of each record."""
        return tuple(self._kept)

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps a record."""
        if len(self._kept) < _MAX_RECORDS:
            text = self.format(record)
            cut = text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]} ..."
            self._kept.append((record.name, record.levelno, cut))
