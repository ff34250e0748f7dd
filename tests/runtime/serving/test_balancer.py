"""Several services with the same model: the calls are shared, and the death of one costs none."""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.inference import zoo
from support.inference.serving import Serving
from support.waiting import wait_until

import neurald as nd
from neurald.hal.errors import BadData, BadState, UnavailableDevice
from neurald.runtime.serving.balancer import Balancer

X = np.array([[1, 2, 3, 4]], np.float32)


@pytest.fixture
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Serving]]:
    folder = tmp_path_factory.mktemp("b")
    zoo.write_plain(folder, "same", zoo.reshaping())
    with (
        Serving(folder, socket=str(folder / "a.sock"), http="") as first,
        Serving(folder, socket=str(folder / "b.sock"), http="") as second,
    ):
        first.wait_ready()
        second.wait_ready()
        yield [first, second]


def paths(services: list[Serving]) -> list[Path]:
    return [Path(services[0].folder) / name for name in ("a.sock", "b.sock")]


def test_the_least_busy_service_is_chosen(services: list[Serving]) -> None:
    balancer = Balancer(paths(services), "same", "")
    taken = [balancer.take(1.0) for _ in range(4)]
    assert sorted(endpoint.path.name for endpoint, _ in taken) == ["a.sock", "a.sock", "b.sock", "b.sock"]
    busy = taken[0][0]
    for endpoint, lane in taken[1:]:
        if endpoint is not busy:
            balancer.give_back(endpoint, lane)
    for _ in range(2):
        endpoint, lane = balancer.take(1.0)
        assert endpoint is not busy
        balancer.give_back(endpoint, lane)
    balancer.close()
    with pytest.raises(BadState, match="closed"):
        balancer.take(1.0)


def test_a_killed_service_costs_no_call(services: list[Serving]) -> None:
    failures: list[BaseException] = []
    done = threading.Event()
    counts = [0] * 4
    model = nd.connect_service(paths(services)).model("same")

    def load(number: int) -> None:
        while not done.is_set():
            try:
                assert model(X)[0].tolist() == [1, 2, 3, 4]
                counts[number] += 1
            except BaseException as error:
                failures.append(error)
                return

    threads = [threading.Thread(target=load, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: min(counts) > 20)
    # The front end ends, and its workers with it.
    os.kill(services[0].process.pid, 9)
    before = list(counts)
    wait_until(lambda: failures or all(now > then + 50 for now, then in zip(counts, before, strict=True)))
    (worker,) = services[1].model("same").processes
    os.kill(worker, 9)
    before = list(counts)
    wait_until(lambda: failures or all(now > then + 50 for now, then in zip(counts, before, strict=True)))
    done.set()
    for thread in threads:
        thread.join()
    assert not failures
    model.close()


def test_services_that_do_not_run_are_passed_over(services: list[Serving]) -> None:
    there, _ = paths(services)
    model = nd.connect_service([there.with_name("none.sock"), there]).model("same")
    assert model(X)[0].tolist() == [1, 2, 3, 4]
    began = time.monotonic()
    with pytest.raises(UnavailableDevice, match="no execution service"):
        nd.connect_service([there.with_name("none.sock"), there.with_name("neither.sock")])
    assert time.monotonic() - began < 5
    with pytest.raises(BadData, match="no path of a service"):
        nd.connect_service([])
