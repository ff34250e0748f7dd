"""Models whose drivers die: their states in the service, and the errors that clients get."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.daemon.managed import Managed
from support.inference import zoo
from support.waiting import wait_until

pytest.importorskip("tritonclient.grpc", reason="the group test is not installed")
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

X = np.array([[1, 2, 3, 4]], np.float32)
DEVICE = 'parameters { key: "device" value { string_value: "sample-all@adder" } }'


@pytest.fixture(scope="module")
def managed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Managed]:
    folder = tmp_path_factory.mktemp("m")
    repository = folder / "models"
    zoo.write_model(repository, "placed", zoo.dense(), config=DEVICE)
    zoo.write_model(repository, "anywhere", zoo.dense())
    options = ("--grpc", "127.0.0.1:0", "--repository", str(repository))
    with Managed(folder, *options, driver="sample-all") as manager:
        wait_until(lambda: (found := manager.manager_status().service) is not None and found.is_ready)
        yield manager


@pytest.fixture
def client(managed: Managed) -> Iterator[Any]:
    status = managed.manager_status().service
    assert status is not None
    with triton.InferenceServerClient(status.addresses["grpc"]) as found:
        yield found


def infer(client: Any, name: str) -> Any:
    tensor = triton.InferInput("x", [1, 4], "FP32")
    tensor.set_data_from_numpy(X)
    return client.infer(name, [tensor], parameters={"receipt": True})


def driver(managed: Managed) -> int:
    wait_until(lambda: managed.status().process is not None)
    process = managed.status().process
    assert process is not None
    return process


def test_a_model_runs_on_the_device_of_its_configuration(client: Any, managed: Managed) -> None:
    receipt = infer(client, "placed").get_response().parameters["receipt"].string_param
    assert "sample-all@adder" in receipt
    status = managed.manager_status().service
    assert status is not None
    assert {each.name: each.devices for each in status.models}["placed"] == ("sample-all@adder",)


def test_readiness_follows_the_driver(client: Any, managed: Managed) -> None:
    process = driver(managed)
    os.kill(process, signal.SIGKILL)
    wait_until(lambda: not client.is_model_ready("placed") or managed.status().process not in (process, None))
    assert client.is_model_ready("anywhere")
    infer(client, "placed")
    wait_until(lambda: client.is_model_ready("placed"))
    wait_until(client.is_server_ready)


def test_a_model_of_a_hanging_driver_is_not_ready(client: Any, managed: Managed) -> None:
    infer(client, "placed")
    process = driver(managed)
    os.kill(process, signal.SIGSTOP)
    wait_until(lambda: not client.is_model_ready("placed") or managed.status().process not in (process, None))
    assert client.is_model_ready("anywhere")
    # The service manager replaces it.
    wait_until(lambda: client.is_model_ready("placed"))
    infer(client, "placed")


def test_the_death_of_a_driver_costs_no_call(client: Any, managed: Managed) -> None:
    failures: list[object] = []
    done = threading.Event()
    count = 0

    def load() -> None:
        nonlocal count
        while not done.is_set():
            for name in ("placed", "anywhere"):
                try:
                    infer(client, name)
                    count += 1
                except InferenceServerException as error:
                    failures.append(error)

    thread = threading.Thread(target=load)
    thread.start()
    for _ in range(2):
        process = driver(managed)
        os.kill(process, signal.SIGKILL)
        before = count
        wait_until(lambda: count > before + 10 or failures)  # noqa: B023
        wait_until(lambda: managed.status().process not in (process, None))  # noqa: B023
        time.sleep(0.1)
    done.set()
    thread.join()
    assert not failures


def test_a_device_that_is_not_there_is_an_error(client: Any, managed: Managed) -> None:
    repository = Path(managed.file).parent / "models"
    zoo.write_model(repository, "lost", zoo.dense(), config=DEVICE.replace("sample-all@adder", "missing"))
    with pytest.raises(InferenceServerException, match="no device 'missing'"):
        client.load_model("lost")
