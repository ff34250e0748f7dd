"""The CPU's code in place of a step's device: code that is ready at once, then better code."""

import logging
import weakref
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from neurald.hal.device import PreparedModel
from neurald.hal.errors import Error
from neurald.hal.process.fork import forkable_lock
from neurald.hal.sync.cancellation import Cancellation
from neurald.runtime.devices.local import cpu_device
from neurald.runtime.execution.lanes import lane
from neurald.runtime.execution.recovery.retry import tried_again
from neurald.runtime.plan.plan import ExecutionStep
from neurald.runtime.plan.preparer import Preparer

if TYPE_CHECKING:
    from neurald.hal.execution.background_worker import SubmittedWork

logger = logging.getLogger(__name__)


class StandIn:
    """A step as the CPU device has prepared it, in place of its own device. Thread-safe.

    It stays prepared, so that the next failure of the device costs no compilation.

    Args:
        step: a step of a device other than the CPU device.
        preparer: prepares it.
    """

    def __init__(self, step: ExecutionStep, preparer: Preparer) -> None:
        self._step = step
        self._preparer = preparer
        self._lock = forkable_lock()
        #: Held while the CPU compiles; not by executions, which must not wait for that.
        self._compiling = forkable_lock()
        self._optimized: PreparedModel | None = None
        #: The code that the CPU runs until it has compiled the step.
        self._first_tier: PreparedModel | None = None
        self._work: SubmittedWork | None = None

    @property
    def constant_bytes(self) -> int:
        """The size of the step's constants, of which compiled code may have copies."""
        return sum(pool.size for pool in self._step.model.pools)

    @property
    def is_optimized(self) -> bool:
        """True if the CPU has compiled the step."""
        return self._optimized is not None

    def at_once(self, deadline_s: float | None = None) -> PreparedModel:
        """Returns the step's first tier until the CPU has compiled the step in the background.

        Args:
            deadline_s: the deadline of its run, on the clock of `time.monotonic()`; None for none.

        Raises:
            Error: the CPU cannot prepare it.
        """
        work = self._work
        if work is not None and not work.give_way(deadline_s):
            self._work = None
            if work.is_lost and self._optimized is None:
                self.optimize_in_background()
        known = self._optimized or self._first_tier
        if known is not None:
            return known
        with self._lock:
            known = self._optimized or self._first_tier
            if known is not None:
                return known
            prepared = self._preparer.at_once().prepare(cpu_device(), self._step.model)
            if not prepared.is_first_tier:
                self._optimized = prepared.prepared_model
                return self._optimized
            self._first_tier = prepared.prepared_model
        self.optimize_in_background()
        return prepared.prepared_model

    def optimized(self) -> PreparedModel:
        """Returns the compiled step, and compiles it if necessary.

        Raises:
            Error: the CPU cannot compile it.
        """
        return self._compiled(self._preparer)

    def _compiled(self, preparer: Preparer) -> PreparedModel:
        with self._compiling:
            if self._optimized is None:
                prepared_model = preparer.prepare(cpu_device(), self._step.model).prepared_model
                with self._lock:
                    self._optimized = prepared_model
                    self._first_tier = None
            return self._optimized

    def optimize_in_background(self, then: Callable[[], None] | None = None) -> None:
        """Compiles the step in the background, unless this object is gone by then.

        Args:
            then: the function that is called when it is compiled; it must not refer to this object.
        """
        self._work = lane("stand-ins").submit(partial(_optimize, weakref.ref(self), then))

    def optimize_early(self) -> None:
        """Compiles the step in the background, with low priority, in case it is needed."""
        lane("early stand-ins").submit(partial(_optimize_early, weakref.ref(self)))


def _optimize(
    reference: "weakref.ref[StandIn]", then: Callable[[], None] | None, cancellation: Cancellation
) -> None:
    if _has_optimized(reference, cancellation, is_early=False) and then is not None:
        then()


def _optimize_early(reference: "weakref.ref[StandIn]", cancellation: Cancellation) -> None:
    _has_optimized(reference, cancellation, is_early=True)


def _has_optimized(reference: "weakref.ref[StandIn]", cancellation: Cancellation, *, is_early: bool) -> bool:
    """Compiles a step unless its object is gone; returns False if it is, or if that fails.

    Args:
        reference: the object, which pauses between tries do not keep alive.
        cancellation: ends the pauses, and what is early.
        is_early: whether executions do not need it yet, so that it has low priority.
    """

    def compile_it() -> bool:
        stand_in = reference()
        if stand_in is None:
            return False
        preparer = stand_in._preparer
        stand_in._compiled(preparer.in_background(cancellation) if is_early else preparer)
        return True

    try:
        return tried_again(compile_it, cancellation)
    except Error as error:
        stand_in = reference()
        if stand_in is not None:
            logger.warning("the CPU cannot stand in for %s: %s", stand_in._step.device.name, error)
        return False
