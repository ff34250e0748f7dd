"""Clients of gRPC divide their calls between services, and none is lost if one of these dies."""

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.inference import zoo
from support.inference.serving import Serving
from support.waiting import wait_until

triton_grpc = pytest.importorskip("tritonclient.grpc", reason="the group test is not installed")

CONFIG = Path(__file__).parents[2] / "examples/grpc_service_config.json"
#: More than gRPC keeps of a request by default.
COUNT = 100_000


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[list[Serving]]:
    # A call is not made again whose answer has begun, so that it is short.
    zoo.write_plain(tmp_path, "dense", zoo.dense(COUNT, 3))
    with Serving(tmp_path, http="") as first, Serving(tmp_path, http="") as second:
        yield [each.wait_ready() for each in (first, second)]


def executions(service: Serving) -> int:
    with triton_grpc.InferenceServerClient(service.grpc) as client:
        found = client.get_inference_statistics("dense")
        return sum(each.execution_count for each in found.model_stats)


def test_no_call_is_lost_if_one_of_two_services_dies(pair: list[Serving]) -> None:
    options = [
        ("grpc.service_config", CONFIG.read_text()),
        ("grpc.per_rpc_retry_buffer_size", 64 << 20),
        ("grpc.max_receive_message_length", -1),
    ]
    addresses = ",".join(each.grpc for each in pair)
    tensor = triton_grpc.InferInput("x", [1, COUNT], "FP32")
    tensor.set_data_from_numpy(np.ones((1, COUNT), np.float32))
    failures: list[Exception] = []
    answers = [0, 0, 0, 0]
    is_over = threading.Event()

    with triton_grpc.InferenceServerClient(f"ipv4:{addresses}", channel_args=options) as client:
        expected = client.infer("dense", [tensor]).as_numpy("y")

        def call(number: int) -> None:
            while not is_over.is_set():
                try:
                    assert np.array_equal(client.infer("dense", [tensor]).as_numpy("y"), expected)
                except Exception as error:
                    failures.append(error)
                answers[number] += 1

        threads = [threading.Thread(target=call, args=(number,)) for number in range(len(answers))]
        for each in threads:
            each.start()
        try:
            wait_until(lambda: min(answers) > 10)
            assert min(map(executions, pair)) > 0
            pair[0].process.send_signal(signal.SIGKILL)
            before = list(answers)
            wait_until(lambda: all(now > then + 20 for now, then in zip(answers, before, strict=True)))
        finally:
            is_over.set()
            for each in threads:
                each.join()
    assert failures == []
