"""Ends executions before the interpreter exits.

Daemon threads may still execute models then. The interpreter frees the memory and code of models
under native code that does not need the interpreter to continue, and a thread that returns from
native code into the finished interpreter ends in the middle of it, which aborts the process if that
code is C++. Calls of these threads raise `Cancelled`, of which the threads then end without a word,
as other daemon threads do.
"""

import atexit
import threading
import time
import weakref
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from neurald.hal.errors import Cancelled

#: Time that an exiting process waits for executions of daemon threads, and for other native code
#: that they run.
MAX_EXIT_S: Final = 5.0


class Stoppable(Protocol):
    """An object whose executions can be ended."""

    def stop(self, deadline_s: float) -> None:
        """Ends the executions of other threads, and lets them begin no more.

        Memory that an execution may still use after the deadline must never be freed.

        Args:
            deadline_s: until when to wait, on the clock of `time.monotonic()`.
        """
        ...


_models: "weakref.WeakSet[Stoppable]" = weakref.WeakSet()
_is_exiting = threading.Event()


def stop_at_exit(model: Stoppable) -> None:
    """Ends a model's executions before the interpreter exits, if the model still exists.

    That happens before anything that was registered with `atexit` earlier, such as the end of the
    threads that the model uses. If it has happened, a model of another thread than the main one,
    which runs what else is registered, is stopped at once.
    """
    _models.add(model)
    if _is_exiting.is_set():
        if threading.current_thread() is not threading.main_thread():
            model.stop(time.monotonic())
        return
    atexit.unregister(_stop_all)
    atexit.register(_stop_all)


def _stop_all() -> None:
    if not _is_exiting.is_set():
        threading.excepthook = partial(_report, threading.excepthook)
    _is_exiting.set()
    deadline_s = time.monotonic() + MAX_EXIT_S
    for model in list(_models):
        model.stop(deadline_s)


def _report(report: Callable[[threading.ExceptHookArgs], object], ended: threading.ExceptHookArgs) -> None:
    """Reports what has ended a thread, unless it is the exit."""
    if not isinstance(ended.exc_value, Cancelled):
        report(ended)
