"""Ends the runs of callers who have left."""

import contextlib
import os
import select
import threading

from neurald.hal.process.threads.checked_thread import CheckedThread
from neurald.service.inference.worker.lane_server import LaneServer


class Leavers:
    """Watches lanes in one thread: one whose caller closes it has its run cancelled."""

    def __init__(self) -> None:
        self._lanes: dict[int, LaneServer] = {}
        self._poll = select.poll()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll.register(self._wake, select.POLLIN)
        self._lock = threading.Lock()
        self._is_running = False

    def watch(self, lane: LaneServer) -> None:
        """Watches a lane from now on, until it is closed.

        Raises:
            RuntimeError: no thread can be started. The lane is not watched.
        """
        # A duplicate, whose number is not used for something else when the lane is closed.
        descriptor = os.dup(lane.end.fileno())
        with self._lock:
            if not self._is_running:
                try:
                    CheckedThread(target=self._run, name="neurald leavers", daemon=True).start()
                except RuntimeError:
                    os.close(descriptor)
                    raise
                self._is_running = True
            self._lanes[descriptor] = lane
            self._poll.register(descriptor, select.POLLRDHUP)
        os.eventfd_write(self._wake, 1)

    def _run(self) -> None:
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor == self._wake:
                    with contextlib.suppress(BlockingIOError):
                        os.eventfd_read(self._wake)
                    continue
                with self._lock:
                    self._poll.unregister(descriptor)
                    lane = self._lanes.pop(descriptor)
                    os.close(descriptor)
                lane.hang_up()
