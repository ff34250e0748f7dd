"""Repeated runs of a lane, which cost two numbers in shared memory instead of packets.

The worker keeps the last orders of a lane, each in a slot. A caller that wants the same again, with
inputs and outputs at the same places of the arena, puts the slot into a ring (`RingEnd`), and the
worker replies there that the answer was the same again, apart from its durations. If the answer was
another one, such as an error, its packet follows. Native code of a driver serves the ring as far as
it can, see `neurald.hal.execution.native_serving`.
"""

import socket
import struct
from collections import OrderedDict
from typing import Final

from neurald.hal.errors import BadData
from neurald.hal.lanes.packets import (
    KEPT_ORDERS,
    Answer,
    Receipt,
    RingMemory,
    RunAnswer,
    RunOrder,
    TensorAt,
    encode,
)
from neurald.hal.lanes.socket_end import send
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.rpc.transport.ring_end import RING_BYTES, RingEnd, RingSide

#: The slot of the order. The number of the run follows that of the lane's run before.
SUBMISSION: Final = struct.Struct("<I20x")
#: Whether the answer is another one than before; how long running, reading inputs, and writing
#: outputs took, in nanoseconds, -1 if it is not known. Native code of a driver writes it, too.
COMPLETION: Final = struct.Struct("<Qqqq")
_NUMBERS: Final = 1 << 32

_Key = tuple[tuple[TensorAt, ...], int, tuple[int, ...], int, tuple[TensorAt, ...]]


def number_after(number: int, runs: int = 1) -> int:
    """Returns the number of a run that follows another one."""
    return (number + runs) % _NUMBERS


class _Known:
    """An order that the worker keeps."""

    def __init__(self, slot: int) -> None:
        self.slot = slot
        #: The last answer; None if the order has to be sent again.
        self.answer: RunAnswer | None = None


class RepeatedRuns:
    """The caller's runs of a lane, one at a time. Not thread-safe.

    Args:
        end: the caller's end of the lane's socket.

    Attributes:
        ring: signals repeated runs and their ends.

    Raises:
        OSError: the worker is gone.
    """

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        memory = SharedMemory.working(RING_BYTES, "neurald lane ring")
        send(end, encode(RingMemory(size=RING_BYTES)), memory.fd)
        memory.close()  # only the mapping is needed
        self.ring = RingEnd(memory, end, RingSide.CLIENT)
        self._known: OrderedDict[_Key, _Known] = OrderedDict()
        self._number = 0
        self._under_way: _Known | None = None

    @property
    def number(self) -> int:
        """The number of the latest run."""
        return self._number

    def send_packet(self, packet: bytes, descriptor: int | None = None) -> None:
        """Sends a packet to the worker.

        Raises:
            OSError: the worker is gone.
        """
        self.ring.announce_packet()
        send(self._end, packet, descriptor)

    def forget(self) -> None:
        """Forgets all orders, as the worker does when it gets another arena."""
        self._known.clear()

    def begin(
        self,
        inputs: tuple[TensorAt, ...],
        results_at: int,
        wanted: tuple[int, ...],
        results_end: int = 0,
        results: tuple[TensorAt, ...] = (),
    ) -> bool:
        """Begins a run; see `RunOrder`.

        Returns:
            Whether its end is signalled by the ring; if not, its answer is a packet.

        Raises:
            BadData: too many tensors are described.
            OSError: the worker is gone.
        """
        key = (inputs, results_at, wanted, results_end, results)
        known = self._known.get(key)
        number = number_after(self._number)
        if known is not None and known.answer is not None:
            self._under_way, self._number = known, number
            self.ring.put(SUBMISSION.pack(known.slot))
            return True
        is_full = len(self._known) >= KEPT_ORDERS
        if known is None:
            known = _Known(next(iter(self._known.values())).slot if is_full else len(self._known))
        packet = encode(
            RunOrder(
                number=number,
                slot=known.slot,
                inputs=inputs,
                results_at=results_at,
                wanted=wanted,
                results_end=results_end,
                results=results,
            )
        )
        # The worker counts the runs, too, so one that cannot be described leaves no trace.
        if is_full and key not in self._known:
            self._known.popitem(last=False)
        self._known[key] = known
        self._under_way, self._number = known, number
        self.send_packet(packet)
        return False

    def completed(self) -> RunAnswer | None:
        """Takes the end of a run from the ring, where it has arrived.

        Returns:
            The answer; None if a packet with it follows.

        Raises:
            BadData: the worker has completed another run, or breaks the rules in another way.
        """
        is_other, run_ns, read_ns, written_ns = COMPLETION.unpack(self.ring.take())
        known = self._under_way
        if known is None:
            raise BadData("the worker has completed a run that was not begun")
        if is_other:
            return None
        answer = known.answer
        if answer is None:
            raise BadData("the worker has repeated an answer that it has not given")
        before = answer.receipt
        receipt = Receipt(
            before.devices,
            before.drivers,
            before.is_substituted,
            max(0, read_ns),
            max(0, run_ns),
            max(0, written_ns),
        )
        return RunAnswer(self._number, answer.outputs, 0, receipt)

    def cancel(self) -> None:
        """Asks native code of the worker to end the run under way, if it is a repeated one."""
        self.ring.cancel(self.ring.put_number)

    def note(self, answer: Answer) -> None:
        """Notes an answer that came as a packet.

        Raises:
            BadData: it answers another run.
        """
        if answer.number != self._number or self._under_way is None:
            raise BadData("the worker has answered a run that was not begun")
        is_repeatable = isinstance(answer, RunAnswer) and not answer.attached_bytes
        self._under_way.answer = answer if is_repeatable and isinstance(answer, RunAnswer) else None
        self._under_way = None
