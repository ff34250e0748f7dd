"""Traces of requests: when they are written, and what they say."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.inference import zoo
from support.inference.serving import Serving
from support.waiting import wait_until

pytest.importorskip("tritonclient.http", reason="the group test is not installed")
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http

X = np.arange(4, dtype=np.float32).reshape(1, 4)


def ask(client: Any, module: Any, request_id: str = "") -> None:
    tensor = module.InferInput("x", [1, 4], "FP32")
    tensor.set_data_from_numpy(X)
    client.infer("same", [tensor], request_id=request_id)


@pytest.fixture
def serve(tmp_path: Path) -> Callable[..., Serving]:
    repository = tmp_path / "models"
    repository.mkdir()
    zoo.write_plain(repository, "same", zoo.reshaping())

    def start(**trace: Any) -> Serving:
        return Serving(repository, trace={"file": str(tmp_path / "trace.json"), **trace})

    return start


def entries(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    return found


def test_timestamps_are_in_order_and_tensors_are_whole(serve: Callable[..., Serving], tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    with serve(level="TIMESTAMPS", rate=1) as service:
        service.wait_ready()
        with triton_http.InferenceServerClient(service.http) as client:
            ask(client, triton_http, "seven")
            wait_until(lambda: entries(file))
            named, timed = entries(file)
            assert (named["model_name"], named["model_version"], named["request_id"]) == ("same", 1, "seven")
            names = [each["name"] for each in timed["timestamps"]]
            assert names == [
                "REQUEST_START",
                "QUEUE_START",
                "COMPUTE_START",
                "COMPUTE_INPUT_END",
                "COMPUTE_OUTPUT_START",
                "COMPUTE_END",
                "REQUEST_END",
            ]
            times = [each["ns"] for each in timed["timestamps"]]
            assert times == sorted(times)
            client.update_trace_settings("same", {"trace_level": ["TENSORS"]})
            ask(client, triton_http)
            wait_until(lambda: len(entries(file)) == 5)
            _, given, returned = entries(file)[2:]
            assert (given["activity"], returned["activity"]) == (
                "TENSOR_QUEUE_INPUT",
                "TENSOR_BACKEND_OUTPUT",
            )
            assert given["tensor"] == {
                "name": "x",
                "data": "0.0,1.0,2.0,3.0",
                "shape": "1,4",
                "dtype": "FP32",
            }
            assert returned["tensor"]["shape"] == "4"
            client.update_trace_settings("same", {"trace_level": ["OFF"]})
            ask(client, triton_http)
            assert len(entries(file)) == 5


def test_files_of_several_traces(serve: Callable[..., Serving], tmp_path: Path) -> None:
    with serve(level="TIMESTAMPS", rate=1, log_frequency=2) as service:
        service.wait_ready()
        with triton_grpc.InferenceServerClient(service.grpc) as client:
            for _ in range(5):
                ask(client, triton_grpc)
            wait_until(lambda: entries(tmp_path / "trace.json.1"))
    # The rest is written at the end.
    counts = [len(entries(tmp_path / f"trace.json.{number}")) for number in range(4)]
    assert counts == [4, 4, 2, 0]


def test_settings_over_both_protocols(serve: Callable[..., Serving]) -> None:
    with serve() as service:
        service.wait_ready()
        with (
            triton_http.InferenceServerClient(service.http) as by_http,
            triton_grpc.InferenceServerClient(service.grpc) as by_grpc,
        ):
            changed = by_http.update_trace_settings(settings={"trace_level": ["TIMESTAMPS", "TENSORS"]})
            assert changed["trace_level"] == ["TIMESTAMPS", "TENSORS"]
            assert (changed["trace_rate"], changed["trace_mode"]) == ("1000", "triton")
            found = by_grpc.update_trace_settings("same", {"trace_rate": "5"})
            assert list(found.settings["trace_rate"].value) == ["5"]
            assert list(found.settings["trace_level"].value) == ["TIMESTAMPS", "TENSORS"]
            assert by_http.get_trace_settings("same")["trace_rate"] == "5"
            assert by_http.update_trace_settings("same", {"trace_rate": None})["trace_rate"] == "1000"
            for client in (by_http, by_grpc):
                with pytest.raises(Exception, match="Request for unknown model : missing"):
                    client.get_trace_settings("missing")
                with pytest.raises(Exception, match="trace file location can not be updated"):
                    client.update_trace_settings(settings={"trace_file": "/tmp/a"})
