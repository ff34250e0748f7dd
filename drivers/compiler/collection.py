"""The garbage collector of Python, put off while much is made that stays."""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
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
            _state["count"] -= 1
            if not _state["count"] and _state["was_on"]:
                gc.enable()
