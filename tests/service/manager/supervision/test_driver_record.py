"""A record of a driver tells its state, its past, and what its process reports."""

import json
import logging
from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from neurald.service.daemon import notifications
from neurald.service.manager.settings.configuration import DriverSettings
from neurald.service.manager.state import DriverState, DriverStatus
from neurald.service.manager.supervision.driver_record import DriverRecord

_SETTINGS = DriverSettings(driver="adder")
_METRICS = {"executions": 3, "busy_s": 0.5, "queue_s": 0.25, "waiting": 1}


def _process() -> Any:
    return SimpleNamespace(pid=7, sandbox="full", sandbox_missing=(), last_lines=deque(["now"]))


def _status(record: DriverRecord, process: Any = None) -> DriverStatus:
    return record.status(_SETTINGS, process, spare=None, patterns=())


def test_each_change_of_state_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    record = DriverRecord("adder", "unix:///adder.sock")
    for _ in range(2):
        record.enter(DriverState.BACKOFF, "it died")
    record.enter(DriverState.READY)
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        ("WARNING", "BACKOFF: it died"),
        ("INFO", "READY"),
    ]
    status = _status(record)
    assert (status.name, status.address) == ("adder", "unix:///adder.sock")
    assert (status.state, status.reason) == (DriverState.READY, "")


def test_a_quarantine_counts_once_until_it_is_left() -> None:
    record = DriverRecord("adder", "")
    for state in (DriverState.QUARANTINED, DriverState.QUARANTINED, DriverState.STOPPED):
        record.enter(state, "it died")
    assert _status(record).quarantines == 1
    record.enter(DriverState.QUARANTINED, "it died")
    assert _status(record).quarantines == 2


def test_what_concerns_a_process_is_told_while_there_is_one() -> None:
    record, process = DriverRecord("adder", ""), _process()
    record.sessions, record.is_unable = 2, True
    record.note_report({notifications.METRICS: json.dumps(_METRICS)})
    record.note_report({notifications.METRICS: "hostile"})
    running = _status(record, process)
    assert (running.process, running.sessions, running.sandbox, running.is_unable) == (7, 2, "full", False)
    assert running.metrics is not None
    assert running.metrics.executions == 3
    assert running.last_lines == ("now",)
    process.last_lines = deque(["then"])
    record.note_lines(process)
    stopped = _status(record)
    assert (stopped.process, stopped.sessions, stopped.sandbox, stopped.is_unable) == (None, None, None, True)
    assert stopped.metrics is None
    assert stopped.last_lines == ("then",)
