"""Learns whether a device runs executions at the same time, or only one after another."""

from typing import Final

#: The weight of the latest execution that began beside others.
_WEIGHT: Final = 0.125
#: By how much each execution that ran alone weakens what was learned, so that it is tried again.
_FORGETTING: Final = 0.9995
#: Executions run one after another if each delays the next ones by this share of its time.
_SERIAL: Final = 0.8


class Overlap:
    """How much executions of a device delay each other. Its user has a lock.

    A driver says how many executions it takes at once, and not how many of them its device runs.
    """

    def __init__(self) -> None:
        self._delay = 0.0

    @property
    def is_serial(self) -> bool:
        """True if the device runs one execution after another, however many it takes."""
        return self._delay > _SERIAL

    def add(self, slowdown: float, beside: int) -> None:
        """Adds an execution.

        Args:
            slowdown: its time, in relation to that of one which is alone.
            beside: how many executions ran when it began.
        """
        if not beside:
            self._delay *= _FORGETTING
            return
        delay = min(1.0, max(0.0, (slowdown - 1.0) / beside))
        self._delay += _WEIGHT * (delay - self._delay)
