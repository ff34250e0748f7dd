"""A client's end of a lane: runs a served model through shared memory."""

import os
import select
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from neurald.hal.errors import (
    BadData,
    Cancelled,
    DeadObject,
    MissedDeadlineTransient,
    OpFailed,
    ResultCode,
    UnavailableDevice,
    error_for,
)
from neurald.hal.lanes.byte_strings import encode_byte_strings
from neurald.hal.lanes.opening import Opened, OpenRequest, decode_opened, encode_opening
from neurald.hal.lanes.packets import (
    BYTES,
    Arena,
    Receipt,
    RunAnswer,
    RunOrder,
    TensorAt,
    aligned,
    decode_answer,
    encode,
)
from neurald.hal.lanes.socket_end import receive, send
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.process.processors import PROCESSORS
from neurald.hal.rpc.client.reach import require_trusted

_MIN_ARENA_BYTES: Final = 1 << 18
#: Room for outputs behind the inputs, at least.
_MIN_RESULT_BYTES: Final = 1 << 16
_SPIN_S: Final = 50e-6
_OPEN_S: Final = 10.0

Array = np.ndarray[Any, np.dtype[Any]]


class ClientLane:
    """Runs a model in its process, one run at a time. Not thread-safe.

    Args:
        path: of the service's socket.
        name, version: of the model.

    Attributes:
        opened: what the service says of the model.

    Raises:
        DeadObject: the model is not ready now.
        UnavailableDevice: no service listens there.
        Error: the service refuses.
    """

    def __init__(self, path: Path, name: str, version: str) -> None:
        self.opened, self._end = _open(path, OpenRequest(name=name, version=version))
        self._end.setblocking(False)
        self._poll = select.poll()
        self._poll.register(self._end, select.POLLIN)
        self._arena: SharedMemory | None = None
        self._result_bytes = _MIN_RESULT_BYTES
        self._number = 0

    def close(self) -> None:
        """Closes the lane; a run under way is ended."""
        self._end.close()
        if self._arena is not None:
            self._arena.close()
            self._arena = None

    def run(self, arrays: Sequence[Array], timeout_s: float | None) -> tuple[list[Array], Receipt]:
        """Runs the model.

        Args:
            arrays: of the types of the inputs, in their order; strings as objects of type bytes.
            timeout_s: how long it may take; None for no limit. If it takes longer, close the lane.

        Raises:
            DeadObject: the model's process is gone.
            MissedDeadlineTransient: the time is over.
            Error: the run failed.
        """
        contents: list[tuple[Array, bytes | None, int]] = []
        at = 0
        tensors: list[TensorAt] = []
        for array, described in zip(arrays, self.opened.inputs, strict=True):
            encoded = encode_byte_strings(array) if described.kind == BYTES else None
            size = array.nbytes if encoded is None else len(encoded)
            tensors.append(TensorAt(kind=described.kind, shape=array.shape, offset=at, size=size))
            contents.append((array, encoded, at))
            at = aligned(at + size)
        try:
            view = self._room(at + self._result_bytes)
            for (array, encoded, offset), tensor in zip(contents, tensors, strict=True):
                if encoded is not None:
                    view[offset : offset + tensor.size] = encoded
                elif tensor.size:
                    np.copyto(
                        np.frombuffer(view, array.dtype, array.size, offset).reshape(array.shape), array
                    )
            self._number += 1
            order = RunOrder(
                number=self._number,
                inputs=tuple(tensors),
                results_at=at,
                wanted=tuple(range(len(self.opened.outputs))),
            )
            send(self._end, encode(order))
            return self._answer(view, timeout_s)
        except (OSError, msgspec.DecodeError) as error:
            raise DeadObject(f"the process of the model is gone: {error}") from None

    def _room(self, size: int) -> memoryview:
        if self._arena is None or self._arena.size < size:
            arena = SharedMemory.create(max(_MIN_ARENA_BYTES, 1 << (size - 1).bit_length()), "neurald lane")
            send(self._end, encode(Arena(size=arena.size)), arena.fd)
            if self._arena is not None:
                self._arena.close()
            self._arena = arena
        return self._arena.view()

    def _answer(self, view: memoryview, timeout_s: float | None) -> tuple[list[Array], Receipt]:
        self._wait(timeout_s)
        packet, descriptor = receive(self._end)
        try:
            if not packet:
                raise ConnectionResetError("it has closed the lane")
            answer = decode_answer(packet)
            if answer.number != self._number:
                raise ConnectionAbortedError("it has answered another run")
            if not isinstance(answer, RunAnswer):
                if answer.is_cancelled:
                    raise Cancelled(answer.message)
                raise _error(answer.code, answer.message)
            if answer.attached_bytes:
                if descriptor is None:
                    raise ConnectionAbortedError("it has sent no memory")
                received, descriptor = descriptor, None
                memory = SharedMemory.received(received, answer.attached_bytes, constant=False)
                view = memory.view()
                self._result_bytes = max(self._result_bytes, 2 * memory.size)
                memory.close()
            results = [
                tensor.in_arena(view) if tensor.kind == BYTES else tensor.in_arena(view).copy()
                for tensor in answer.outputs
            ]
        finally:
            if descriptor is not None:
                os.close(descriptor)
        if len(results) != len(self.opened.outputs):
            raise DeadObject("the process of the model has returned other outputs than were wanted")
        return results, answer.receipt

    def _wait(self, timeout_s: float | None) -> None:
        """Waits for an answer: at first by polling, if a processor is idle."""
        now = time.perf_counter()
        spin_end = now + _SPIN_S
        while now < spin_end and not PROCESSORS.are_crowded(now):
            if self._poll.poll(0):
                return
            os.sched_yield()
            now = time.perf_counter()
        if not self._poll.poll(None if timeout_s is None else max(0.0, timeout_s * 1000)):
            raise MissedDeadlineTransient(f"the served model has not answered within {timeout_s:g} s")


def _open(path: Path, wanted: OpenRequest) -> tuple[Opened, socket.socket]:
    """Asks the service for a lane; returns what it says of the model, and the lane's socket."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.settimeout(_OPEN_S)
            connection.connect(str(path))
            require_trusted(connection, path)
            send(connection, encode_opening(wanted))
            packet, descriptor = receive(connection)
    except OSError as error:
        raise UnavailableDevice(
            f"no execution service answers at {path} ({error.strerror or error}); `neurald serve --grpc` starts one"
        ) from None
    end = None if descriptor is None else socket.socket(fileno=descriptor)
    try:
        answer = decode_opened(packet)
    except msgspec.DecodeError as error:
        if end is not None:
            end.close()
        raise UnavailableDevice(f"the service at {path} is of another version: {error}") from None
    if isinstance(answer, Opened) and end is not None:
        return answer, end
    if end is not None:
        end.close()
    if isinstance(answer, Opened):
        raise DeadObject("the service has sent no lane")
    raise _error(answer.code, answer.message)


def _error(code: int, message: str) -> Exception:
    """Returns the error that the other side has reported, whose code may be any number."""
    try:
        found = ResultCode(code)
    except ValueError:
        found = ResultCode.OP_FAILED
    if found is ResultCode.OUTPUT_INSUFFICIENT_SIZE:
        return BadData(message)
    return OpFailed(message) if found is ResultCode.NO_ERROR else error_for(found, message)
