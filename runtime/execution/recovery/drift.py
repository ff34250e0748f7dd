"""Notices that a device has become much slower than it was, for example because it throttles.

The first runs of a step tell its usual time and by how much its times vary. Later runs are tested
by a cumulative sum: each adds how much closer its logarithm is to twice the usual time than to the
usual one, at most half of that factor, so that single long runs count no more than others. If the
sum has become large, over at least 0.2 seconds of work, and the latest runs take at least 1.6 times
as long as usual, the device has become slow. If times vary little, four runs are enough, or as many
as take 0.6 seconds, or would at twice the usual time, but at least two: one run may be long for any
reason. If times vary much, more are needed, so that a device whose times always vary does not count
as slow.

The first runs may be long or vary because of what else the machine does then. The usual time is
learned again from runs that are much shorter, or vary much less.

The CPU device then stands in, as soon as it has compiled the step, and the device gets a run after
a pause that doubles with every run that is still slow. If the CPU device is even slower, the device
goes on, and its time is the usual one from then on.
"""

import math
from collections import deque
from typing import Final

from neurald.hal.model.model import Model
from neurald.hal.model.types import value_size
from neurald.hal.wording import milliseconds
from neurald.runtime.costs.slowness import set_slowness
from neurald.runtime.execution.medians import low_median, median
from neurald.runtime.model.branches import is_control_flow

#: The factor by which a device becomes slow: twice, as a logarithm.
_STEP: Final = math.log(2.0)
#: The factor by which the latest runs must be longer than usual.
_SLOW: Final = 1.6
#: A run within this factor of the usual time counts as usual again.
BACK: Final = 1.4
_COLD_RUNS: Final = 2
#: After this many runs the usual time is known; it becomes more exact with more of them.
_USUAL_RUNS: Final = 8
_MAX_USUAL_RUNS: Final = 32
#: From this many runs the usual time may be learned again, if they are shorter by this factor, as a
#: logarithm, and by more than times vary, or if they vary this many times less.
_BLOCK_RUNS: Final = 32
_SHORTER: Final = math.log(1.25)
_CALMER: Final = 3.0
_LATEST_RUNS: Final = 4
_MIN_WORK_S: Final = 0.2
#: If fewer runs than the latest ones take this long, or would at twice the usual time, they are
#: enough.
_ENOUGH_WORK_S: Final = 0.6
_MIN_RUNS: Final = 2
#: The number of runs of twice the usual time by which the sum may be smaller than that of the runs
#: that are enough, which vary a little.
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
        #: Logarithms of the times of the first runs, and of later ones.
        self._first: list[float] = []
        self._block: list[float] = []
        self._usual = 0.0
        self._deviation = 0.0
        #: The sums from which as many runs as usual show slowness, and from which the fewest do.
        self._limit = self._least_limit = math.inf
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
        self._renew(logarithm)
        self._latest.append(seconds)
        excess = logarithm - self._usual - _STEP / 2
        self._sum = max(0.0, self._sum + max(-_STEP / 2, min(_STEP / 2, excess)))
        if not self._sum:
            self._slow_work_s = 0.0
            return False
        self._slow_work_s += seconds
        if self.is_slow or self._sum < self._least_limit or self._slow_work_s < _MIN_WORK_S:
            return False
        latest = self._long_ones() if self._sum < self._limit else self._latest
        slow_s = low_median(latest) if latest else 0.0
        if slow_s <= _SLOW * self._usual_s:
            return False
        self.is_slow = True
        self.reason = f"it has become slow: {milliseconds(slow_s)} instead of {milliseconds(self._usual_s)}"
        set_slowness(self._device, slow_s / self._usual_s)
        return True

    def _long_ones(self) -> list[float]:
        """Returns the latest runs if fewer than usual are enough, and the one before; else none."""
        latest, work_s = list(self._latest), 0.0
        for runs in range(1, len(latest)):
            work_s += latest[-runs]
            if runs >= _MIN_RUNS and work_s >= _ENOUGH_WORK_S:
                return latest[-runs - 1 :] if self._sum >= _limit(runs, self._deviation) else []
        return []

    def _learn(self, logarithm: float) -> None:
        """Adds one of the first runs, and finds out what is usual."""
        self._first.append(logarithm)
        if len(self._first) >= _USUAL_RUNS:
            self._use(*_spread(self._first))

    def _renew(self, logarithm: float) -> None:
        """Adds a later run. Learns the usual time again if the latest are shorter or vary less."""
        self._block.append(logarithm)
        if len(self._block) < _BLOCK_RUNS:
            return
        usual, deviation = _spread(self._block)
        if usual < self._usual - max(_SHORTER, self._deviation) or (
            not self._sum and deviation < self._deviation / _CALMER
        ):
            self._use(usual, deviation)
        self._block.clear()

    def _use(self, usual: float, deviation: float) -> None:
        self._usual, self._deviation = usual, deviation
        runs = max(_MIN_RUNS, min(_LATEST_RUNS, math.ceil(_ENOUGH_WORK_S / (2 * self._usual_s))))
        self._limit, self._least_limit = (_limit(each, deviation) for each in (runs, _MIN_RUNS))
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


def _spread(logarithms: list[float]) -> tuple[float, float]:
    """Returns the median of logarithms, and their standard deviation as far as outliers allow."""
    middle = median(logarithms)
    return middle, median(abs(each - middle) for each in logarithms) * 1.48


def _limit(runs: int, deviation: float) -> float:
    """Returns the limit of the sum if this many runs are enough when times vary little."""
    calm = _CALM * math.sqrt(runs / _LATEST_RUNS)
    return (runs - _MARGIN_RUNS) * _STEP / 2 * max(1.0, (deviation / calm) ** 2)


def may_be_watched(model: Model) -> bool:
    """Returns True if every run of a model takes about the same time, as far as can be known."""
    graph = model.main
    return not any(is_control_flow(operation) for operation in graph.operations) and all(
        value_size(graph.operands[n].type, graph.operands[n].dimensions) is not None
        for n in (*graph.inputs, *graph.outputs)
    )
