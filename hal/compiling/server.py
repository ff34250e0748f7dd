"""The process that compiles for a daemon: it imports the compiler once, and forks a child for each model.

It has one thread, so that it may fork. A child has what it needs at once, gives all memory back when it ends, can be killed at
any moment, and leaves nothing behind that the next model could meet. Limits of its time and memory are the kernel's.

Whoever executes comes first: this process and its children run at a lower priority.
"""

import contextlib
import ctypes
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from neurald.hal.compiling.job import (
    End,
    Job,
    Outcome,
    over_memory,
    receive_told,
    received_memories,
    send_end,
    send_told,
    shareable,
)
from neurald.hal.device import Compiled, declared_extensions
from neurald.hal.errors import Error, OpFailed, OutOfMemory
from neurald.hal.memory.pool import Memory
from neurald.hal.registry import create_device
from neurald.hal.rpc.transport.packet import receive_packet
from neurald.hal.rpc.wire.device import decode_prepare_options
from neurald.hal.rpc.wire.model import decode_model

_NICE: Final = 10
_PR_SET_PDEATHSIG: Final = 1
#: Of what a child logs and says: records, and characters of each.
_MAX_RECORDS: Final = 200
_MAX_CHARACTERS: Final = 2000


def main(control_fd: int, driver: str) -> None:
    """Serves a daemon until that closes its end of the control socket.

    Args:
        control_fd: a SEQPACKET socket, from which one packet comes for each job, with a socket of its own.
        driver: whose device compiles.
    """
    os.nice(_NICE)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    control = socket.socket(fileno=os.dup(control_fd))
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), control_fd)
    try:
        device: Any = create_device(driver)
        device.get_ready_to_compile()
        compile_job = _compiler_of(device)
    except Exception as error:
        compile_job = _failing(f"{type(error).__name__}: {error}")
    # Children share these objects for as long as nobody writes to them.
    gc.collect()
    gc.freeze()
    _Server(control, compile_job).serve()


#: Compiles the model of a job, whose constants are in these memories.
_Compile = Callable[[Job, list[Memory]], Compiled]


def _failing(reason: str) -> _Compile:
    def fail(job: Job, pools: list[Memory]) -> Compiled:
        raise OpFailed(f"the process that compiles cannot: {reason}")

    return fail


def _compiler_of(device: Any) -> _Compile:
    version = device.version

    def compile_job(job: Job, pools: list[Memory]) -> Compiled:
        if job.device_version != version:
            raise OpFailed(
                f"the driver's files have changed since the daemon was started ({job.device_version} then, {version} "
                "now); start it again"
            )
        model = decode_model(job.model, pools, declared_extensions(device))
        compiled: Compiled = device.compile(model, job.shapes, decode_prepare_options(job.options))
        return compiled

    return compile_job


@dataclass(frozen=True, slots=True, kw_only=True)
class _Child:
    """A child at work.

    Attributes:
        descriptor: becomes readable when it ends.
        connection: another descriptor of its job's socket.
        said: what it writes to its standard error.
    """

    process: int
    descriptor: int
    connection: socket.socket
    said: int


class _Server:
    """Forks children, kills those that nobody waits for, and tells of those that die."""

    def __init__(self, control: socket.socket, compile_job: _Compile) -> None:
        self._control = control
        self._compile_job = compile_job
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        #: By each of the two descriptors that are watched.
        self._children: dict[int, _Child] = {}

    def serve(self) -> None:
        """Returns when the daemon has closed its end."""
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor in self._children:
                    self._end(self._children[descriptor])
                elif descriptor == self._control.fileno() and not self._take():
                    for child in set(self._children.values()):
                        self._end(child)
                    return

    def _take(self) -> bool:
        """Starts a job; whether there will be more."""
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
        try:
            self._fork(connection)
        except OSError as error:
            send_end(connection, End(signal=0, said=f"no process could be started: {error.strerror}"))
            connection.close()
        return True

    def _fork(self, connection: socket.socket) -> None:
        said = os.memfd_create("neurald compile messages")
        parent = os.getpid()
        try:
            process = os.fork()
        except OSError:
            os.close(said)
            raise
        if not process:
            try:
                self._run_in_child(connection, said, parent)
            finally:
                os._exit(0)
        with contextlib.suppress(OSError):
            os.setpgid(process, process)  # by whichever of the two is first
        child = _Child(process=process, descriptor=os.pidfd_open(process), connection=connection, said=said)
        self._children[child.descriptor] = self._children[connection.fileno()] = child
        self._poll.register(child.descriptor, select.POLLIN)
        # The child reads what comes; here only the end of the connection matters, which is always told.
        self._poll.register(connection, 0)

    def _run_in_child(self, connection: socket.socket, said: int, parent: int) -> None:
        os.setpgid(0, 0)
        _die_with(parent)
        os.dup2(said, 2)
        self._control.close()
        for child in set(self._children.values()):
            child.connection.close()
        _run(connection, self._compile_job)

    def _end(self, child: _Child) -> None:
        """Ends a child and all that it has started, and tells its daemon how it had ended by itself."""
        for descriptor in (child.descriptor, child.connection.fileno()):
            self._poll.unregister(descriptor)
            del self._children[descriptor]
        # Until it is waited for, its number stands for nobody else.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.process, signal.SIGKILL)
        _, status = os.waitpid(child.process, 0)
        size = os.fstat(child.said).st_size
        said = os.pread(child.said, _MAX_CHARACTERS, max(0, size - _MAX_CHARACTERS))
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        send_end(child.connection, End(signal=number, said=said.decode("utf-8", "replace")))
        child.connection.close()
        os.close(child.descriptor)
        os.close(child.said)


