"""Notices that a device has become much slower than it was, for example because it throttles.

The usual time of a step is the shortest of its first runs. If all of its latest runs take nearly
twice as long, over at least 0.2 seconds of work, the device has become slow. The CPU device then
stands in, once it has prepared the step, and the device gets a run after a pause that doubles with
every run that is still slow. If the CPU device is even slower, the device goes on, and its time is
the usual one from then on.
"""

from collections import deque
from typing import Final

from neurald.hal.model.types import Model, value_size
from neurald.runtime.costs.slowness import set_slowness
from neurald.runtime.model.branches import is_control_flow

#: By which factor a run must be longer than usual to count as slow, and to count as usual again.
SLOW: Final = 1.8
BACK: Final = 1.4
_COLD_RUNS: Final = 2
_USUAL_RUNS: Final = 8
_LATEST_RUNS: Final = 4
_MIN_WORK_S: Final = 0.2


class DriftWatch:
    """The times of one step on its device. Races between threads only make it notice later.

    Args:
        device: name of the device.

    Attributes:
        is_slow: whether the device has become slow, and has not been found usual again.
        reason: why it is slow, with times.
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self._cold = _COLD_RUNS
        self._first: list[float] = []
        self._usual_s = 0.0
        self._latest: deque[float] = deque(maxlen=_LATEST_RUNS)
        self._slow_work_s = 0.0
        self._stand_in: deque[float] = deque(maxlen=3)
        self.is_slow = False
        self.reason = ""

    def add(self, seconds: float) -> bool:
        """Adds a run on the device. True if the device has become slow by it."""
        if self._cold:
            self._cold -= 1
            return False
        if not self._usual_s:
            self._first.append(seconds)
            if len(self._first) == _USUAL_RUNS:
                self._usual_s = min(self._first)
            return False
        self._latest.append(seconds)
        if seconds <= SLOW * self._usual_s:
            self._slow_work_s = 0.0
            return False
        self._slow_work_s += seconds
        is_long = len(self._latest) == _LATEST_RUNS and self._slow_work_s >= _MIN_WORK_S
        if self.is_slow or not is_long or min(self._latest) <= SLOW * self._usual_s:
            return False
        self.is_slow = True
        self.reason = (
            f"it has become slow: {min(self._latest) * 1e3:.3g} ms instead of {self._usual_s * 1e3:.3g} ms"
        )
        set_slowness(self._device, min(self._latest) / self._usual_s)
        return True

    def is_back(self, seconds: float) -> bool:
        """Returns True if a run shows that the device is as fast as usual again."""
        if seconds > BACK * self._usual_s:
            return False
        self._end()
        return True

    def stood_in(self, seconds: float) -> bool:
        """Adds a run of the CPU device. True if it is slower than the slow device, which then goes on."""
        self._stand_in.append(seconds)
        slow_s = min(self._latest, default=0.0)
        if len(self._stand_in) < 3 or min(self._stand_in) <= slow_s:
            return False
        self._usual_s = slow_s
        self._end()
        return True

    def _end(self) -> None:
        self.is_slow = False
        self._slow_work_s = 0.0
        self._latest.clear()
        self._stand_in.clear()
        set_slowness(self._device, 1.0)


def may_be_watched(model: Model) -> bool:
    """Returns True if every run of a model takes about the same time, as far as can be known."""
    graph = model.main
    return not any(is_control_flow(operation) for operation in graph.operations) and all(
        value_size(graph.operands[n].type, graph.operands[n].dimensions) is not None
        for n in (*graph.inputs, *graph.outputs)
    )
