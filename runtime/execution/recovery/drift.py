"""Notices that a device has become much slower than it was, for example because it throttles.

The first runs of a step tell its usual time and by how much its times vary. Later runs are tested
by a cumulative sum: each adds how much closer its logarithm is to twice the usual time than to the
usual one, at most half of that factor, so that single long runs count no more than others. If the
sum has become large, over at least 0.2 seconds of work, and the latest runs take at least 1.6 times
as long as usual, the device has become slow. If times vary little, four runs are enough, or as many
as take 0.6 seconds, but at least two: one run may be long for any reason. If times vary much, more
are needed, so that a device whose times always vary does not count as slow.

The CPU device then stands in, as soon as it has compiled the step, and the device gets a run after
a pause that doubles with every run that is still slow. If the CPU device is even slower, the device
goes on, and its time is the usual one from then on.
"""

import math
from collections import deque
from typing import Final

from neurald.hal.model.model import Model
from neurald.hal.model.types import value_size
from neurald.runtime.costs.slowness import set_slowness
from neurald.runtime.execution.medians import low_median, median
from neurald.runtime.model.branches import is_control_flow

#: The factor by which a device becomes slow: twice, as a logarithm.
_STEP: Final = math.log(2.0)
#: By which factor the latest runs must be longer than usual.
_SLOW: Final = 1.6
#: A run within this factor of the usual time counts as usual again.
BACK: Final = 1.4
_COLD_RUNS: Final = 2
#: After so many runs the usual time is known; it becomes more exact with more of them.
_USUAL_RUNS: Final = 8
_MAX_USUAL_RUNS: Final = 32
_LATEST_RUNS: Final = 4
_MIN_WORK_S: Final = 0.2
#: If fewer runs than the latest ones take so long when they are slow, they are enough.
_ENOUGH_WORK_S: Final = 0.6
_MIN_RUNS: Final = 2
#: By how many runs of twice the usual time the sum may be smaller than that of the runs that are
#: enough, which vary a little.
_MARGIN_RUNS: Final = 0.8
#: Up to this deviation of the logarithms of times, which is that of times that vary by a half, no
#: more than the latest runs are needed.
_CALM: Final = 0.35
#: From this part of the limit on, the sum says that the device may have become slow.
_SUSPECT: Final = 0.4


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
        #: Logarithms of the times of the first runs.
        self._first: list[float] = []
        self._usual = 0.0
        self._limit = math.inf
        self._sum = 0.0
        self._latest: deque[float] = deque(maxlen=_LATEST_RUNS)
        self._slow_work_s = 0.0
        self._stand_in: deque[float] = deque(maxlen=3)
        self.is_slow = False
        self.reason = ""

    @property
    def _usual_s(self) -> float:
        return math.exp(self._usual)

    @property
    def knows_usual(self) -> bool:
        """True if the first runs have told the usual time."""
        return len(self._first) >= _USUAL_RUNS

    @property
    def may_be_slow(self) -> bool:
        """True if a few more runs like the latest ones make the device count as slow."""
        return self._sum >= _SUSPECT * self._limit

    def add(self, seconds: float) -> bool:
        """Adds a run on the device. True if the device has become slow by it."""
        if self._cold:
            self._cold -= 1
            return False
        logarithm = math.log(max(seconds, 1e-9))
        if len(self._first) < _USUAL_RUNS or (not self._sum and len(self._first) < _MAX_USUAL_RUNS):
            self._learn(logarithm)
        if len(self._first) < _USUAL_RUNS:
            return False
        self._latest.append(seconds)
        excess = logarithm - self._usual - _STEP / 2
        self._sum = max(0.0, self._sum + max(-_STEP / 2, min(_STEP / 2, excess)))
        if not self._sum:
            self._slow_work_s = 0.0
            return False
        self._slow_work_s += seconds
        if self.is_slow or self._sum < self._limit or self._slow_work_s < _MIN_WORK_S:
            return False
        slow_s = low_median(self._latest)
        if slow_s <= _SLOW * self._usual_s:
            return False
        self.is_slow = True
        self.reason = f"it has become slow: {slow_s * 1e3:.3g} ms instead of {self._usual_s * 1e3:.3g} ms"
        set_slowness(self._device, slow_s / self._usual_s)
        return True

    def _learn(self, logarithm: float) -> None:
        """Adds one of the first runs, and finds out what is usual."""
        self._first.append(logarithm)
        if len(self._first) < _USUAL_RUNS:
            return
        self._usual = median(self._first)
        deviation = median(abs(each - self._usual) for each in self._first) * 1.48
        runs = max(_MIN_RUNS, min(_LATEST_RUNS, math.ceil(_ENOUGH_WORK_S / (2 * self._usual_s))))
        calm = _CALM * math.sqrt(runs / _LATEST_RUNS)
        self._limit = (runs - _MARGIN_RUNS) * _STEP / 2 * max(1.0, (deviation / calm) ** 2)
        if runs != self._latest.maxlen:
            self._latest = deque(self._latest, runs)

    def is_back(self, seconds: float) -> bool:
        """Returns True if a run shows that the device is as fast as usual again."""
        if seconds > BACK * self._usual_s:
            return False
        self._end()
        return True

    def stood_in(self, seconds: float) -> bool:
        """Adds a run of the CPU device.

        True if it is slower than the slow device, which then goes on.
        """
        self._stand_in.append(seconds)
        slow_s = low_median(self._latest) if self._latest else 0.0
        if len(self._stand_in) < 3 or low_median(self._stand_in) <= slow_s:
            return False
        self._usual = math.log(max(slow_s, 1e-9))
        self._end()
        return True

    def _end(self) -> None:
        self.is_slow = False
        self._slow_work_s = self._sum = 0.0
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
