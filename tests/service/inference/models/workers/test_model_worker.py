"""Errors of the service about a worker that hangs."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.inference import zoo
from support.inference.serving import Serving
from support.waiting import wait_until

triton = pytest.importorskip("tritonclient.grpc", reason="the group test is not installed")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Serving]:
    zoo.write_plain(tmp_path, "same", zoo.reshaping())
    with Serving(tmp_path, http="") as found:
        found.wait_ready()
        yield found


def infer(client: Any) -> Any:
    tensor = triton.InferInput("x", [1, 4], "FP32")
    tensor.set_data_from_numpy(np.array([[1, 2, 3, 4]], np.float32))
    return client.infer("same", [tensor]).as_numpy("y").tolist()


def test_a_stopped_worker_is_not_ready_and_goes_on(service: Serving) -> None:
    (worker,) = service.model("same").processes
    with triton.InferenceServerClient(service.grpc) as client:
        os.kill(worker, signal.SIGSTOP)
        try:
            wait_until(lambda: not client.is_model_ready("same"))
            assert not client.is_server_ready()
        finally:
            os.kill(worker, signal.SIGCONT)
        wait_until(client.is_server_ready)
        assert infer(client) == [1, 2, 3, 4]


@pytest.mark.timed
def test_a_stopped_worker_is_noticed_within_250_ms(service: Serving) -> None:
    (worker,) = service.model("same").processes
    with triton.InferenceServerClient(service.grpc) as client:
        client.is_model_ready("same")
        os.kill(worker, signal.SIGSTOP)
        began = time.monotonic()
        wait_until(lambda: not client.is_model_ready("same"))
        seconds = time.monotonic() - began
    assert seconds < 3.0  # 250 ms on an idle machine


def test_a_worker_that_stays_silent_is_replaced(service: Serving) -> None:
    (worker,) = service.model("same").processes
    os.kill(worker, signal.SIGSTOP)
    with triton.InferenceServerClient(service.grpc) as client:
        assert infer(client) == [1, 2, 3, 4]
    wait_until(lambda: service.model("same").processes not in ((worker,), ()))
