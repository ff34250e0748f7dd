"""Warnings that are not repeated as often as they are caused."""

import logging

import pytest

from neurald.hal.process.rate_limited_logger import RateLimitedLogger


def test_repeated_warnings_are_counted(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("neurald.hal.process.rate_limited_logger.time.monotonic", lambda: now)
    limited = RateLimitedLogger(logging.getLogger("test"), pause_s=10)
    for number in range(5):
        limited.warning("user %d came", number)
    assert caplog.messages == ["user 0 came"]
    now += 10
    limited.warning("user %d came", 9)
    assert caplog.messages[1:] == ["user 9 came (4 lines like this were left out before)"]
