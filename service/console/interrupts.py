"""Ctrl-C that waits for the end of an import.

Python may leave a module locked, or half made, if an exception is raised while the module is
imported. Other threads that import it then wait for ever, and so does the end of the process.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found] # `signal` takes longer than all others here
import _thread
import os
import time

TYPE_CHECKING = False  # That of `typing` takes longer still.
if TYPE_CHECKING:
    from types import FrameType
    from typing import Final

#: How often it is looked whether the import has ended, and how long an import may hold up Ctrl-C.
_PAUSE_S: Final = 0.01
_MAX_IMPORT_S: Final = 5.0
#: The files of the frames that import, as they name themselves.
_IMPORTING: Final = "<frozen importlib"

_first_s = 0.0


def interrupt_after_imports() -> None:
    """Makes Ctrl-C wait for imports from now on, unless it is ignored or handled already."""
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _interrupted)


def interrupt_soon() -> None:
    """Repeats Ctrl-C in a moment. Signal handlers and finalizers may call this."""
    # `threading` takes locks, which the interrupted code may hold.
    _thread.start_new_thread(_interrupt_later, ())


def _interrupt_later() -> None:
    time.sleep(_PAUSE_S)
    os.kill(os.getpid(), _signal.SIGINT)


def _interrupted(number: int, frame: FrameType | None) -> None:
    global _first_s
    now = time.monotonic()
    if _is_importing(frame):
        _first_s = _first_s or now
        if now - _first_s < _MAX_IMPORT_S:
            interrupt_soon()
            return
    _first_s = 0.0
    _signal.default_int_handler(number, frame)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith(_IMPORTING):
            return True
        frame = frame.f_back
    return False
