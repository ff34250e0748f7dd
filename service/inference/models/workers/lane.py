"""The front end's end of a lane: writes inputs, and learns when outputs are there.

A run is begun by the event loop, which learns of its end, or by another thread, which waits for
it. The loop listens to a lane only during its own runs.
"""

import asyncio
import math
import os
import select
import socket
import time
from collections.abc import Callable
from typing import Final

from neurald.hal.errors import BadData, Error
from neurald.hal.lanes import socket_end
from neurald.hal.lanes.packets import Answer, Arena, RunFailure, TensorAt, decode_answer, encode
from neurald.hal.lanes.repeats import RepeatedRuns
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.records import DECODE_ERRORS
from neurald.hal.rpc.transport.ring_end import WAKE
from neurald.service.inference.models.workers.lane_windows import InPlace, LaneWindows

_MIN_ARENA_BYTES: Final = 1 << 18
_MAX_ATTACHED_BYTES: Final = 4 << 30

#: An answer, and the memory in which its outputs are.
Answered = tuple[Answer, memoryview]


class ServedLane:
    """Runs a model in a worker, one run at a time.

    Who has taken it from its instance uses it alone: the event loop by `begin`, another thread by
    `run`. Only `cancel` may be called by anyone.

    Args:
        end: this side's end of the socket.
        number: the number of the lane in its worker.
        closed: the function that is called, in the loop, when the worker has closed its end, or
            broken the rules, during a run that `begin` began.
        cut_window: has the worker give the memory of a window of this lane back, by its number.

    Attributes:
        windows: the regions that the worker uses in place.
    """

    def __init__(
        self,
        end: socket.socket,
        number: int,
        closed: Callable[["ServedLane"], None],
        cut_window: Callable[[int], None],
    ) -> None:
        self.number = number
        self._end = end
        self._closed = closed
        self._loop = asyncio.get_running_loop()
        self._arena: SharedMemory | None = None
        self._view = memoryview(b"")
        #: Outputs that have been found to be inside of the arena.
        self._inside: tuple[TensorAt, ...] | None = None
        self._done: Callable[[Answer, memoryview], None] | None = None
        end.setblocking(False)
        self._poll = select.poll()
        self._poll.register(end, select.POLLIN)
        self._runs = RepeatedRuns(end)
        self.windows: Final = LaneWindows(self._runs.send_packet, self._runs.forget, cut_window)
        #: Where outputs of the run under way are wanted, if not in the arena.
        self._results: tuple[TensorAt, ...] = ()
        #: Whether the ring signals the end of the run under way.
        self._is_repeated = False

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
        if self._view.nbytes < size:
            wanted = max(_MIN_ARENA_BYTES, 1 << (size - 1).bit_length())
            arena = SharedMemory.create(wanted, "neurald lane")
            self._runs.send_packet(encode(Arena(size=wanted)), arena.fd)
            self._runs.forget()
            if self._arena is not None:
                self._arena.close()
            self._arena, self._view, self._inside = arena, arena.view(), None
        return self._view

    def begin(
        self,
        inputs: tuple[TensorAt, ...],
        results_at: int,
        wanted: tuple[int, ...],
        done: Callable[[Answer, memoryview], None],
    ) -> None:
        """Begins a run, in the event loop.

        Args:
            inputs: the inputs, which are in the arena.
            results_at, wanted: see `RunOrder`.
            done: receives the answer and the memory in which outputs are. Not called if the lane is
                closed before.

        Raises:
            OSError: the worker is gone.
            BadData: the run describes too many tensors.
        """
        self._results = ()
        self._runs.ring.always_wake()
        self._is_repeated = self._runs.begin(inputs, results_at, wanted)
        self._done = done
        self._loop.add_reader(self._end.fileno(), self._receive)

    def run(
        self,
        inputs: tuple[TensorAt, ...],
        results_at: int,
        wanted: tuple[int, ...],
        end_s: float,
        in_place: InPlace | None = None,
    ) -> Answered:
        """Runs the model, and waits for its end; see `begin`.

        Args:
            inputs, results_at, wanted: see `begin`.
            end_s: until when to wait, on the clock of `time.monotonic`.
            in_place: how it is run in place, with other inputs; None for a run in the arena.

        Raises:
            TimeoutError: it has not ended by then; `awaited` waits for longer.
            OSError: the worker is gone, or has broken the rules.
            BadData: the run describes too many tensors.
        """
        if in_place is None:
            self._results = ()
            self._is_repeated = self._runs.begin(inputs, results_at, wanted)
        else:
            self._results = in_place.results
            self._is_repeated = self._runs.begin(
                in_place.inputs, results_at, wanted, in_place.results_end, in_place.results
            )
        return self.awaited(end_s)

    def awaited(self, end_s: float) -> Answered:
        """Waits for the end of the run that `run` began; see there."""
        try:
            while True:
                left_s = end_s - time.monotonic()
                found = self._slept(None if left_s == math.inf else max(0.0, left_s))
                if found is not None:
                    return found
                if left_s <= 0:
                    raise TimeoutError
        except (Error, *DECODE_ERRORS) as error:
            raise ConnectionAbortedError(f"the worker has broken the rules of a lane: {error}") from None

    def cancel(self) -> None:
        """See `RepeatedRuns.cancel`."""
        self._runs.cancel()

    def close(self) -> None:
        """Closes this end."""
        if self._end.fileno() >= 0:
            if self._done is not None:
                self._loop.remove_reader(self._end.fileno())
            self._end.close()
        self._done = None
        self.windows.close()
        if self._arena is not None:
            self._arena.close()

    def _slept(self, limit_s: float | None) -> Answered | None:
        """Sleeps until something has arrived; returns the answer if that is it."""
        if self._is_repeated and self._runs.ring.sleep(limit_s):
            return self._completed()
        if not self._poll.poll(0 if self._is_repeated else None if limit_s is None else limit_s * 1000):
            return None
        try:
            return self._received()
        except BlockingIOError:
            return None

    def _completed(self) -> Answered | None:
        """Takes the run's end from the ring; returns None if a packet with the answer follows."""
        self._is_repeated = False
        answer = self._runs.completed()
        if answer is None:
            return None
        # The same tuple, so that they need not be checked again.
        if answer.outputs is not self._inside:
            self._memory(answer, None)
            self._inside = answer.outputs
        return answer, self._view

    def _receive(self) -> None:
        try:
            found = self._received()
            done = self._done
            if found is None:
                return
            if done is None:
                raise ConnectionAbortedError
        except BlockingIOError:
            return
        except (OSError, Error, *DECODE_ERRORS):
            self.close()
            self._closed(self)
            return
        self._loop.remove_reader(self._end.fileno())
        self._done = None
        done(*found)

    def _received(self) -> Answered | None:
        """Takes what has arrived; returns the answer if it is there.

        Raises:
            BlockingIOError: nothing is there.
            OSError, Error: the worker is gone, or has broken the rules.
        """
        packet, descriptor = socket_end.receive(self._end)
        try:
            if not packet:
                raise ConnectionResetError("it has closed the lane")
            if packet[0] == WAKE:
                self._runs.ring.note_wake(packet)
                return self._completed() if self._runs.ring.has_entry else None
            answer = decode_answer(packet)
            # The ring has said before that a packet with the answer follows.
            if self._is_repeated and (not self._runs.ring.has_entry or self._completed() is not None):
                raise BadData("the worker has answered a run otherwise than it was begun")
            self._runs.note(answer)
            received, descriptor = descriptor, None
            return answer, self._memory(answer, received)
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def _memory(self, answer: Answer, descriptor: int | None) -> memoryview:
        """Returns the memory of an answer's outputs, after checking that they are inside.

        Those that are where they are wanted, in windows, are in none.

        Raises:
            Error, OSError: they are not inside the memory.
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
            view = self._view
        if self._results and answer.outputs == self._results:
            return view
        for tensor in answer.outputs:
            tensor.check(view.nbytes)
        return view
