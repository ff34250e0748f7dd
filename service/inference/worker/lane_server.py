"""Serves one lane in a thread of its own."""

import contextlib
import logging
import os
import socket
import struct
import threading
import time
from typing import Final

import msgspec

from neurald.hal.errors import BadState, Cancelled, Error, ResultCode
from neurald.hal.lanes import socket_end
from neurald.hal.lanes.packets import (
    KEPT_ORDERS,
    KEPT_WINDOWS,
    Answer,
    Arena,
    LaneWindow,
    RingMemory,
    RunAnswer,
    RunFailure,
    RunOrder,
    decode_order,
    encode,
)
from neurald.hal.lanes.repeats import COMPLETION, SUBMISSION, number_after
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.process.threads.checked_thread import CheckedThread
from neurald.hal.process.threads.time_slices import AdaptiveSlices, short_time_slices
from neurald.hal.records import DECODE_ERRORS
from neurald.hal.rpc.transport.ring_end import RING_BYTES, WAKE, RingEnd, RingSide
from neurald.service.inference.mapping.guarded_copy import MappedRange, mapped_range
from neurald.service.inference.worker.loaded_model import LoadedModel
from neurald.service.inference.worker.native_lane import NativeLane
from neurald.service.inference.worker.runner import Runner

logger = logging.getLogger(__name__)

_MAX_ARENA_BYTES: Final = 4 << 30
_MAX_MESSAGE: Final = 2000


