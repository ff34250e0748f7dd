"""The memory of requests that are there at once."""

import threading

import pytest

from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.server.admission.request_budget import RequestBudget


def test_requests_beyond_the_limit_are_refused() -> None:
    budget = RequestBudget(10)
    budget.take(10)
    with pytest.raises(ServiceError, match="10 bytes of memory already") as refused:
        budget.take(1)
    assert refused.value.status is Status.EXHAUSTED
    budget.give_back(10)
    with budget.holding(7):
        assert budget.used_bytes == 7
    assert budget.used_bytes == 0


def test_threads_take_and_give_back() -> None:
    budget = RequestBudget(1 << 30)

    def use() -> None:
        for _ in range(5000):
            budget.take(3)
            budget.give_back(3)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert budget.used_bytes == 0
