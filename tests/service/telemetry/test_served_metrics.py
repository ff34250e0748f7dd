"""Metrics of a service manager with a real driver."""

import os
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.daemon.managed import Managed
from support.models.addition import addition, request
from support.process.ports import free_port
from support.waiting import wait_until

from neurald.hal.device import ExecuteOptions, PrepareOptions
from neurald.hal.rpc.client.device import connect


@pytest.fixture
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Managed, int]]:
    folder: Path = tmp_path_factory.mktemp("m")
    port = free_port()
    with Managed(folder, "--metrics", f"127.0.0.1:{port}") as manager:
        yield manager, port


def lines(port: int) -> list[str]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        return str(answer.read().decode()).splitlines()


def test_executions_and_deaths_are_counted(served: tuple[Managed, int]) -> None:
    managed, port = served
    assert 'neurald_driver_state{driver="adder",state="stopped"} 1' in lines(port)
    device = connect(str(managed.address))
    prepared = device.prepare_model(addition(np.ones(2)), PrepareOptions())
    for _ in range(3):
        prepared.execute(request(np.ones(2, np.float32), np.zeros(2, np.float32)), ExecuteOptions())
    wait_until(lambda: 'neurald_driver_executions_total{driver="adder"} 3' in lines(port))
    found = lines(port)
    assert 'neurald_driver_state{driver="adder",state="ready"} 1' in found
    assert any(line.startswith('neurald_driver_memory_bytes{driver="adder"}') for line in found)
    device.close()
    (process,) = managed.starts[-1:]
    os.kill(process, signal.SIGKILL)
    wait_until(lambda: 'neurald_driver_deaths_total{driver="adder"} 1' in lines(port))
