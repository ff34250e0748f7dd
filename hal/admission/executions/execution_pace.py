"""Estimates the time of executions, so that those that cannot end in time are refused."""

from typing import Final

from neurald.hal.process.fork import forkable_lock

#: The weights of the latest execution in the mean and in the mean deviation.
_MEAN: Final = 0.125
_DEVIATION: Final = 0.25
#: This many deviations above the mean are expected.
_DEVIATIONS: Final = 2.0
#: The weight of an execution that ran alone and took longer than others that did. A shorter one
#: counts at once.
_LONGER_ALONE: Final = 0.02
#: An execution counts as late if it ended with less than this share of its time to spare: its
#: client has to get the result. The margin grows by a share of the time then, up to another one,
#: and shrinks with each that is not late.
_SPARE: Final = 0.03
_MARGIN_GROWTH: Final = 0.1
_MAX_MARGIN: Final = 0.5
_MARGIN_SHRINKING: Final = 0.98
#: Each refusal shrinks the estimate, so that one which is too large does not last.
_SHRINKING: Final = 0.98


class ExecutionPace:
    """Estimates the time of a model's executions, as TCP does that of round trips. Thread-safe."""

    def __init__(self) -> None:
        self._lock = forkable_lock()
        self._mean_s = 0.0
        self._deviation_s = 0.0
        self._alone_s = 0.0
        self._margin_s = 0.0

    @property
    def mean_s(self) -> float:
        """The time that an execution takes on average; 0 if nothing is known."""
        return self._mean_s

    @property
    def alone_s(self) -> float:
        """About the shortest time of executions that ran alone; 0 if none has."""
        return self._alone_s

    @property
    def expected_s(self) -> float:
        """The time that an execution probably takes at most; 0 if nothing is known."""
        return self._mean_s + _DEVIATIONS * self._deviation_s + self._margin_s

    def add(self, seconds: float, beside: int = 0, spare_s: float | None = None) -> None:
        """Adds an execution that has ended.

        Args:
            seconds: how long it took.
            beside: how many executions ran when it began.
            spare_s: how long before its deadline it ended; None without a deadline.
        """
        with self._lock:
            if spare_s is not None:
                if spare_s < _SPARE * seconds:
                    longest_s = _MAX_MARGIN * seconds
                    self._margin_s = min(self._margin_s + _MARGIN_GROWTH * seconds, longest_s)
                else:
                    self._margin_s *= _MARGIN_SHRINKING
            if not beside:
                longer_s = seconds - self._alone_s
                is_shorter = longer_s < 0 or not self._alone_s
                self._alone_s = seconds if is_shorter else self._alone_s + _LONGER_ALONE * longer_s
            if not self._mean_s:
                self._mean_s = seconds
                return
            error = seconds - self._mean_s
            self._mean_s += _MEAN * error
            self._deviation_s += _DEVIATION * (abs(error) - self._deviation_s)

    def refused(self) -> None:
        """Notes that an execution was refused because of the estimate."""
        with self._lock:
            self._mean_s *= _SHRINKING
            self._deviation_s *= _SHRINKING
            self._margin_s *= _SHRINKING
