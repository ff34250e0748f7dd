"""Pauses Python's cyclic garbage collector while many long-lived objects are created."""

import gc
import os

from neurald.hal.process.fork import forkable_lock

_lock = forkable_lock()
#: Number of active pauses, and whether the collector was enabled before the first.
_state = {"count": 0, "was_enabled": False}


class paused_gc:  # noqa: N801 - used like a function
    """Pauses garbage collection during the block.

    It would take time, but find few cycles in the objects of a compiler or of modules that are
    imported.

    Several threads may pause it at once. The last one restores the collector's original state.
    """

    __slots__ = ()

    def __enter__(self) -> None:
        with _lock:
            if not _state["count"]:
                _state["was_enabled"] = gc.isenabled()
                gc.disable()
            _state["count"] += 1

    def __exit__(self, *_: object) -> None:
        is_due = False
        with _lock:
            # `_resume_in_child` has reset the count in a forked child.
            if _state["count"]:
                _state["count"] -= 1
                if not _state["count"] and _state["was_enabled"]:
                    is_due = _resume()
        # What the pause has put off is done at once, but without the lock: finalizers may pause the
        # collector, too. What was created lasts, so it becomes old in a single step. Otherwise it
        # would be examined now and once more soon, which takes 1.5 ms after the imports of a start.
        if is_due:
            gc.collect(1)


def _resume() -> bool:
    """Enables the collector; returns True if the pause has put a collection off."""
    is_due = gc.get_count()[0] > gc.get_threshold()[0] > 0
    gc.enable()
    return is_due


def _resume_in_child() -> None:
    """Resumes collection in a forked child, where the pausing threads do not exist."""
    if _state["count"] and _state["was_enabled"]:
        gc.enable()
    _state["count"] = 0


os.register_at_fork(after_in_child=_resume_in_child)
