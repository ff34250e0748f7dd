"""Pauses Python's cyclic garbage collector while many long-lived objects are created."""

import gc
from typing import Final

from neurald.hal.process.fork import forkable_lock, in_each_child

_lock = forkable_lock()
#: Number of active pauses, whether the collector was enabled before the first, and how many objects
#: have become old without being examined.
_state = {"count": 0, "was_enabled": False, "unexamined": 0}
#: After this many of them, all objects are examined. A model has some thousands.
_MAX_UNEXAMINED: Final = 200_000


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
        generation = None
        with _lock:
            # `_resume_in_child` has reset the count in a forked child.
            if _state["count"]:
                _state["count"] -= 1
                if not _state["count"] and _state["was_enabled"]:
                    generation = _resume()
        # Without the lock: finalizers may pause the collector, too.
        if generation is not None:
            gc.collect(generation)


def _resume() -> int | None:
    """Enables the collector; returns the generation to collect now, if any.

    What was created lasts, so it becomes old without being examined, which would take a tenth of
    the first start in a process. Python examines old objects only after many young ones, so all are
    examined now after some pauses.
    """
    young, generation = gc.get_count()[0], None
    if young > gc.get_threshold()[0] > 0:
        _state["unexamined"] += young
        if _state["unexamined"] > _MAX_UNEXAMINED:
            _state["unexamined"], generation = 0, 2
        elif gc.get_freeze_count():
            # Objects that the application has frozen must not be thawed with the others.
            generation = 1
        else:
            gc.freeze()
            gc.unfreeze()
    gc.enable()
    return generation


def _resume_in_child() -> None:
    """Resumes collection in a forked child, where the pausing threads do not exist."""
    if _state["count"] and _state["was_enabled"]:
        gc.enable()
    _state["count"] = 0


in_each_child(_resume_in_child)
