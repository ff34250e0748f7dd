"""Runs of lanes that native code of a driver serves, see `neurald.hal.execution.native_serving`."""

import logging
import socket
from typing import Final

from neurald.hal.admission.executions.native_gate import GatePlace, NativeShare
from neurald.hal.errors import DRIVER_FAULTS, Error
from neurald.hal.execution.native_serving import IDLE, NEEDS_INSTANCE, PYTHON, REPORT, NativeCall
from neurald.hal.lanes.repeats import SUBMISSION
from neurald.hal.process.threads.time_slices import AdaptiveSlices
from neurald.hal.rpc.server.native_ring import NativeRing
from neurald.hal.rpc.transport.ring_end import STORES_IN_ORDER, RingEnd
from neurald.hal.sync.cancellation import Cancellation
from neurald.service.inference.worker.native_lanes import NativeLanes
from neurald.service.inference.worker.runner import BoundRun

_LOG: Final = logging.getLogger(__name__)

#: Native code only serves runs that take less. Python takes a small part of the time of others.
_MAX_NATIVE_NS: Final = 10_000_000


class NativeLane:
    """The runs of one lane that native code serves. Only `cancel` may be called by other threads.

    Args:
        lanes: the lanes of the model.
        ring: the worker's end.
        end: its socket.
        spins: whether it polls for runs before it sleeps.
    """

    def __init__(self, lanes: NativeLanes, ring: RingEnd, end: socket.socket, *, spins: bool) -> None:
        self._lanes = lanes
        self._ring = ring
        self._end = end
        self._spins = spins
        self._share = NativeShare()
        self._activity = lanes.breadcrumbs.slot()
        self._cancellation = Cancellation()
        self._cancellation.watch(ring.cancelled_address, 0)
        self._runs: NativeRing | None = None
        self._reason = PYTHON
        #: The runs, by slot, that only Python can repeat, and how often it has done so since.
        self._refused: dict[int, tuple[BoundRun, int]] = {}

    @property
    def is_useful(self) -> bool:
        """True if there is an order that it may repeat."""
        return self._runs is not None and self._runs.is_useful

    @property
    def was_idle(self) -> bool:
        """True if the last `serve` ended because nothing was to do for a while."""
        return self._reason == IDLE

    def cancel(self) -> None:
        """Ends the run under way; native code serves none afterwards."""
        self._cancellation.cancel()

    def serve(self, slices: AdaptiveSlices) -> bool:
        """Serves the ring until Python is needed; returns whether an entry is left for it.

        Args:
            slices: the slices of the calling thread.
        """
        runs = self._runs
        if runs is None or not runs.is_useful:
            self._reason = PYTHON
            return True
        reason = REPORT
        while reason == REPORT:
            reason = runs.serve()
            slices.note_work(runs.last_run_s)
        self._reason = reason
        return reason in (PYTHON, NEEDS_INSTANCE) and self._ring.has_entry

    def let_run(self, slot: int, bound: BoundRun | None, run_ns: int) -> None:
        """Lets native code repeat an order that Python has repeated with the same answer.

        Args:
            slot: the slot of the order.
            bound: its run.
            run_ns: how long it took.
        """
        if bound is None or run_ns > _MAX_NATIVE_NS or not STORES_IN_ORDER:
            self.forget(slot)
            return
        runs = self._runs
        refused, times = self._refused.get(slot, (None, 0))
        times = times + 1 if refused is bound else 0
        try:
            if runs is not None and runs.may_run(slot):
                if self._reason == NEEDS_INSTANCE:
                    runs.grow(slot)
                return
            # It is tried again less and less often: optimised code may have replaced a first tier.
            call = None if times & (times + 1) else bound.create_native_call()
            if call is not None:
                call = call.for_ring(polls=self._spins)
            if runs is None and call is not None:
                runs = self._runs = self._new_runs(call)
        except Error:  # there is no memory for an instance, or no descriptor
            call = None
        except DRIVER_FAULTS as error:
            _LOG.error("native code cannot run a model", exc_info=error)
            call = None
        if call is None or runs is None:
            self._refused[slot] = bound, times
            return
        self._refused.pop(slot, None)
        runs.add(slot, SUBMISSION.pack(slot), call, (), bound.cut_notes, b"", bound)

    def forget(self, slot: int) -> None:
        """Stops native code from repeating the order of a slot."""
        self._refused.pop(slot, None)
        if self._runs is not None:
            self._runs.forget(slot)

    def clear(self) -> None:
        """Stops native code from repeating any order."""
        self._refused.clear()
        if self._runs is not None:
            self._runs.clear()

    def close(self) -> None:
        """Ends it, with its lane."""
        self.clear()
        self._lanes.breadcrumbs.give_back(self._activity)

    def _new_runs(self, call: NativeCall) -> NativeRing:
        lanes = self._lanes
        return NativeRing(
            call.functions,
            self._ring,
            self._end,
            self._cancellation,
            self._activity,
            GatePlace(gate=lanes.gate, user=lanes.share, client=self._share),
            tells_times=True,
            spins=self._spins,
        )
