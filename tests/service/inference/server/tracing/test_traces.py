"""Traces of requests: when they are written, and what they say."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.inference import zoo
from support.inference.serving import Serving
from support.waiting import wait_until

from neurald.hal.errors import BadState
from neurald.service.inference.protocol.tensors import Bytes, InferenceRequest, InputTensor
from neurald.service.inference.server.tracing import traces
from neurald.service.inference.server.tracing.traces import RequestTraces
from neurald.service.manager.settings.service_configuration import TraceConfiguration

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


def requested(*tensors: bytes) -> InferenceRequest:
    return InferenceRequest(
        model="m",
        version="",
        id="",
        parameters={},
        inputs=tuple(
            InputTensor(name=f"x{n}", datatype="UINT8", shape=(len(each),), source=Bytes(memoryview(each)))
            for n, each in enumerate(tensors)
        ),
        outputs=(),
    )


def traced(file: str, count: int, *tensors: bytes, **named: int) -> RequestTraces:
    found = RequestTraces(TraceConfiguration(file=file, level="TENSORS", rate=1, **named), {})
    for _ in range(count):
        trace_one(found, *tensors)
    return found


def trace_one(found: RequestTraces, *tensors: bytes) -> None:
    trace = found.begin(requested(*tensors), 1)
    assert trace is not None
    found.end(trace)


def test_what_waits_for_a_file_is_bounded(tmp_path: Path) -> None:
    found = traced(str(tmp_path / "t"), 3, bytes(1 << 19), log_frequency=2**31 - 1)
    assert len(entries(tmp_path / "t.0")) >= 4
    found.close()
    assert len(entries(tmp_path / "t.0")) == 6
    assert not (tmp_path / "t.1").exists()


def test_all_files_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(traces, "_MAX_FILES", 3)
    traced(str(tmp_path / "a"), 5, log_frequency=1)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.0", "a.1", "a.2"]
    monkeypatch.setattr(traces, "_MAX_BYTES", 1000)
    traced(str(tmp_path / "b"), 50)
    assert 500 < (tmp_path / "b").stat().st_size <= 1000
    assert json.loads((tmp_path / "b").read_text())
    said = [each.getMessage() for each in caplog.records]
    assert [each.endswith(" bytes; no more are written") for each in said] == [True, True]


def test_files_stay_whole_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    room, write = 1000, os.pwrite

    def write_at(descriptor: int, content: memoryview | bytes, at: int) -> int:
        if at >= room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, content[: room - at], at)

    monkeypatch.setattr(os, "pwrite", write_at)
    found = traced(str(tmp_path / "t"), 50)
    before = len(entries(tmp_path / "t"))
    assert 500 < (tmp_path / "t").stat().st_size <= room
    # One line says so, and not one for each request.
    (line,) = [each.getMessage() for each in caplog.records]
    assert (
        line
        == f"the trace file {tmp_path / 't'} cannot be written, so traces are lost: No space left on device"
    )
    room = 10_000
    trace_one(found)
    assert len(entries(tmp_path / "t")) > before
    # The first write to a new file fails as well.
    room = 10
    traced(str(tmp_path / "new"), 1)
    assert (tmp_path / "new").read_bytes() == b""


def test_files_that_cannot_be_are_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    reasons = {
        "none/trace.json": "there is no folder",
        "folder": "it is a folder",
        "a" * 300: "File name too long",
        "a" * 300 + "/trace.json": "File name too long",
    }
    for name, reason in reasons.items():
        with pytest.raises(BadState, match=f"cannot be written: {reason}"):
            RequestTraces(TraceConfiguration(file=str(tmp_path / name)), {})


def test_tensors_of_a_trace_are_bounded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    traced(str(tmp_path / "t"), 1, bytes(1 << 19), bytes(1 << 19), bytes(1))
    assert [each["tensor"]["name"] for each in entries(tmp_path / "t")[1:]] == ["x0", "x1"]
    caplog.set_level("INFO")
    traced("", 1, bytes(1 << 14), bytes(1))
    (line,) = [each.getMessage() for each in caplog.records]
    assert '"x0"' in line
    assert '"x1"' not in line


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
