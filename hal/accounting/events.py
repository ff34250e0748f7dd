"""Counts what went differently from what was hoped for, for metrics.

The log has lines about them, which say what happened, but not one for each at overload; a metric
says how often.
"""

from collections import Counter
from enum import StrEnum
from typing import Final

from neurald.hal.errors import (
    DeadObject,
    Error,
    MissedDeadlinePersistent,
    MissedDeadlineTransient,
    ResourceExhaustedPersistent,
    ResourceExhaustedTransient,
    UnavailableDevice,
)
from neurald.hal.process.fork import forkable_lock

#: Most reasons of one event that are counted on their own; further ones count as `other`. Reasons
#: may have names in them, and metrics keep every one for ever.
MAX_REASONS: Final = 64
_MAX_REASON_LENGTH: Final = 80


class CountedEvent(StrEnum):
    """A kind of event that is counted.

    FALLBACK: the CPU device ran a step, or the whole model, instead of a device that failed; by
    device. CACHE_MISS: a step was compiled although there is a cache; by reason. DEADLINE: an
    execution did not finish in time, and REFUSAL: a daemon refused work; by kind of error. HANG: an
    execution was given up.
    """

    FALLBACK = "fallback"
    CACHE_MISS = "cache_miss"
    DEADLINE = "deadline"
    REFUSAL = "refusal"
    HANG = "hang"


_lock = forkable_lock()
_counts: Counter[tuple[CountedEvent, str]] = Counter()

_DEADLINES = (MissedDeadlineTransient, MissedDeadlinePersistent)
_REFUSALS = (ResourceExhaustedTransient, ResourceExhaustedPersistent, UnavailableDevice, DeadObject)


def count_event(event: CountedEvent, reason: str = "") -> None:
    """Counts an event.

    Args:
        event: what happened.
        reason: one of few.
    """
    reason = reason[:_MAX_REASON_LENGTH]
    with _lock:
        if (event, reason) not in _counts and sum(each is event for each, _ in _counts) >= MAX_REASONS:
            reason = "other"
        _counts[event, reason] += 1


def count_failure(error: Error) -> CountedEvent | None:
    """Counts an error that a daemon answers with, if it is about time or refused work.

    Returns:
        What it counts as; None if it is not counted.
    """
    if isinstance(error, _DEADLINES):
        event = CountedEvent.DEADLINE
    elif isinstance(error, _REFUSALS):
        event = CountedEvent.REFUSAL
    else:
        return None
    count_event(event, type(error).__name__)
    return event


def event_counts() -> dict[tuple[CountedEvent, str], int]:
    """Returns how often each event happened for each reason since the process started."""
    with _lock:
        return dict(_counts)