def _die_with(parent: int) -> None:
    """Has the kernel kill this process when its parent ends, and ends it if that has happened already."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


# In a child


def _run(connection: socket.socket, compile_job: _Compile) -> None:
    """Does one job."""
    found = receive_told(connection, Job)
    if not isinstance(found, tuple):
        return
    job, descriptors = found
    log = _Log(job.log_level)
    memories: tuple[Memory, ...] = ()
    try:
        pools = received_memories(descriptors, job.pools)
        _limit(job)
        compiled = compile_job(job, list(pools))
        artifact = compiled.artifact
        if artifact is None:
            outcome = Outcome(note=compiled.note, log=log.records)
        else:
            memories = tuple(
                memory if not memory.size else shareable(memory)
                for memory in (*artifact.model, *artifact.data)
            )
            outcome = Outcome(
                note=compiled.note,
                model=tuple(memory.size for memory in artifact.model),
                data=tuple(memory.size for memory in artifact.data),
                log=log.records,
            )
    except Exception as error:
        _lift_limits()
        memories = ()
        failure = _failure(error, job)
        outcome = Outcome(code=failure.code, text=str(failure)[:_MAX_CHARACTERS], log=log.records)
    send_told(connection, outcome, memories)


def _failure(error: Exception, job: Job) -> Error:
    """What the client is told."""
    is_too_large = isinstance(error, OSError) and error.errno in (errno.ENOMEM, errno.EFBIG)
    if isinstance(error, MemoryError | OutOfMemory) or is_too_large:
        return over_memory(job.compile_bytes)
    if isinstance(error, Error):
        return error
    logging.getLogger(__name__).error("a compilation failed", exc_info=error)
    return OpFailed("compiling failed inside; the daemon's log tells more")


def _limit(job: Job) -> None:
    """Has the kernel limit the time and the memory of this process, beyond what it has of both already."""
    pages = [int(text) for text in Path("/proc/self/statm").read_text("ascii").split()]
    mapped, data = pages[0] * mmap.PAGESIZE, pages[5] * mmap.PAGESIZE
    used_s = math.ceil(time.process_time())
    for kind, value in (
        (resource.RLIMIT_DATA, data + job.compile_bytes),
        # What is shared is not counted as data; and the artifact is there twice while it is sent.
        (resource.RLIMIT_AS, mapped + 2 * job.compile_bytes),
        (resource.RLIMIT_FSIZE, job.compile_bytes),
        (resource.RLIMIT_CPU, used_s + job.compile_s),
        (resource.RLIMIT_CORE, 0),
    ):
        _, most = resource.getrlimit(kind)
        resource.setrlimit(kind, (value if most == resource.RLIM_INFINITY else min(value, most), most))


def _lift_limits() -> None:
    """Leaves room to tell what went wrong."""
    for kind in (resource.RLIMIT_DATA, resource.RLIMIT_AS, resource.RLIMIT_FSIZE):
        _, most = resource.getrlimit(kind)
        resource.setrlimit(kind, (most, most))


class _Log(logging.Handler):
    """Keeps what is logged in this process, within bounds."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self._kept: list[tuple[str, int, str]] = []
        self.setFormatter(logging.Formatter("%(message)s"))
        logging.root.handlers[:] = [self]
        logging.root.setLevel(level)

    @property
    def records(self) -> tuple[tuple[str, int, str], ...]:
        """The logger, the level and the text of each."""
        return tuple(self._kept)

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps a record."""
        if len(self._kept) < _MAX_RECORDS:
            text = self.format(record)
            cut = text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]} ..."
            self._kept.append((record.name, record.levelno, cut))
