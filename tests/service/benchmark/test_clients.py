import threading
import time
from collections.abc import Callable

import pytest

from neurald.hal.errors import BadData, OpFailed
from neurald.service.benchmark.clients import client_counts, client_rows, run_clients


def test_clients_run_at_the_same_time() -> None:
    together = threading.Barrier(3)
    threads = set()

    def create() -> Callable[[], float]:
        threads.add(threading.get_ident())
        together.wait(30)

        def run() -> float:
            time.sleep(0.002)
            return 0.002

        return run

    found = run_clients(create, 3, 0.05)
    assert len(threads) == 3
    assert found["clients"] == 3
    assert found["runs"] >= 3
    assert found["median_ms"] == 2
    assert client_rows([found])[0][0] == "3"


def test_an_error_of_one_client_ends_all() -> None:
    calls = []

    def create() -> Callable[[], float]:
        calls.append(1)
        if len(calls) == 2:
            raise OpFailed("no")
        return lambda: 0.001

    with pytest.raises(OpFailed, match="no"):
        run_clients(create, 3, 0.01)


def test_an_error_of_a_later_run() -> None:
    left = [1.0, 1.0]

    with pytest.raises(IndexError):
        run_clients(lambda: left.pop, 1, 10)


def test_numbers_of_clients() -> None:
    assert client_counts("1,2,16") == (1, 2, 16)
    for text in ("", "1,", "x", "0", "257", "-1"):
        with pytest.raises(BadData, match="of clients"):
            client_counts(text)
