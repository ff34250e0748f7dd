"""Learns whether a device runs executions at the same time, or only one after another."""

from typing import Final

#: The weight of the latest execution that began beside others.
_WEIGHT: Final = 0.25
#: By how much each execution that ran alone weakens what was learned, so that some run beside each
#: other again after 450.
_FORGETTING: Final = 0.9995
#: After an execution that began beside others and was late, this many run alone, but not more often
#: than after this many.
_TRIALS: Final = 2
_BETWEEN_TRIALS: Final = 16
#: Executions run one after another if each delays the next ones by this share of its time.
_SERIAL: Final = 0.8
#: What others have left says nothing if it is less than this share of an execution.
_MIN_LEFT: Final = 0.2


class Overlap:
    """Measures how much executions of a device delay each other. Its user has a lock.

    A driver says how many executions it takes at once, and not how many of them its device runs.
    How long one takes that is alone must be known; without a pause between them, none would be. So
    if executions are late, a few run alone.
    """

    def __init__(self) -> None:
        self._delay = 0.0
        self._trials = 0
        self._since_trials = 0

    @property
    def is_serial(self) -> bool:
        """True if the device runs one execution after another, or if one is to run alone."""
        return self._delay > _SERIAL or self._trials > 0

    def add(
        self, slowdown: float | None, beside: int, *, left: float | None = None, is_late: bool = False
    ) -> None:
        """Adds an execution.

        Args:
            slowdown: its time, in relation to that of one which is alone; None if that is not
                known.
            beside: how many executions ran when it began.
            left: how much of these was left then, about, where one of them counts as 1; None if
                that is not known. A late execution that waited for the rest of another one shows
                that they run one after another, however short the rest was.
            is_late: whether its deadline had passed when it ended.
        """
        self._since_trials += 1
        if not beside:
            self._delay *= _FORGETTING
            self._trials = max(0, self._trials - 1)
            return
        if is_late and self._since_trials >= _BETWEEN_TRIALS:
            self._trials, self._since_trials = _TRIALS, 0
        if slowdown is None:
            return
        others = left if is_late and left is not None and left >= _MIN_LEFT else beside
        delay = min(1.0, max(0.0, (slowdown - 1.0) / others))
        self._delay += _WEIGHT * (delay - self._delay)
        if self._delay > _SERIAL:
            self._delay = 1.0  # so that it is not forgotten soon
