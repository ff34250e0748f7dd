"""Tries preparations in the background again after errors that may pass."""

import threading
from collections.abc import Callable
from typing import Final, TypeVar

from neurald.hal.errors import DeadObject, Error, OpFailed, OutOfMemory, ResourceExhaustedTransient
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.sync.interpreter_turns import turns

_T = TypeVar("_T")

#: Number of times that a preparation is tried again after the process that did it has ended.
_RETRIES: Final = 1
#: How long to wait, in seconds, before each further try of a preparation that lacked memory,
#: threads or descriptors, which others may soon give back.
_PAUSES_S: Final = (0.2, 1.0, 5.0)


def tried_again(prepare: Callable[[], _T], cancellation: Cancellation) -> _T:
    """Returns what a preparation returns, which is tried again while that may help.

    Args:
        prepare: prepares; may be called several times.
        cancellation: ends the pauses between the tries.

    Raises:
        Error: the last error.
    """
    ended, lacking = iter((0.0,) * _RETRIES), iter(_PAUSES_S)
    while True:
        try:
            return prepare()
        except Error as error:
            pause_s: float | None = None  # until the next try, if there is one
            if isinstance(error, OutOfMemory | ResourceExhaustedTransient):
                pause_s = next(lacking, None)
            elif isinstance(error, DeadObject | OpFailed):
                pause_s = next(ended, None)
            if pause_s is None or _is_cancelled_within(cancellation, pause_s):
                raise


def _is_cancelled_within(cancellation: Cancellation, pause_s: float) -> bool:
    """Waits for a time; returns early, and True, if the work is cancelled."""
    is_over = threading.Event()
    with turns.waiting(), cancellation.calling(is_over.set):
        is_over.wait(pause_s)
    return cancellation.is_cancelled
