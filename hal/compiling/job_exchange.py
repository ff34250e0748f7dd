"""Sends a job to the process that compiles it, and makes a result or an error of its answer."""

import _socket
import contextlib
import logging
import select
import signal
import time
from collections.abc import Callable, Iterator, Sequence

from neurald.hal.accounting.events import CountedEvent, note_event
from neurald.hal.compiling.job import (
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
from neurald.hal.device import Artifact, CompileResult
from neurald.hal.errors import (
    BadData,
    Cancelled,
    Error,
    MissedDeadlineTransient,
    OpFailed,
    ResultCode,
    error_for,
)
from neurald.hal.memory.pool import HostMemory, Memory
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.sync.interpreter_turns import turns
from neurald.hal.sync.progress import report_progress
from neurald.hal.wording import output_clause

logger = logging.getLogger(__name__)

#: How often a thread that waits for a compilation checks whether it is still wanted.
_POLL_MS = 20
#: Messages of LLVM and the C++ library when a process has no memory left.
_NO_MEMORY = ("out of memory", "bad_alloc")
#: Signals that somebody else has sent.
_FOREIGN_SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def exchange(
    connection: _socket.socket,
    job: CompileJob,
    memories: Sequence[Memory],
    deadline_s: float | None,
    end_s: float,
    stop: Cancellation,
) -> tuple[CompileReply, list[int]] | ProcessExit | None:
    """Sends a job to the process that compiles it, and waits for its reply.

    Args:
        connection: the owner's end of the job's socket.
        job: the job.
        memories: the memories of the model's constants.
        deadline_s: the deadline on the clock of `time.monotonic()`; None for no limit.
        end_s: when the job has taken as long as it may, on the same clock.
        stop: ends the wait.

    Returns:
        The reply and the descriptors of its memories, which the caller owns; or how the process has
            ended; None if the connection is closed.

    Raises:
        OSError: the connection fails.
        Cancelled, MissedDeadlineTransient, ResourceExhaustedPersistent: see `Compiler.compile`.
    """
    with _ending(connection, stop):
        send_message(connection, job, memories)
        while True:
            with turns.waiting():
                _await_message(connection, job, deadline_s, end_s, stop)
            received = receive_message(connection, CompileReply)
            if not isinstance(received, CompileProgress):
                return received
            report_progress(received.percent / 100)


def compiled_from(reply: CompileReply, descriptors: list[int]) -> CompileResult:
    """Returns the result of a job, and logs what its process has logged.

    Args:
        reply: the reply of the process.
        descriptors: the descriptors of its memories, which this takes over.

    Raises:
        Error: the process could not compile the model, or its reply is not valid.
    """
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


def error_of_death(job: CompileJob, end: ProcessExit, on_crash: Callable[[int, str], None] | None) -> Error:
    """Returns the error for a process that has ended before it has compiled its model.

    Args:
        job: the job of the process.
        end: how it has ended.
        on_crash: see `CompilePool.run`.
    """
    if end.signal == signal.SIGXCPU:
        return time_exceeded(job.compile_s)
    name, text = _signal_name(end.signal), "a process that compiled a model has ended: %s"
    note_event(CountedEvent.COMPILER_DEATH, name, logger.error, text, f"{name}{output_clause(end.stderr)}")
    if any(text in end.stderr for text in _NO_MEMORY):
        return memory_exceeded(job.compile_bytes)
    if on_crash is not None and end.signal not in _FOREIGN_SIGNALS:
        on_crash(end.signal, name)
    return OpFailed(f"the compiler crashed on the model: {name}")


@contextlib.contextmanager
def _ending(connection: _socket.socket, stop: Cancellation) -> Iterator[None]:
    """Wakes a thread that waits for a reply, if it is cancelled during the block."""

    def wake() -> None:
        with contextlib.suppress(OSError):
            connection.shutdown(_socket.SHUT_RDWR)

    with stop.calling(wake):
        yield


def _await_message(
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