class LaneServer:
    """Runs a model for the caller at the other end of a lane, until the caller closes it.

    Args:
        end: this side's end of the socket.
        model: the model to run.
        is_trusted: see `OpenLane`.
    """

    def __init__(self, end: socket.socket, model: LoadedModel, *, is_trusted: bool) -> None:
        self._end = end
        self._model = model
        self._runner = Runner(model, is_trusted=is_trusted)
        self._is_trusted = is_trusted
        self._spins = not is_trusted
        self._arena: SharedMemory | None = None
        self._ring: RingEnd | None = None
        self._native: NativeLane | None = None
        #: The time slices of the lane's thread, once it has short ones.
        self._slices = AdaptiveSlices()
        self._orders: dict[int, RunOrder] = {}
        self._told: dict[int, RunAnswer] = {}
        #: The windows by their numbers, in the order of those.
        self._windows: dict[int, MappedRange | None] = {}
        self._lock = threading.Lock()
        #: The number of the latest run, and of the one that Python has under way.
        self._latest = 0
        self._number: int | None = None
        self._cancelled: int | None = None

    def start(self) -> None:
        """Begins to serve.

        Raises:
            RuntimeError: no thread can be started.
        """
        CheckedThread(target=self._serve, name="neurald lane", daemon=True).start()

    @property
    def end(self) -> socket.socket:
        """This side's end of the socket."""
        return self._end

    @property
    def is_over(self) -> bool:
        """True if the lane is closed."""
        return self._end.fileno() < 0

    def hang_up(self) -> None:
        """Ends the run under way, since its caller has left."""
        native = self._native
        if native is not None:
            native.cancel()
        self._runner.cancel()

    def cancel(self, number: int) -> None:
        """Ends a run; one that has not arrived yet is not begun."""
        with self._lock:
            if self._number != number:
                self._cancelled = number
                return
            # The next run cannot begin meanwhile, which would be cancelled in place of this one.
            self._runner.cancel()

    def cut_window(self, number: int) -> None:
        """Gives the memory of a window's file back. Any thread may call it, also during a run."""
        with self._lock:
            window = self._windows.get(number)
            if window is not None:
                with contextlib.suppress(OSError):
                    window.cut()

    def _serve(self) -> None:
        try:
            with short_time_slices():
                self._slices = AdaptiveSlices()
                while self._serve_once():
                    pass
        except (OSError, Error, struct.error, *DECODE_ERRORS) as error:
            # What is wrong with a lane is wrong with its caller, who sees that it is closed.
            logger.debug("a lane ends: %s", error)
        except Exception:
            logger.exception("a lane failed")
        finally:
            self._end.close()
            self._forget_orders()
            with self._lock:
                self._windows.clear()
            if self._native is not None:
                self._native.close()
            self._ring = self._native = None
            if self._arena is not None:
                self._arena.close()
                self._arena = None

    def _serve_once(self) -> bool:
        """Serves the next request of the caller; returns False at the end of the lane."""
        ring, native = self._ring, self._native
        if ring is None or native is None:
            return self._read_packet()
        taken = ring.taken_number
        is_left = native.serve(self._slices)
        self._latest = number_after(self._latest, ring.taken_number - taken)
        if not self._is_asked_by_ring(ring, spins=self._spins and not native.was_idle):
            return self._read_packet()
        if is_left or not native.is_useful:
            self._repeat(ring, native)
        return True

    @staticmethod
    def _is_asked_by_ring(ring: RingEnd, *, spins: bool) -> bool:
        """Waits for the caller; returns whether it repeats a run, and else a packet has arrived."""
        began = time.perf_counter()
        if not (spins and ring.spin()) and not ring.sleep(None):
            return False
        ring.note_wait(time.perf_counter() - began)
        return True

    def _repeat(self, ring: RingEnd, native: NativeLane) -> None:
        """Runs one of the kept orders again."""
        (slot,) = SUBMISSION.unpack_from(ring.take())
        number = self._latest = number_after(self._latest)
        order, told = self._orders.get(slot), self._told.get(slot)
        if order is None:
            raise BadState("a run is repeated that is not known")
        answer, memory = self._stamped(order, number, is_cancelled=ring.is_cancelled)
        if (
            isinstance(answer, RunAnswer)
            and told is not None
            and memory is None
            and answer.outputs == told.outputs
            and answer.receipt.origin == told.receipt.origin
        ):
            receipt = answer.receipt
            ring.put(COMPLETION.pack(False, receipt.run_ns, receipt.read_ns, receipt.written_ns))
            native.let_run(slot, self._runner.bound_run(order), receipt.run_ns)
            return
        native.forget(slot)
        ring.put(COMPLETION.pack(True, 0, 0, 0))
        self._tell(slot, number, answer, memory)

    def _read_packet(self) -> bool:
        """Obeys one packet; returns False at the end of the lane."""
        packet, descriptor = socket_end.receive(self._end)
        if not packet:
            return False
        try:
            if packet[0] == WAKE:
                if self._ring is not None:
                    self._ring.note_wake(packet)
                return True
            if self._ring is not None:
                self._ring.note_packet()
            order = decode_order(packet)
            if not isinstance(order, RunOrder):
                if descriptor is None:
                    raise BadState("an arena, a ring or a window has no memory")
                if isinstance(order, LaneWindow):
                    self._open_window(order, descriptor)
                    return True
                if order.size > _MAX_ARENA_BYTES:
                    raise BadState("an arena or a ring is too large")
                received, descriptor = descriptor, None
                self._take_over(order, received)
                return True
        finally:
            if descriptor is not None:
                os.close(descriptor)
        if not 0 <= order.slot < KEPT_ORDERS:
            raise BadState(f"an order has the slot {order.slot}; there are {KEPT_ORDERS}")
        self._orders[order.slot] = order
        self._latest = order.number
        if self._native is not None:
            self._native.forget(order.slot)
        self._tell(order.slot, order.number, *self._stamped(order, order.number))
        return True

    def _take_over(self, order: Arena | RingMemory, descriptor: int) -> None:
        """Uses a memory of the caller from now on."""
        if isinstance(order, RingMemory):
            if order.size != RING_BYTES or self._ring is not None:
                os.close(descriptor)
                raise BadState(f"a lane has one ring, of {RING_BYTES} bytes")
            memory = SharedMemory.received(descriptor, order.size, constant=False)
            self._ring = RingEnd(memory, self._end, RingSide.DAEMON)
            memory.close()  # only the mapping is needed
            self._native = NativeLane(self._model.native_lanes, self._ring, self._end, spins=self._spins)
            return
        self._forget_orders()
        self._arena = SharedMemory.received(descriptor, order.size, constant=False)

    def _open_window(self, order: LaneWindow, descriptor: int) -> None:
        """Maps a window; runs fail that use one that cannot be mapped."""
        if not self._is_trusted:
            raise BadState("a caller that is not trusted has given a window")
        if len(self._windows) >= KEPT_WINDOWS:
            self._forget_orders()
            with self._lock:
                del self._windows[next(iter(self._windows))]
        window = mapped_range(descriptor, order.offset, order.size)
        with self._lock:
            self._windows[order.number] = window

    def _forget_orders(self) -> None:
        """Drops all that refers to the arena and to windows."""
        if self._native is not None:
            self._native.clear()
        self._runner.forget_arena()
        self._orders.clear()
        self._told.clear()

    def _tell(self, slot: int, number: int, answer: Answer, memory: SharedMemory | None) -> None:
        """Sends an answer, and keeps it for runs with the same one."""
        answer = msgspec.structs.replace(answer, number=number)
        self._told.pop(slot, None)
        try:
            data = encode(answer)
        except Error as error:
            answer, memory = _failure(number, error), None
            data = encode(answer)
        if isinstance(answer, RunAnswer) and memory is None:
            self._told[slot] = answer
        try:
            socket_end.send(self._end, data, None if memory is None else memory.fd)
        finally:
            if memory is not None:
                memory.close()

    def _stamped(
        self, order: RunOrder, number: int, *, is_cancelled: bool = False
    ) -> tuple[Answer, SharedMemory | None]:
        """Runs an order, and leaves the stamps of that for the caller if it traces the run."""
        wanted = 0 if self._ring is None else self._ring.wanted_stamps
        arrived_ns = time.monotonic_ns()
        answer, memory = self._answer(order, number, is_cancelled=is_cancelled)
        if wanted and self._ring is not None:
            ended_ns = time.monotonic_ns()
            times_ns = arrived_ns, arrived_ns, ended_ns, ended_ns
            self._ring.put_stamps((wanted, os.getpid(), *times_ns))
        return answer, memory

    def _answer(
        self, order: RunOrder, number: int, *, is_cancelled: bool = False
    ) -> tuple[Answer, SharedMemory | None]:
        with self._lock:
            self._number = number
            is_cancelled = is_cancelled or self._cancelled == number
            self._runner.expect()
        began = time.perf_counter()
        try:
            if is_cancelled:
                raise Cancelled("the caller cancelled the run")
            if self._arena is None:
                raise BadState("a run needs an arena, and none was sent")
            return self._ran(order, self._arena)
        except Error as error:
            return _failure(number, error), None
        except MemoryError:
            return RunFailure(
                number=number, code=ResultCode.OUT_OF_MEMORY, message="the worker is out of memory"
            ), None
        finally:
            self._slices.note_work(time.perf_counter() - began)
            with self._lock:
                self._number = self._cancelled = None

    def _ran(self, order: RunOrder, arena: SharedMemory) -> tuple[RunAnswer, SharedMemory | None]:
        windows = {number: window for number, window in self._windows.items() if window is not None}
        return self._runner.run(order, arena.view(), windows)


def _failure(number: int, error: Error) -> RunFailure:
    with contextlib.suppress(AttributeError):
        error.__traceback__ = None
    return RunFailure(
        number=number,
        code=error.code,
        message=str(error)[:_MAX_MESSAGE],
        is_cancelled=isinstance(error, Cancelled),
    )
