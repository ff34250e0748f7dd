"""Lanes of work in the background: each is a thread that does one piece after another."""

from typing import TYPE_CHECKING, Final

from neurald.hal.process.fork import forkable_lock

if TYPE_CHECKING:
    from neurald.hal.execution.background_worker import BackgroundWorker

_lock: Final = forkable_lock()
_lanes: "Final[dict[str, BackgroundWorker]]" = {}


def lane(name: str) -> "BackgroundWorker":
    """Returns the lane of a device or another kind of work for all compilations in here."""
    with _lock:
        found = _lanes.get(name)
        if found is None:
            from neurald.hal.execution.background_worker import BackgroundWorker  # slow to import

            found = _lanes[name] = BackgroundWorker(max_waiting=0)
        return found
