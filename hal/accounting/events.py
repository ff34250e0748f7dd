"""Counts and logs unusual events, such as fallbacks, refusals and deaths.

A line of the log says what happened, but at overload there is not one for each event; a metric says
how often.
"""

from collections import Counter
from collections.abc import Callable
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

#: Maximum number of reasons that an event counts on their own; further ones count as `other`.
#: Reasons may have names in them, and metrics keep every one for ever.
MAX_REASONS: Final = 64
_MAX_REASON_LENGTH: Final = 80


class CountedEvent(StrEnum):
    """A kind of event.

    Attributes:
        FALLBACK: the CPU device ran a step, or the whole model, instead of a device that failed; by
            device.
        SLOW_DEVICE: the CPU device runs a step for now, since its device has become slow; by
            device.
        WRONG_RESULT: the CPU device runs a step from now on, since its device has computed it
            wrong; by device.
        RECOVERY: a device that had failed or was slow runs its step again; by device.
        PLAN_CHANGE: the CPU device runs the model from now on, since it is faster than the plan.
        CACHE_MISS: a step was compiled although there is a cache; by reason.
        COMPILER_DEATH: a process that compiled models ended; by signal.
        DEADLINE: an execution or a request did not finish in time; by kind of error.
        REFUSAL: a daemon or the execution service refused work; by kind of error.
        UNTRUSTED: a client was refused since it did not prove who it is; by what was missing.
        BROKEN_PROTOCOL: a client was cut off since it broke the protocol.
        HANG: an execution was given up.
        WORKER_DEATH: a worker of a served model ended; by model.
        MODEL_GIVEN_UP: a model is not served any more, since its workers kept dying; by model.
        RESTART: the execution service ended, and is started again.
        POISON: operations are refused from now on, since they kill a driver; by driver.
    """

    FALLBACK = "fallback"
    SLOW_DEVICE = "slow_device"
    WRONG_RESULT = "wrong_result"
    RECOVERY = "recovery"
    PLAN_CHANGE = "plan_change"
    CACHE_MISS = "cache_miss"
    COMPILER_DEATH = "compiler_death"
    DEADLINE = "deadline"
    REFUSAL = "refusal"
    UNTRUSTED = "untrusted"
    BROKEN_PROTOCOL = "broken_protocol"
    HANG = "hang"
    WORKER_DEATH = "worker_death"
    MODEL_GIVEN_UP = "model_given_up"
    RESTART = "restart"
    POISON = "poison"


_lock = forkable_lock()
_counts: Counter[tuple[CountedEvent, str]] = Counter()

_DEADLINES = (MissedDeadlineTransient, MissedDeadlinePersistent)
_REFUSALS = (ResourceExhaustedTransient, ResourceExhaustedPersistent, UnavailableDevice, DeadObject)


def note_event(
    event: CountedEvent, reason: str, log: Callable[..., object], message: str, *arguments: object
) -> None:
    """Counts an event and logs it.

    Args:
        event: what happened.
        reason: one of few, for the metric; empty if there is only one.
        log: a method of a logger, such as `logger.warning`; of one whose rate is limited if
            strangers can cause the event as often as they like.
        message, arguments: the line of the log.
    """
    log(message, *arguments)
    reason = reason[:_MAX_REASON_LENGTH]
    with _lock:
        if (event, reason) not in _counts and sum(each is event for each, _ in _counts) >= MAX_REASONS:
            reason = "other"
        _counts[event, reason] += 1


def event_of(error: Error) -> CountedEvent | None:
    """Returns what an error that a daemon answers with counts as.

    None unless it is about time or refused work.
    """
    if isinstance(error, _DEADLINES):
        return CountedEvent.DEADLINE
    return CountedEvent.REFUSAL if isinstance(error, _REFUSALS) else None


def event_counts() -> dict[tuple[CountedEvent, str], int]:
    """Returns how often each event happened for each reason since the process started."""
    with _lock:
        return dict(_counts)
