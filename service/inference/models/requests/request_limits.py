"""Limits and priority of a request, as its parameters, its transport and its model have them."""

from typing import Final

from neurald.service.inference.models.requests.job import InferenceJob
from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.protocol.tensors import InferenceRequest, number_fault
from neurald.service.inference.repository.queue_policy import Priorities, QueuePolicy

_TIMEOUT: Final = "timeout"
_PRIORITY: Final = "priority"
_MAX_TIMEOUT_S: Final = 86_400.0


def set_limits(
    job: InferenceJob,
    request: InferenceRequest,
    timeout_s: float | None,
    priorities: Priorities,
    now_s: float,
) -> None:
    """Sets the priority of a job, and when it must have begun and ended.

    Args:
        job: the job of the request.
        request: the request.
        timeout_s: how long the transport lets it take; None for no limit.
        priorities: those of its model.
        now_s: the time on the loop's clock.

    Raises:
        ServiceError: a parameter is not valid.
    """
    job.priority = priority_of(request, priorities)
    limit_s, begin_limit_s = times_of(request, timeout_s, priorities.policy_of(job.priority))
    job.has_transport_deadline = limit_s is not None and limit_s == timeout_s
    job.deadline_s = _behind(now_s, limit_s)
    job.begin_by_s = _behind(now_s, begin_limit_s)


def times_of(
    request: InferenceRequest, timeout_s: float | None, policy: QueuePolicy
) -> tuple[float | None, float | None]:
    """Returns how long a request may take, and how long it may wait; None for no limit.

    Args:
        request, timeout_s: see `set_limits`.
        policy: that of its priority.

    Raises:
        ServiceError: the parameter is not valid.
    """
    asked_s = _number(request, _TIMEOUT, "a number of microseconds") / 1e6 or None
    # The configured time-out is one of the queue, as in Triton.
    queue_s = policy.timeout_s or None
    if policy.allows_shorter:
        return timeout_s, earlier(asked_s, queue_s)
    return earlier(asked_s, timeout_s), queue_s


def priority_of(request: InferenceRequest, priorities: Priorities) -> int:
    """Returns the priority of a request.

    Raises:
        ServiceError: the parameter is not valid.
    """
    return priorities.of(_number(request, _PRIORITY, "a number, of which 1 is run first,"))


def earlier(one_s: float | None, other_s: float | None) -> float | None:
    """Returns the smaller of two limits, of which None is none."""
    return min((each for each in (one_s, other_s) if each is not None), default=None)


def _behind(now_s: float, limit_s: float | None) -> float | None:
    return None if limit_s is None else now_s + min(limit_s, _MAX_TIMEOUT_S)


def _number(request: InferenceRequest, name: str, expected: str) -> int:
    """Returns a parameter of a request that is a number; 0 if it is not there.

    Raises:
        ServiceError: it is not such a number.
    """
    value = request.parameters.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ServiceError(
            Status.INVALID, f"{number_fault(name, value)}: it is {value!r}; {expected} is expected"
        )
    return value
