"""Makes executions with a time limit wait for their turn on a device of this process.

Driver processes have a queue, which does not begin what cannot end in time. In this process,
threads call devices as they like. Without a queue, all executions of more work than a device can do
would begin, and end too late. Those without a time limit do not wait, since that would gain
nothing.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from neurald.hal.admission.executions.admission_queue import AdmissionQueue
from neurald.hal.admission.executions.execution_pace import ExecutionPace
from neurald.hal.device import Device, ExecuteOptions, executions_at_once
from neurald.hal.model.types import Priority
from neurald.hal.process.fork import at_fork, forkable_lock

#: To wait for a turn takes longer than executions that are shorter than this, most of which do not
#: if they have this many times longer until their deadlines. One of this many does, to be timed.
_SHORT_S: Final = 2e-4
_AMPLE: Final = 100.0
_TIMED: Final = 16


class _Queues:
    """The queues of this process's devices, by name."""

    def __init__(self) -> None:
        self._lock = forkable_lock()
        self._queues: dict[tuple[str, int], AdmissionQueue] = {}
        at_fork(self)

    def forked(self) -> None:
        """Forgets the queues, since threads of the parent that wait in them do not exist here."""
        self._queues.clear()

    def of(self, device: Device) -> AdmissionQueue:
        """Returns the queue of a device."""
        key = device.name, executions_at_once(device)
        with self._lock:
            found = self._queues.get(key)
            if found is None:
                found = self._queues[key] = AdmissionQueue(key[1])
            return found


_queues: Final = _Queues()


class DeviceTurns:
    """The turns of one model's executions on one device.

    Args:
        device: runs the model, in this process.
        priority: the priority of the executions.
    """

    def __init__(self, device: Device, priority: Priority) -> None:
        self._device = device
        self._priority = priority
        self._pace = ExecutionPace()
        self._asked = 0

    def is_needed(self, deadline_s: float) -> bool:
        """Returns whether an execution with this deadline is to wait for its turn."""
        self._asked += 1
        usual_s = self._pace.mean_s
        if not 0 < usual_s < _SHORT_S or self._asked % _TIMED == 0:
            return True
        return deadline_s - time.monotonic() < _AMPLE * usual_s

    @contextmanager
    def turn(self, options: ExecuteOptions) -> Iterator[None]:
        """Waits for the turn of an execution, which is the block.

        Raises:
            MissedDeadlineTransient, Cancelled: see `AdmissionQueue.acquire`.
        """
        queue = _queues.of(self._device)
        ticket = queue.acquire(
            self._priority, options.deadline_s, cancellation=options.cancellation, pace=self._pace
        )
        try:
            yield
        finally:
            ticket.note_end()
            queue.release(ticket)
