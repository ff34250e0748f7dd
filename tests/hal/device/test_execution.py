"""Options of executions."""

import time

import pytest

from neurald.hal.device import ExecuteOptions
from neurald.hal.errors import Cancelled, MissedDeadlinePersistent
from neurald.hal.sync.cancellation import Cancellation


def test_an_execution_that_is_late_or_cancelled_does_not_start() -> None:
    cancellation = Cancellation()
    options = ExecuteOptions(deadline_s=time.monotonic() + 60, cancellation=cancellation)
    options.require_start()
    cancellation.cancel()
    with pytest.raises(Cancelled, match="before it began"):
        options.require_start()
    with pytest.raises(MissedDeadlinePersistent, match="before the execution started"):
        ExecuteOptions(deadline_s=time.monotonic()).require_start()
