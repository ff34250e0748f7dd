"""A budget of memory that clients share."""

import threading
from contextlib import ExitStack

import pytest
from support.waiting import wait_until

from neurald.hal.accounting.memory_budget import MemoryBudget
from neurald.hal.errors import ResourceExhaustedPersistent, ResourceExhaustedTransient


def test_a_budget_is_limited_in_all_and_for_each() -> None:
    budget = MemoryBudget(100, 60, wait_s=0.01)
    with pytest.raises(ResourceExhaustedPersistent, match="takes 61 bytes; one client may have 60"):
        ExitStack().enter_context(budget.taken("a", 61))
    for _ in range(3):
        with ExitStack() as taken:
            taken.enter_context(budget.taken("a", 60))
            with pytest.raises(ResourceExhaustedTransient, match="this client 60 of 60"):
                taken.enter_context(budget.taken("a", 1))
            taken.enter_context(budget.taken("b", 40))
            with pytest.raises(ResourceExhaustedTransient, match="hold 100 bytes of 100"):
                taken.enter_context(budget.taken("c", 1))
    assert not budget._taken


def test_a_request_waits_for_bytes() -> None:
    budget = MemoryBudget(100, 100, wait_s=60)
    got = threading.Event()

    def take() -> None:
        with budget.taken("b", 50):
            got.set()

    with budget.taken("a", 60):
        thread = threading.Thread(target=take)
        thread.start()
        wait_until(thread.is_alive)
        assert not got.wait(0.05)
    assert got.wait(60)
    thread.join()
