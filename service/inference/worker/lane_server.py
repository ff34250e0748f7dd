"""Serves one lane in a thread of its own."""

import contextlib
import logging
import os
import select
import socket
import threading
import time
from typing import Final

import msgspec

from neurald.hal.errors import BadState, Cancelled, Error, ResultCode
from neurald.hal.lanes import socket_end
from neurald.hal.lanes.packets import Answer, Arena, RunAnswer, RunFailure, RunOrder, decode_order, encode
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.process.processors import PROCESSORS
from neurald.service.inference.worker.loaded_model import LoadedModel
from neurald.service.inference.worker.runner import Runner

logger = logging.getLogger(__name__)

#: How long a thread looks for the next packet again and again before it sleeps. Others may use the
#: processor meanwhile.
_SPIN_S: Final = 50e-6
_MAX_ARENA_BYTES: Final = 4 << 30
_MAX_MESSAGE: Final = 2000


class LaneServer:
    """Runs a model for the caller at the other end of a lane, until the caller closes it.

    Args:
        end: this side's end of the socket.
        model: to run.
        is_trusted: see `OpenLane`.
    """

    def __init__(self, end: socket.socket, model: LoadedModel, *, is_trusted: bool) -> None:
        self._end = end
        self._runner = Runner(model, copies=not (is_trusted or model.tolerates_changing_inputs))
        self._poll = select.poll()
        self._poll.register(end, select.POLLIN)
        self._spins = not is_trusted
        self._arena: SharedMemory | None = None
        self._lock = threading.Lock()
        self._number: int | None = None
        self._cancelled: int | None = None

    def start(self) -> None:
        """Begins to serve."""
        threading.Thread(target=self._serve, name="neurald lane", daemon=True).start()

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
        self._runner.cancel()

    def cancel(self, number: int) -> None:
        """Ends a run; one that has not arrived yet is not begun."""
        with self._lock:
            if self._number != number:
                self._cancelled = number
                return
        self._runner.cancel()

    def _serve(self) -> None:
        try:
            while self._serve_one():
                pass
        except (OSError, msgspec.DecodeError, Error) as error:
            # What is wrong with a lane is wrong with its caller, who sees that it is closed.
            logger.debug("a lane ends: %s", error)
        except Exception:
            logger.exception("a lane failed")
        finally:
            self._end.close()
            self._runner.forget_arena()
            if self._arena is not None:
                self._arena.close()
                self._arena = None

    def _serve_one(self) -> bool:
        packet, descriptor = self._received()
        if not packet:
            return False
        try:
            order = decode_order(packet)
            if isinstance(order, Arena):
                if descriptor is None or order.size > _MAX_ARENA_BYTES:
                    raise BadState("an arena has no memory, or is too large")
                self._runner.forget_arena()
                received, descriptor = descriptor, None
                self._arena = SharedMemory.received(received, order.size, constant=False)
                return True
        finally:
            if descriptor is not None:
                os.close(descriptor)
        answer, memory = self._answer(order)
        try:
            data = encode(answer)
        except Error as error:
            data, memory = encode(_failure(order.number, error)), None
        try:
            socket_end.send(self._end, data, None if memory is None else memory.fd)
        finally:
            if memory is not None:
                memory.close()
        return True

    def _received(self) -> tuple[bytes, int | None]:
        if self._spins:
            now = time.perf_counter()
            end = now + _SPIN_S
            while now < end and not self._poll.poll(0) and not PROCESSORS.are_crowded(now):
                os.sched_yield()
                now = time.perf_counter()
        return socket_end.receive(self._end)

    def _answer(self, order: RunOrder) -> tuple[Answer, SharedMemory | None]:
        with self._lock:
            self._number = order.number
            is_cancelled = self._cancelled == order.number
        try:
            if is_cancelled:
                raise Cancelled("the caller cancelled the run")
            if self._arena is None:
                raise BadState("a run needs an arena, and none was sent")
            return self._ran(order, self._arena)
        except Error as error:
            return _failure(order.number, error), None
        except MemoryError:
            return RunFailure(
                number=order.number, code=ResultCode.OUT_OF_MEMORY, message="the worker is out of memory"
            ), None
        finally:
            with self._lock:
                self._number = self._cancelled = None

    def _ran(self, order: RunOrder, arena: SharedMemory) -> tuple[RunAnswer, SharedMemory | None]:
        return self._runner.run(order, arena.view())


def _failure(number: int, error: Error) -> RunFailure:
    with contextlib.suppress(AttributeError):
        error.__traceback__ = None
    return RunFailure(
        number=number,
        code=error.code,
        message=str(error)[:_MAX_MESSAGE],
        is_cancelled=isinstance(error, Cancelled),
    )
