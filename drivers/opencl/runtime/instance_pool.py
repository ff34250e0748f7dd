"""Lends the instances of a step to executions, which have limits of time."""

import time
from collections.abc import Callable
from typing import Generic, TypeAlias, TypeVar

from neurald.drivers.opencl.runtime.portions import Portions
from neurald.hal.errors import Cancelled, MissedDeadlineTransient
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.sync.lending_pool import LendingPool

_T = TypeVar("_T")
#: Runs an instance by commands that are divided, unless they are None, and asks whether to stop.
#: Returns the nanoseconds of its commands; None if it stopped.
Use: TypeAlias = Callable[[_T, Portions | None, Callable[[], bool]], int | None]

#: Concurrent executions, each with its own buffers; further ones wait in order of arrival.
_MAX_INSTANCES = 4


class InstancePool(Generic[_T]):
    """The instances of one step, and the executions that wait for one. Thread-safe.

    Args:
        first: the instances that exist from the start, at most one.
        make: makes another one.
        total_s: how long all commands take; 0 if that is not known.
    """

    def __init__(self, first: list[_T], make: Callable[[], _T], total_s: float = 0.0) -> None:
        self.instances = LendingPool(first, make, _MAX_INSTANCES)
        self._portions = Portions(total_s)
        self._ends = False

    def run(
        self, use: Use[_T], deadline_s: float | None = None, cancellation: Cancellation | None = None
    ) -> tuple[int, int]:
        """Runs an instance that no other execution uses.

        Returns the nanoseconds of its commands, and those spent waiting for other executions.

        Args:
            use: runs it.
            deadline_s: when to stop.
            cancellation: stops it.

        Raises:
            MissedDeadlineTransient: the deadline passed before the end.
            Cancelled: the execution was cancelled before the end, or the process exits.
            Error: the device failed.
        """

        def stops() -> bool:
            return (
                self._ends
                or (cancellation is not None and cancellation.is_cancelled)
                or (deadline_s is not None and time.monotonic() >= deadline_s)
            )

        asked = time.monotonic_ns()
        # A context manager would take longer.
        instance = self.instances.take(deadline_s, cancellation)
        try:
            queued_ns = time.monotonic_ns() - asked
            may_stop = deadline_s is not None or cancellation is not None
            elapsed_ns = use(instance, self._portions if may_stop else None, stops)
        finally:
            self.instances.give_back(instance)
        if elapsed_ns is None and cancellation is not None:
            cancellation.require_not_cancelled("between kernels")
        if elapsed_ns is None and self._ends:
            raise Cancelled("the process exits")
        if elapsed_ns is None or (deadline_s is not None and time.monotonic() >= deadline_s):
            raise MissedDeadlineTransient("the deadline passed while kernels were running")
        return elapsed_ns, queued_ns

    def stop(self, deadline_s: float) -> bool:
        """Stops all executions; returns whether that succeeded in time."""
        self._ends = True
        return self.instances.close(deadline_s, lambda: None)
