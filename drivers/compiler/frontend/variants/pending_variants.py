"""Variants that one execution prepares, while others wait for them."""

import os
import threading
import time
from typing import Generic, TypeVar

from neurald.hal.device import ExecuteOptions
from neurald.hal.errors import MissedDeadlineTransient
from neurald.hal.process.fork import forkable_lock

_Key = TypeVar("_Key")

#: Interval at which an execution that waits for another one checks cancellation and deadline.
_POLL_S = 0.02


class PendingVariants(Generic[_Key]):
    """The things that executions prepare now, each only once. Thread-safe."""

    def __init__(self) -> None:
        self._lock = forkable_lock()
        self._process = os.getpid()
        self._pending: dict[_Key, threading.Event] = {}

    def __contains__(self, what: _Key) -> bool:
        return what in self._pending

    def begin(self, what: _Key, options: ExecuteOptions) -> bool:
        """Returns True if this execution is to prepare something; it calls `end` afterwards.

        If another one does, waits for it and returns False.

        Args:
            what: the thing to prepare.
            options: limit how long the execution waits.

        Raises:
            Cancelled: the waiting execution was cancelled.
            MissedDeadlineTransient: its deadline passed.
        """
        with self._lock:
            if self._process != os.getpid():
                # The threads that prepared something do not exist in a forked child.
                self._process = os.getpid()
                self._pending.clear()
            done = self._pending.get(what)
            if done is None:
                self._pending[what] = threading.Event()
                return True
        _wait(done, options)
        return False

    def end(self, what: _Key) -> None:
        """Lets the executions that wait for it go on."""
        with self._lock:
            self._pending.pop(what).set()


def _wait(done: threading.Event, options: ExecuteOptions) -> None:
    while not done.wait(_POLL_S):
        if options.cancellation is not None:
            options.cancellation.require_not_cancelled("while another one compiled")
        if options.deadline_s is not None and time.monotonic() >= options.deadline_s:
            raise MissedDeadlineTransient("the deadline passed while another execution compiled")
