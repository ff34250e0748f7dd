"""Measures what the runtime itself needs for each step of a plan, around the call of its device.

Executions of plans whose steps run one after another are measured as a whole, and without the calls
of their devices. As with the times of steps, the first ones are left out, and the shortest count,
whenever the number of executions is a power of two. Plans that copy values between memories tell
nothing, since that takes as long as the values are large.
"""

import math
import threading
import time
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from neurald.hal.device import Device
from neurald.runtime.costs.store import costs_of
from neurald.runtime.plan.plan import CompoundBody, ExecutionStep

_FIRST_RUNS: Final = 2
#: A longer time is not that of the runtime: the execution was interrupted, or it copied.
_MAX_STEP_S: Final = 1e-3


class _Calls(threading.local):
    """The calls of devices by this thread so far: how many there were, and how long they took."""

    count = 0
    seconds = 0.0


_calls: Final = _Calls()


def note_call(seconds: float) -> None:
    """Notes how long the device of a step took for a call by this thread."""
    _calls.count += 1
    _calls.seconds += seconds


class Begin(Struct, frozen=True, array_like=True):
    """The time when an execution began, and the calls of its thread before that."""

    started_s: float
    count: int
    seconds: float


class StepOverhead:
    """Collects the times of one plan. Races between threads only lose a measurement.

    Args:
        body: the body of the plan.
    """

    def __init__(self, body: CompoundBody) -> None:
        self._is_measurable = (
            not body.waits_for
            and not body.shared
            and all(isinstance(step, ExecutionStep) for step in body.program)
        )
        self._count = len(body.steps)
        self._devices: Sequence[Device] = list({id(step.device): step.device for step in body.steps}.values())
        self._runs = 0
        self._shortest_s = math.inf

    def begin(self) -> Begin | None:
        """Notes the begin of an execution by this thread."""
        return Begin(time.perf_counter(), _calls.count, _calls.seconds) if self._is_measurable else None

    def step_s(self, begin: Begin | None) -> float | None:
        """Returns what each step of an execution has taken since its begin; None if unknown."""
        # What runs in place of a device is not a call of it.
        if begin is None or _calls.count - begin.count != self._count:
            return None
        passed_s = time.perf_counter() - begin.started_s
        return (passed_s - (_calls.seconds - begin.seconds)) / self._count

    def end(self, begin: Begin | None) -> None:
        """Notes the end of an execution of this thread."""
        seconds = self.step_s(begin)
        self._runs = runs = self._runs + 1
        if seconds is None or runs <= _FIRST_RUNS:
            return
        shortest_s = self._shortest_s = min(self._shortest_s, seconds)
        if not runs & (runs - 1):
            self._shortest_s = math.inf
            if shortest_s < _MAX_STEP_S:
                for device in self._devices:
                    costs_of(device).observe_step(shortest_s)
