"""Progress of long work: the thread that works reports it to listeners.

The listener is part of the context of the thread that does the work, so that the layers in between
need not pass it on.
"""

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TypeAlias

#: Is called with the share of the work that is done, from 0 to 1. Must return soon.
ProgressListener: TypeAlias = Callable[[float], None]

_listener: ContextVar[ProgressListener | None] = ContextVar("neurald_progress", default=None)


def report_progress(share: float) -> None:
    """Tells the listener of this context, if there is one, which share of the work is done."""
    listener = _listener.get()
    if listener is not None:
        listener(min(1.0, max(0.0, share)))


@contextlib.contextmanager
def progress_to(listener: ProgressListener) -> Iterator[None]:
    """Sends what is reported within the block to a listener, besides those of outer blocks."""
    outer = _listener.get()

    def both(share: float) -> None:
        listener(share)
        if outer is not None:
            outer(share)

    token = _listener.set(both)
    try:
        yield
    finally:
        _listener.reset(token)
