"""The front end's end of a lane: writes inputs, and is told when outputs are there."""

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Final

from neurald.hal.errors import Error
from neurald.hal.lanes import socket_end
from neurald.hal.lanes.packets import Answer, Arena, RunFailure, TensorAt, decode_answer, encode
from neurald.hal.lanes.repeats import RepeatedRuns
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.records import DECODE_ERRORS
from neurald.hal.rpc.transport.ring_end import WAKE

_MIN_ARENA_BYTES: Final = 1 << 18
_MAX_ATTACHED_BYTES: Final = 4 << 30


class ServedLane:
    """Runs a model in a worker, one run at a time. Belongs to one event loop.

    Args:
        end: this side's end of the socket.
        number: of the lane in its worker.
        closed: is called when the worker has closed its end, or broken the rules.
    """

    def __init__(self, end: socket.socket, number: int, closed: Callable[["ServedLane"], None]) -> None:
        self.number = number
        self._end = end
        self._closed = closed
        self._loop = asyncio.get_running_loop()
        self._arena: SharedMemory | None = None
        self._done: Callable[[Answer, memoryview], None] | None = None
        end.setblocking(False)
        self._runs = RepeatedRuns(end)
        self._runs.ring.always_wake()
        self._loop.add_reader(end.fileno(), self._receive)

    @property
    def run_number(self) -> int:
        """The number of the latest run."""
        return self._runs.number

    def arena(self, size: int) -> memoryview:
        """Returns memory for a run, of at least this size.

        Raises:
            OutOfMemory: there is not enough.
            OSError: the worker is gone.
        """
        if self._arena is None or self._arena.size < size:
            wanted = max(_MIN_ARENA_BYTES, 1 << (size - 1).bit_length())
            arena = SharedMemory.create(wanted, "neurald lane")
            self._runs.send_packet(encode(Arena(size=wanted)), arena.fd)
            self._runs.forget()
            if self._arena is not None:
                self._arena.close()
            self._arena = arena
        return self._arena.view()

    def begin(
        self,
        inputs: tuple[TensorAt, ...],
        results_at: int,
        wanted: tuple[int, ...],
        done: Callable[[Answer, memoryview], None],
    ) -> None:
        """Begins a run.

        Args:
            inputs: are in the arena.
            results_at, wanted: see `RunOrder`.
            done: receives the answer and the memory in which outputs are. Not called if the lane is
                closed before.

        Raises:
            OSError: the worker is gone.
            BadData: the run describes too many tensors.
        """
        self._runs.begin(inputs, results_at, wanted)
        self._done = done

    def cancel(self) -> None:
        """See `RepeatedRuns.cancel`."""
        self._runs.cancel()

    def close(self) -> None:
        """Closes this end."""
        if self._end.fileno() >= 0:
            self._loop.remove_reader(self._end.fileno())
            self._end.close()
        self._done = None
        if self._arena is not None:
            self._arena.close()

    def _receive(self) -> None:
        descriptor: int | None = None
        try:
            packet, descriptor = socket_end.receive(self._end)
            if not packet:
                raise ConnectionResetError
            answer: Answer | None
            if packet[0] == WAKE:
                self._runs.ring.note_wake(packet)
                answer = self._runs.completed() if self._runs.ring.has_entry else None
                if answer is None:
                    return
            else:
                answer = decode_answer(packet)
                self._runs.note(answer)
            done, self._done = self._done, None
            if done is None:
                raise ConnectionAbortedError
            received, descriptor = descriptor, None
            memory = self._memory(answer, received)
        except BlockingIOError:
            return
        except (OSError, Error, *DECODE_ERRORS):
            self._fail()
            return
        finally:
            if descriptor is not None:
                os.close(descriptor)
        done(answer, memory)

    def _memory(self, answer: Answer, descriptor: int | None) -> memoryview:
        """Returns the memory of an answer's outputs, after checking that they are inside.

        Raises:
            Error, OSError: they are not.
        """
        attached = 0 if isinstance(answer, RunFailure) else answer.attached_bytes
        if descriptor is not None and not 0 < attached <= _MAX_ATTACHED_BYTES:
            os.close(descriptor)
            descriptor = None
        if isinstance(answer, RunFailure):
            return memoryview(b"")
        if descriptor is not None:
            memory = SharedMemory.received(descriptor, attached, constant=False)
            view = memory.view()
            memory.close()
        elif attached or self._arena is None:
            raise ConnectionAbortedError
        else:
            view = self._arena.view()
        for tensor in answer.outputs:
            tensor.check(view.nbytes)
        return view

    def _fail(self) -> None:
        self.close()
        self._closed(self)
