"""Operators are told why requests have failed."""

import asyncio
from concurrent.futures import Future

import pytest

from neurald.service.inference.models.requests.job import InferenceJob, failure_reason, late_error
from neurald.service.inference.models.statistics.statistics import FailureReason
from neurald.service.inference.protocol.errors import ServiceError, Status


@pytest.mark.parametrize(
    ("error", "attempts", "expected"),
    [
        (asyncio.CancelledError(), 0, FailureReason.CANCELED),
        (asyncio.CancelledError(), 1, FailureReason.CANCELED),
        (ServiceError(Status.CANCELLED, "it was cancelled"), 1, FailureReason.CANCELED),
        (late_error(), 0, FailureReason.REJECTED),
        (ServiceError(Status.UNAVAILABLE, "Request timeout expired"), 0, FailureReason.REJECTED),
        (late_error(), 1, FailureReason.BACKEND),
        (ServiceError(Status.UNAVAILABLE, "3 workers died"), 3, FailureReason.BACKEND),
        (ServiceError(Status.INTERNAL, "a kernel failed"), 1, FailureReason.BACKEND),
        (ServiceError(Status.INVALID, "the region was truncated"), 1, FailureReason.OTHER),
        (MemoryError(), 1, FailureReason.BACKEND),
    ],
)
def test_a_failure_has_a_reason(error: BaseException, attempts: int, expected: FailureReason) -> None:
    job = InferenceJob(inputs=(), rows=1, wanted=(), finish=lambda *_: None, end=Future())
    job.attempts = attempts
    assert failure_reason(job, error) is expected
