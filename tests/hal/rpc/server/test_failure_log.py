"""Lines about refused calls, of which there are few however many calls there are."""

import logging

import pytest

from neurald.hal.accounting.events import CountedEvent, event_counts
from neurald.hal.errors import BadData, MissedDeadlineTransient, ResourceExhaustedTransient
from neurald.hal.rpc.server import failure_log
from neurald.hal.rpc.server.failure_log import note_failure


def test_each_kind_of_failure_has_one_line(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(failure_log, "_lines", type(failure_log._lines)(failure_log._lines.default_factory))
    before = event_counts().get((CountedEvent.REFUSAL, "ResourceExhaustedTransient"), 0)
    for number in range(1000):
        note_failure(ResourceExhaustedTransient(f"full {number}"), "a call")
        note_failure(MissedDeadlineTransient("late"), "an execution")
        note_failure(BadData("wrong"), "a call")
    assert caplog.messages == ["refusal of a call: full 0", "deadline of an execution: late"]
    assert event_counts()[CountedEvent.REFUSAL, "ResourceExhaustedTransient"] == before + 1000
