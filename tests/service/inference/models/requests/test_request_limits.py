"""A request ends at the earliest of its limits, and has a priority of its model."""

from concurrent.futures import Future

import pytest

from neurald.service.inference.models.requests.job import InferenceJob
from neurald.service.inference.models.requests.request_limits import earlier, set_limits
from neurald.service.inference.protocol.errors import ServiceError
from neurald.service.inference.protocol.tensors import InferenceRequest, Parameter
from neurald.service.inference.repository.queue_policy import Priorities, QueuePolicy

pytestmark = pytest.mark.quick


def _job(timeout_s: float | None, parameters: dict[str, Parameter], priorities: Priorities) -> InferenceJob:
    """Returns the job of a request with these parameters, which came at 100 s."""
    request = InferenceRequest(model="m", version="", id="", parameters=parameters, inputs=(), outputs=())
    job = InferenceJob(inputs=(), rows=1, wanted=(), finish=lambda *_: None, end=Future())
    set_limits(job, request, timeout_s, priorities, 100.0)
    return job


@pytest.mark.parametrize(
    ("timeout_s", "microseconds", "deadline_s", "is_of_transport"),
    [
        (None, None, None, False),
        (None, 0, None, False),
        (2.0, None, 102.0, True),
        (None, 500_000, 100.5, False),
        (2.0, 500_000, 100.5, False),
        (0.25, 500_000, 100.25, True),
        (1e9, None, 100 + 86_400, True),
    ],
)
def test_the_earlier_deadline_counts(
    timeout_s: float | None, microseconds: int | None, deadline_s: float | None, is_of_transport: bool
) -> None:
    job = _job(timeout_s, {} if microseconds is None else {"timeout": microseconds}, Priorities())
    assert (job.deadline_s, job.has_transport_deadline) == (deadline_s, is_of_transport)
    assert job.begin_by_s is None


def test_a_priority_has_a_limit_for_waiting() -> None:
    hurried = QueuePolicy(timeout_s=0.5)
    priorities = Priorities(levels=2, default=2, policies={1: hurried})
    assert [_job(None, {"priority": each}, priorities).priority for each in (0, 1, 2, 3)] == [2, 1, 2, 2]
    assert _job(None, {"priority": 1}, priorities).begin_by_s == 100.5
    assert _job(None, {}, priorities).begin_by_s is None


@pytest.mark.parametrize(
    ("configured_s", "microseconds", "begin_by_s"),
    [(0.0, 500_000, 100.5), (2.0, 500_000, 100.5), (2.0, 5_000_000, 102.0), (2.0, 0, 102.0), (0.0, 0, None)],
)
def test_a_request_may_be_delayed_sooner(
    configured_s: float, microseconds: int, begin_by_s: float | None
) -> None:
    policy = QueuePolicy(timeout_s=configured_s, delays=True, allows_shorter=True)
    job = _job(0.25, {"timeout": microseconds}, Priorities(policy=policy))
    assert (job.deadline_s, job.has_transport_deadline, job.begin_by_s) == (100.25, True, begin_by_s)


@pytest.mark.parametrize("name", ["timeout", "priority"])
@pytest.mark.parametrize("value", [-1, True, "1", 1.5])
def test_other_values_are_refused(name: str, value: Parameter) -> None:
    fault = f"invalid value for '{name}', expected value >= 0"
    if value != -1:
        fault = f"invalid value type for '{name}' parameter, expected int64_param"
    with pytest.raises(ServiceError, match=f"^{fault}: it is {value!r}; "):
        _job(None, {name: value}, Priorities())


def test_no_limit_is_later_than_any() -> None:
    assert earlier(None, None) is None
    assert earlier(3.0, None) == earlier(None, 3.0) == earlier(3.0, 4.0) == 3.0
