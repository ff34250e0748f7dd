"""The garbage collector of Python, put off while much is made that stays."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

from neurald.hal.process.fork import forkable_lock

_lock = forkable_lock()
#: How many want it put off, and whether it was on before the first of them.
_state = {"count": 0, "was_on": False}


@contextmanager
def put_off() -> Iterator[None]:
    """Looks for no cycles meanwhile: compilers make hundreds of thousands of objects, and hardly any cycle.

    Threads may do so at the same time; the last one leaves the collector as the first one has found it.
    """
    with _lock:
        if not _state["count"]:
            _state["was_on"] = gc.isenabled()
            gc.disable()
        _state["count"] += 1
    try:
        yield
    finally:
        with _lock:
            # In a child of a fork it is 0 already.
            if _state["count"]:
                _state["count"] -= 1
                if not _state["count"] and _state["was_on"]:
                    gc.enable()


def _in_child() -> None:
    """Looks for cycles again: the threads that put it off are not in a child of a fork."""
    if _state["count"] and _state["was_on"]:
        gc.enable()
    _state["count"] = 0


os.register_at_fork(after_in_child=_in_child)
