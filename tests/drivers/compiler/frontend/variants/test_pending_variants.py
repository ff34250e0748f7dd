"""Executions that need the same variant prepare it once."""

import threading
import time

import pytest
from support.daemon.forking import in_child
from support.waiting import wait_until

from neurald.drivers.compiler.frontend.variants.pending_variants import PendingVariants
from neurald.hal.device import ExecuteOptions
from neurald.hal.errors import Cancelled, MissedDeadlineTransient
from neurald.hal.sync.cancellation import Cancellation

RUN = ExecuteOptions()


def test_others_wait_for_the_one_that_prepares() -> None:
    pending = PendingVariants[str]()
    assert pending.begin("a", RUN)
    assert pending.begin("b", RUN)
    begun: list[bool] = []
    threads = [threading.Thread(target=lambda: begun.append(pending.begin("a", RUN))) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    assert begun == []
    assert "a" in pending
    pending.end("a")
    wait_until(lambda: begun == [False] * 3)
    for thread in threads:
        thread.join()
    assert "a" not in pending
    assert pending.begin("a", RUN)


def test_limits_of_those_that_wait() -> None:
    pending = PendingVariants[str]()
    assert pending.begin("a", RUN)
    cancellation = Cancellation()
    cancellation.cancel()
    with pytest.raises(Cancelled):
        pending.begin("a", ExecuteOptions(cancellation=cancellation))
    with pytest.raises(MissedDeadlineTransient):
        pending.begin("a", ExecuteOptions(deadline_s=time.monotonic()))


@pytest.mark.forks
def test_a_child_waits_for_nobody_of_its_parent() -> None:
    pending = PendingVariants[str]()
    assert pending.begin("a", RUN)

    def check() -> None:
        assert pending.begin("a", RUN)
        pending.end("a")

    in_child(check)
