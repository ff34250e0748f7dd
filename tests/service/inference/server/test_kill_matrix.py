"""Processes of the service are killed and stopped under load over gRPC and HTTP: no answer is wrong,
and a client that repeats what the service did not answer gets an answer to every call."""

import http.client
import json
import os
import random
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from support.daemon.managed import Managed
from support.inference import zoo
from support.waiting import wait_until

from neurald.service.manager.state import ServiceStatus

pytest.importorskip("uvicorn", reason="the extra [serve] is not installed")
triton = pytest.importorskip("tritonclient.grpc", reason="the group test is not installed")
from tritonclient.utils import InferenceServerException  # noqa: E402 - optional

#: How long a call may take with all its repetitions.
_LOST_S = 60.0
_REPEATED = ("StatusCode.UNAVAILABLE", "StatusCode.CANCELLED")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


class Clients:
    """Clients that ask over gRPC and HTTP until they are told to stop.

    Attributes:
        answered: how many calls each has made.
        wrong, lost: what went wrong.
    """

    def __init__(self, grpc: str, http: str) -> None:
        self.answered = [0] * 4
        self.wrong: list[object] = []
        self.lost: list[str] = []
        self._grpc, self._http = grpc, http
        self._done = threading.Event()
        self._threads = [
            threading.Thread(target=self._load, args=(number, self._by_grpc if number % 2 else self._by_http))
            for number in range(len(self.answered))
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Returns when all clients have ended."""
        self._done.set()
        for thread in self._threads:
            thread.join()

    def wait_for_more(self, count: int) -> None:
        """Waits until each client has so many more answers, or a call was lost."""
        before = list(self.answered)
        wait_until(
            lambda: (
                self.lost or all(now >= then + count for now, then in zip(self.answered, before, strict=True))
            ),
            2 * _LOST_S,
        )

    def _load(self, number: int, ask: Callable[[Any, list[int]], list[int] | None]) -> None:
        chance = random.Random(number)
        with ExitStack() as stack:
            client = stack.enter_context(triton.InferenceServerClient(self._grpc))
            while not self._done.is_set():
                values = [chance.randrange(1000) for _ in range(4)]
                end = time.monotonic() + _LOST_S
                while (found := ask(client, values)) is None:
                    if time.monotonic() > end:
                        self.lost.append(f"client {number}")
                        return
                    time.sleep(0.02)
                if found != values:
                    self.wrong.append((values, found))
                self.answered[number] += 1

    def _by_grpc(self, client: Any, values: list[int]) -> list[int] | None:
        tensor = triton.InferInput("x", [1, 4], "INT32")
        tensor.set_data_from_numpy(np.array([values], np.int32))
        try:
            result: list[int] = client.infer("same", [tensor], client_timeout=20.0).as_numpy("y").tolist()
        except InferenceServerException as error:
            if error.status() not in (*_REPEATED, "StatusCode.DEADLINE_EXCEEDED"):
                self.wrong.append(error)
            return None
        return result

    def _by_http(self, client: Any, values: list[int]) -> list[int] | None:
        tensor = {"name": "x", "datatype": "INT32", "shape": [1, 4], "data": values}
        connection = http.client.HTTPConnection(self._http, timeout=20)
        try:
            connection.request("POST", "/v2/models/same/infer", json.dumps({"inputs": [tensor]}))
            answer = connection.getresponse()
            document = json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError):
            return None
        finally:
            connection.close()
        if answer.status != 200:
            if answer.status != 503:
                self.wrong.append(document)
            return None
        result: list[int] = document["outputs"][0]["data"]
        return result


@pytest.fixture
def managed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Managed]:
    folder = tmp_path_factory.mktemp("k")
    config = "instance_group [ { count: 2 } ]"
    zoo.write_model(folder / "models", "same", zoo.reshaping("INT32"), config=config)
    places = (f"127.0.0.1:{free_port()}" for _ in range(2))
    options = ("--grpc", next(places), "--http", next(places), "--repository", str(folder / "models"))
    with Managed(folder, *options) as manager:
        wait_until(lambda: status(manager).is_ready)
        yield manager


def status(managed: Managed) -> ServiceStatus:
    return managed.manager_status().service or ServiceStatus(process=None)


def signal_one(managed: Managed, kind: str, number: signal.Signals) -> None:
    """Sends a signal to a worker, or to the front end."""
    wait_until(lambda: status(managed).is_ready)
    found = status(managed)
    process = found.process if kind == "front end" else found.models[0].processes[0]
    assert process is not None
    os.kill(process, number)


def test_no_call_is_lost(managed: Managed) -> None:
    addresses = status(managed).addresses
    clients = Clients(addresses["grpc"], addresses["http"])
    try:
        clients.wait_for_more(10)
        for kind, number in (
            ("worker", signal.SIGKILL),
            ("worker", signal.SIGSTOP),
            ("worker", signal.SIGSEGV),
            ("front end", signal.SIGKILL),
            ("worker", signal.SIGKILL),
        ):
            signal_one(managed, kind, number)
            clients.wait_for_more(30)
    finally:
        clients.stop()
    assert (clients.wrong, clients.lost) == ([], [])
