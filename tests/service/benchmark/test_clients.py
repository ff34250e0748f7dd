import threading
import time
from collections.abc import Callable

import pytest

from neurald.hal.errors import BadData, OpFailed
from neurald.service.benchmark.clients import client_counts, client_rows, run_clients
from neurald.service.console.measurement import RunControl


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

    found = run_clients(create, 3, RunControl(runs=1, min_s=0.05, max_s=9), [95])
    assert len(threads) == 3
    assert found["clients"] == 3
    assert found["runs"] >= 3
    assert found["median_ms"] == found["p95_ms"] == 2
    assert client_rows([found])[0][0] == "3"


def test_clients_share_the_least_number_of_runs() -> None:
    for clients, runs in ((3, 9), (4, 12), (1, 9)):
        found = run_clients(lambda: lambda: 0.001, clients, RunControl(runs=9, min_s=0, max_s=99))
        assert found["runs"] == runs


def test_clients_end_after_the_longest_time() -> None:
    def run() -> float:
        time.sleep(0.01)
        return 0.01

    found = run_clients(lambda: run, 2, RunControl(runs=10**9, min_s=99, max_s=0))
    assert found["runs"] == 2


def test_an_error_of_one_client_ends_all() -> None:
    calls = []

    def create() -> Callable[[], float]:
        calls.append(1)
        if len(calls) == 2:
            raise OpFailed("no")
        return lambda: 0.001

    with pytest.raises(OpFailed, match="no"):
        run_clients(create, 3, RunControl(runs=1, min_s=0.01, max_s=9))


def test_an_error_of_a_later_run() -> None:
    left = [1.0, 1.0]

    with pytest.raises(IndexError):
        run_clients(lambda: left.pop, 1, RunControl(runs=1, min_s=10, max_s=10))


def test_numbers_of_clients() -> None:
    assert client_counts("1,2,16") == (1, 2, 16)
    for text in ("", "1,", "x", "0", "257", "-1"):
        with pytest.raises(BadData, match=r"^--clients is .*; numbers from 1 to 256 are expected"):
            client_counts(text)
