"""The V2 protocol over HTTP, as tritonclient and plain clients speak it."""

import asyncio
import contextlib
import gzip
import http.client
import json
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.inference import zoo
from support.inference.http_requests import app_of, request_scope
from support.inference.serving import Serving
from support.sweeps import sweep
from support.waiting import wait_until

triton = pytest.importorskip("tritonclient.http", reason="the group test is not installed")
from tritonclient.utils import InferenceServerException, np_to_triton_dtype  # noqa: E402 - optional

X = np.array([[1, 2, 3, 4]], np.float32)
LIMIT = 1 << 20


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    repository = tmp_path_factory.mktemp("repository")
    for datatype in ("FP32", "INT8", "BYTES", "BOOL", "UINT64"):
        zoo.write_plain(repository, f"same_{datatype}", zoo.reshaping(zoo.TYPES[datatype]))
    zoo.write_plain(repository, "pair", zoo.addition())
    zoo.write_plain(repository, "counting", zoo.counting())
    zoo.write_model(repository, "batched", zoo.dense(), config="max_batch_size: 4 dynamic_batching {}")
    with Serving(repository, limits={"message_bytes": LIMIT, "total_bytes": 4 * LIMIT}) as service:
        yield service.wait_ready()


@pytest.fixture
def client(serving: Serving) -> Iterator[Any]:
    with triton.InferenceServerClient(serving.http) as found:
        yield found


def given(name: str, array: "np.ndarray[Any, Any]", *, binary: bool = True) -> Any:
    tensor = triton.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
    tensor.set_data_from_numpy(array, binary_data=binary)
    return tensor


def ask(
    serving: Serving, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
) -> tuple[int, Any]:
    """Makes a request without a client's library; returns the status and the document."""
    host, port = serving.http.split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    # A server may refuse a request that is too large before it has received all of it.
    with contextlib.suppress(BrokenPipeError):
        connection.request(method, path, content, headers or {})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    is_json = answer.getheader("content-type") == "application/json" and text
    return answer.status, json.loads(text) if is_json else text


def test_server_and_models_describe_themselves(client: Any, serving: Serving) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("batched", "1")
    assert not client.is_model_ready("missing")
    assert "binary_tensor_data" in client.get_server_metadata()["extensions"]
    assert client.get_model_metadata("batched")["inputs"] == [
        {"name": "x", "datatype": "FP32", "shape": [-1, 4]}
    ]
    assert client.get_model_config("batched")["max_batch_size"] == 4
    index = {each["name"]: each["state"] for each in client.get_model_repository_index()}
    assert index["pair"] == "READY"
    assert client.get_inference_statistics()["model_stats"]
    assert client.get_trace_settings()["trace_level"] == ["OFF"]
    assert client.get_log_settings()["log_info"] is True
    assert ask(serving, "GET", "/v2/models/batched/versions/1/stats")[0] == 200


@pytest.mark.parametrize("datatype", ["FP32", "INT8", "BOOL", "UINT64", "BYTES"])
@pytest.mark.parametrize("binary", [True, False])
def test_elements_of_every_kind(client: Any, datatype: str, binary: bool) -> None:
    if datatype == "BYTES":
        values: Any = np.array([[b"a", b"", "ä".encode(), b"d"]], object)
    else:
        dtype = {"FP32": "f4", "INT8": "i1", "UINT64": "u8", "BOOL": "?"}[datatype]
        values = np.array([[0, 1, 1, 0]], dtype)
    wanted = [triton.InferRequestedOutput("y", binary_data=binary)]
    result = client.infer(f"same_{datatype}", [given("x", values, binary=binary)], outputs=wanted)
    assert [each.encode() if isinstance(each, str) else each for each in result.as_numpy("y").tolist()] == (
        values[0].tolist()
    )


def test_plain_json_without_a_library(serving: Serving) -> None:
    nested = {
        "inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [[1, 2.5, 3, 4]]}],
        "id": "a",
    }
    status, answer = ask(serving, "POST", "/v2/models/same_FP32/infer", nested)
    assert (status, answer["id"]) == (200, "a")
    assert answer["outputs"] == [{"name": "y", "datatype": "FP32", "shape": [4], "data": [1, 2.5, 3, 4]}]


def answered_headers(serving: Serving, path: str, body: Any, headers: dict[str, str]) -> dict[str, str]:
    """Makes a request; returns the headers of its answer."""
    host, port = serving.http.split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    connection.request("POST", path, json.dumps(body).encode(), headers)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    assert answer.status == 200
    return {name.lower(): value for name, value in answer.getheaders()}


def body_of(call: str) -> dict[str, Any]:
    """Returns the body of an inference of the model `same_FP32`."""
    if call != "infer":
        return {"x": [1.0, 2.0, 3.0, 4.0]}
    return {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}


@pytest.mark.parametrize("call", ["infer", "generate", "generate_stream"])
def test_clients_that_spread_requests_are_told_the_load(serving: Serving, call: str) -> None:
    path, body = f"/v2/models/same_FP32/{call}", body_of(call)
    for _ in range(2):
        found = answered_headers(serving, path, body, {"endpoint-load-metrics-format": "json"})
        form, _, text = found["endpoint-load-metrics"].partition(" ")
        assert form == "JSON"
        load = json.loads(text)
        assert 0 <= load["cpu_utilization"] <= 1
        assert 0 < load["mem_utilization"] < 1
        assert load["named_metrics"] == {"pending_request_count": 0}
    found = answered_headers(serving, path, body, {"Endpoint-Load-Metrics-Format": "text"})
    assert found["endpoint-load-metrics"].startswith("TEXT cpu_utilization=")
    for headers in ({}, {"endpoint-load-metrics-format": "yaml"}):
        assert "endpoint-load-metrics" not in answered_headers(serving, path, body, headers)


def test_clients_that_may_not_ask_for_statistics_are_told_no_load(tmp_path: Path) -> None:
    zoo.write_plain(tmp_path, "same_FP32", zoo.reshaping())
    with Serving(tmp_path, http_restricted_api=("statistics:secret=one",)) as service:
        service.wait_ready()
        for secret, is_told in (("one", True), ("two", False)):
            headers = {"endpoint-load-metrics-format": "json", "secret": secret}
            path = "/v2/models/same_FP32/infer"
            found = answered_headers(service, path, body_of("infer"), headers)
            assert ("endpoint-load-metrics" in found) is is_told


def test_everything_is_binary_on_request(client: Any) -> None:
    result = client.infer("pair", [given("a", X.astype(np.int32)), given("b", X.astype(np.int32))])
    assert result.as_numpy("sum").tolist() == [[2, 4, 6, 8]]
    assert "binary_data_size" in result.get_output("sum")["parameters"]


def test_compressed_requests(client: Any, serving: Serving) -> None:
    for algorithm in ("gzip", "deflate"):
        result = client.infer("same_FP32", [given("x", X)], request_compression_algorithm=algorithm)
        assert result.as_numpy("y").tolist() == X[0].tolist()
    bomb = gzip.compress(b" " * (LIMIT * 20))
    status, answer = ask(serving, "POST", "/v2/models/same_FP32/infer", bomb, {"Content-Encoding": "gzip"})
    assert status == 400
    assert "bytes" in answer["error"]


MALFORMED = {
    "no JSON": b"{",
    "no inputs": {"id": "a"},
    "deep": b'{"inputs":' + b"[" * 100_000,
    "deep data": b'{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":'
    + b"[" * 5000
    + b"]" * 5000
    + b"}]}",
    "negative length": {"inputs": [{"name": "x", "shape": [-1, 4], "datatype": "FP32", "data": [1]}]},
    "few elements": {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1]}]},
    "ragged": {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [[1, 2], [3], [4]]}]},
    "text": {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": ["1", "2", "3", "4"]}]},
    "no UTF-8": b'{"inputs":[{"name":"x","shape":[1],"datatype":"BYTES","data":["\xff"]}]}',
    "no data": {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32"}]},
    "type": {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP17", "data": [1, 2, 3, 4]}]},
    "region": {
        "inputs": [
            {"name": "x", "shape": [1, 4], "datatype": "FP32", "parameters": {"shared_memory_region": "r"}}
        ]
    },
    "size": {
        "inputs": [
            {"name": "x", "shape": [1, 4], "datatype": "FP32", "parameters": {"binary_data_size": 2**70}}
        ]
    },
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_malformed_requests_are_refused(serving: Serving, kind: str) -> None:
    status, answer = ask(serving, "POST", "/v2/models/same_FP32/infer", MALFORMED[kind])
    assert status == 400, answer
    assert answer["error"]


def test_lengths_that_do_not_fit_are_refused(serving: Serving) -> None:
    path = "/v2/models/same_FP32/infer"
    for length in ("-1", "99999", "x", "9" * 30):
        headers = {"Inference-Header-Content-Length": length}
        status, document = ask(serving, "POST", path, b"{}", headers)
        assert status == 400
        if not length.isdigit() or len(length) > 18:
            message = f"the header Inference-Header-Content-Length is '{length}'; a length in bytes"
            assert message in document["error"]
    body = json.dumps(
        {
            "inputs": [
                {"name": "x", "shape": [1, 4], "datatype": "FP32", "parameters": {"binary_data_size": 16}}
            ]
        }
    ).encode()
    headers = {"Inference-Header-Content-Length": str(len(body))}
    assert ask(serving, "POST", path, body + bytes(16), headers)[0] == 200
    assert ask(serving, "POST", path, body + bytes(15), headers)[0] == 400
    assert ask(serving, "POST", path, body + bytes(17), headers)[0] == 400
    status, document = ask(serving, "POST", path, bytes(2 * LIMIT))
    assert status == 400
    assert document["error"].endswith("Use --http-max-input-size to increase the limit.")
    # What is behind the JSON counts as well where tensors may follow it, and only there.
    header = {"Inference-Header-Content-Length": "10"}
    for call, noun in (("infer", "request size"), ("generate", "request JSON size")):
        status, document = ask(serving, "POST", f"/v2/models/pair/{call}", bytes(2 * LIMIT), header)
        assert (status, f"{noun} of" in document["error"]) == (400, True), document


def test_requests_that_the_end_of_the_service_cuts_short_are_unavailable() -> None:
    sent: list[Any] = []

    async def run() -> None:
        begun = asyncio.Event()

        async def load(model: str, parameters: object) -> None:
            begun.set()
            await asyncio.sleep(60)

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(event: Any) -> None:
            sent.append(event)

        task = asyncio.create_task(app_of(SimpleNamespace(load=load))(request_scope("load"), receive, send))
        await begun.wait()
        task.cancel()
        await task

    asyncio.run(run())
    assert sent[0]["status"] == 503
    assert b"is stopping" in sent[1]["body"]


def test_errors_have_the_status_that_clients_expect(client: Any, serving: Serving) -> None:
    assert ask(serving, "GET", "/v2/models/missing")[0] == 404
    assert ask(serving, "POST", "/v2/models/missing/infer", {"inputs": []})[0] == 404
    assert ask(serving, "GET", "/v2/models/batched/infer")[0] == 405
    assert ask(serving, "GET", "/v1")[0] == 404
    assert ask(serving, "POST", "/v2/repository/models/..%2Fpair/load")[0] == 400
    assert ask(serving, "POST", "/v2/repository/models/missing/load")[0] == 404
    assert ask(serving, "POST", "/v2/repository/models/pair/load", b"[]")[0] == 400
    assert ask(serving, "POST", "/v2/systemsharedmemory/region/r/register", b"{}")[0] == 400
    with pytest.raises(InferenceServerException, match="allow-client-shm"):
        client.register_system_shared_memory("r", "/r", 16)
    with pytest.raises(InferenceServerException, match="longer"):
        client.infer("counting", [given("x", np.array(2**31 - 1, np.int32))], timeout=100_000)
    with pytest.raises(InferenceServerException, match="longer"):
        client.infer(
            "counting",
            [given("x", np.array(2**31 - 1, np.int32))],
            headers={"x-envoy-expected-rq-timeout-ms": "100"},
        )


def test_models_are_loaded_and_unloaded(client: Any) -> None:
    client.unload_model("pair")
    assert not client.is_model_ready("pair")
    client.load_model("pair", config=json.dumps({"max_batch_size": 4}))
    assert client.get_model_config("pair")["max_batch_size"] == 4
    # It keeps its configuration until it is unloaded.
    client.load_model("pair")
    assert client.get_model_config("pair")["max_batch_size"] == 4
    client.unload_model("pair")
    client.load_model("pair")
    assert client.get_model_config("pair")["max_batch_size"] == 0


def test_metrics_have_the_names_of_triton(client: Any, serving: Serving) -> None:
    client.infer("same_FP32", [given("x", X)])
    status, text = ask(serving, "GET", "/metrics")
    assert status == 200
    assert b'nv_inference_request_success{model="same_FP32",version="1"}' in text
    # Nothing that has an answer is counted any more.
    assert b"neurald_request_bytes 0\n" in text
    memory = dict(re.findall(rb"^neurald_front_end_(live|resident)_bytes (\d+)$", text, re.M))
    assert all(5 << 20 < int(memory[kind]) < 1 << 30 for kind in (b"live", b"resident")), memory
    assert re.search(rb"^nv_cpu_utilization (0|1|0\.\d+)$", text, re.M)
    assert re.search(rb"^nv_cpu_memory_used_bytes \d+$", text, re.M)


def failures(serving: Serving) -> dict[str, int]:
    """Returns the number of failed requests of the model "counting" by reason."""
    text = ask(serving, "GET", "/metrics")[1].decode()
    found = re.findall(
        r'^nv_inference_request_failure{model="counting",reason="(\w+)",version="1"} (\d+)$', text, re.M
    )
    return {reason: int(count) for reason, count in found}


def request_bytes(serving: Serving) -> int:
    """Returns how many bytes of requests the service has that have no answer."""
    found = re.search(rb"^neurald_request_bytes (\d+)$", ask(serving, "GET", "/metrics")[1], re.M)
    assert found is not None
    return int(found[1])


def test_clients_that_leave_free_the_model(client: Any, serving: Serving) -> None:
    host, port = serving.http.split(":")
    body = json.dumps(
        {"inputs": [{"name": "x", "shape": [], "datatype": "INT32", "data": [2**31 - 1]}]}
    ).encode()
    before = failures(serving)
    for _ in range(4):
        with socket.create_connection((host, int(port))) as connection:
            # The beginning of the next request does not keep this one from being stopped.
            next_head = b"GET /v2"
            head = (
                f"POST /v2/models/counting/infer HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            connection.sendall(head.encode() + body + next_head)
            wait_until(lambda: request_bytes(serving))
        wait_until(lambda: not request_bytes(serving))
    result = client.infer("counting", [given("x", np.array(3, np.int32))])
    assert result.as_numpy("y") == 3
    wait_until(lambda: failures(serving)["CANCELED"] == before["CANCELED"] + 4)
    assert failures(serving) == {**before, "CANCELED": before["CANCELED"] + 4}


def test_requests_of_one_connection_are_answered_in_order(serving: Serving) -> None:
    """Requests before the answer, one with an empty answer, and one with an awaited body."""
    host, port = serving.http.split(":")
    body = json.dumps(
        {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}
    ).encode()
    infer = f"POST /v2/models/same_FP32/infer HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n"
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(
            b"HEAD /v2 HTTP/1.1\r\nHost: a\r\n\r\nGET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n"
        )
        connection.sendall(infer.encode() + b"\r\n" + body)
        received = b""
        while b"[1.0,2.0,3.0,4.0]" not in received:
            received += connection.recv(4096)
        connection.sendall(infer.encode() + b"Expect: 100-continue\r\n\r\n")
        while not received.endswith(b"100 Continue\r\n\r\n"):
            received += connection.recv(4096)
        connection.sendall(body)
        while received.count(b"[1.0,2.0,3.0,4.0]") < 2:
            received += connection.recv(4096)
    codes = re.findall(rb"HTTP/1.1 (\d+)", received)
    assert codes == [b"405", b"200", b"200", b"100", b"200"]


@pytest.mark.parametrize(
    ("line", "field", "status"),
    [
        ("POST /nowhere", "a: b", 404),
        ("DELETE /v2", "a: b", 405),
        ("POST /v2/models/same_FP32/infer", "Inference-Header-Content-Length: x", 400),
        ("POST /v2/models/same_FP32/infer", "Host: b", 400),
        ("POST /v2/models/nothing/infer", "x-envoy-expected-rq-timeout-ms: 100", 404),
    ],
)
def test_clients_that_send_all_before_they_read_get_answers(
    serving: Serving, line: str, field: str, status: int
) -> None:
    """Closing the connection earlier resets it, and most clients report that alone."""
    host, port = serving.http.split(":")
    body = bytes(8 << 20)
    head = f"{line} HTTP/1.1\r\nHost: a\r\n{field}\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(head.encode() + body)
        assert connection.recv(100).startswith(f"HTTP/1.1 {status} ".encode())


@pytest.mark.parametrize("length", [10**11, 10**18, 10**19, 2**64 - 1])
def test_bodies_that_are_too_large_are_refused_before_clients_send_them(
    serving: Serving, length: int
) -> None:
    host, port = serving.http.split(":")
    head = (
        "POST /v2/models/same_FP32/infer HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
        f"Content-Length: {length}\r\n\r\n"
    )
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(head.encode())
        with connection.makefile("rb") as received:
            answer = received.read()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"connection: close" in answer
    assert f"{length} bytes exceeds".encode() in answer


def test_requests_that_would_upgrade_are_answered_without(serving: Serving) -> None:
    """As Java's client sends them, unless it is told to speak only HTTP/1.1."""
    host, port = serving.http.split(":")
    body = json.dumps(
        {"inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]}]}
    ).encode()
    head = (
        "POST /v2/models/same_FP32/infer HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\n"
        f"Content-Length: {len(body)}\r\nHost: a\r\nHTTP2-Settings: AAEAAEAA\r\nUpgrade: h2c\r\n\r\n"
    ).encode()
    for packets in ([head + body], [head, body], [head[:50], head[50:] + body[:10], body[10:]]):
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            for packet in (*packets, *packets):
                connection.sendall(packet)
                time.sleep(0.01)
            received = b""
            while received.count(b"[1.0,2.0,3.0,4.0]") < 2:
                part = connection.recv(4096)
                assert part, received
                received += part
    assert ask(serving, "CONNECT", "a:1")[0] == 501


def test_idle_connections_make_room_for_others(tmp_path: Path) -> None:
    zoo.write_plain(tmp_path, "counting", zoo.counting())
    with Serving(tmp_path, limits={"connections": 3}) as service, contextlib.ExitStack() as stack:
        service.wait_ready()
        host, port = service.http.split(":")

        def connected() -> socket.socket:
            return stack.enter_context(socket.create_connection((host, int(port)), timeout=60))

        idle = [connected() for _ in range(3)]
        assert ask(service, "GET", "/v2/health/live")[0] == 200
        assert idle[0].recv(1) == b"", "the one that was idle for the longest time is closed"
        body = json.dumps(
            {"inputs": [{"name": "x", "shape": [], "datatype": "INT32", "data": [2**31 - 1]}]}
        ).encode()
        head = (
            "POST /v2/models/counting/infer HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        # Those with a request stay, and the next ones are told to come again.
        busy = [connected() for _ in range(3)]
        for each in busy:
            each.sendall(head.encode())
            assert each.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
            each.sendall(body)
        assert ask(service, "GET", "/v2/health/live")[0] == 503
        for each in busy:
            each.setblocking(False)
            with pytest.raises(BlockingIOError):
                each.recv(1)
        busy[0].close()
        wait_until(lambda: ask(service, "GET", "/v2/health/live")[0] == 200)


def test_versions_have_only_digits_of_ascii(serving: Serving) -> None:
    for version in ("%D9%A1", "1%20", "+1", "1_0"):
        assert ask(serving, "GET", f"/v2/models/same_FP32/versions/{version}")[0] == 400


@sweep(
    ("fields", "status", "text"),
    [
        ("", 400, b"has 0 headers Host"),
        ("Host: a\r\nHost: a\r\n", 400, b"has 2 headers Host"),
        ("Host: a b\r\n", 400, b"the header Host is 'a b'"),
        ("Host: a\r\nTransfer-Encoding: gzip, chunked\r\n", 501, b"Transfer-Encoding is 'gzip, chunked'"),
    ],
)
@sweep("method", ["POST", "GET"])
def test_heads_that_a_proxy_may_read_otherwise_are_refused(
    serving: Serving, method: str, fields: str, status: int, text: bytes
) -> None:
    """Bytes that follow on the connection, a body for a proxy, are not answered as a request."""
    host, port = serving.http.split(":")
    body = "0\r\n\r\n" if "chunked" in fields else ""
    request = f"{method} /v2/repository/index HTTP/1.1\r\n{fields}\r\n{body}"
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(request.encode() + b"GET /v2 HTTP/1.1\r\nHost: a\r\n\r\n")
        received = b"".join(iter(lambda: connection.recv(4096), b""))
    assert received.startswith(b"HTTP/1.1 %d " % status)
    assert len(re.findall(rb"HTTP/1.1 \d", received)) == 1
    assert text in received
    assert json.loads(received.partition(b"\r\n\r\n")[2])["error"]


@sweep(
    ("version", "fields"),
    [
        ("1.0", ""),
        ("1.1", "Host:\r\n"),
        ("1.1", "Host: a-b.example:8000\r\n"),
        ("1.1", "Host: [::1]:8000\r\n"),
        ("1.1", "Host: a\r\nTransfer-Encoding: Chunked\r\n"),
    ],
)
def test_heads_of_every_kind_of_client_are_taken(serving: Serving, version: str, fields: str) -> None:
    host, port = serving.http.split(":")
    body = "0\r\n\r\n" if "Chunked" in fields else ""
    request = f"POST /v2/repository/index HTTP/{version}\r\n{fields}Connection: close\r\n\r\n{body}"
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(request.encode())
        received = b"".join(iter(lambda: connection.recv(4096), b""))
    assert received.startswith(b"HTTP/1.1 200 ")


def test_large_heads_are_refused_that_come_at_once(serving: Serving) -> None:
    host, port = serving.http.split(":")
    for head in (b"GET /v2?" + b"a" * 20_000, b"GET /v2 HTTP/1.1\r\nX-Long: " + b"a" * 20_000):
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(head + b" HTTP/1.1\r\n\r\n")
            assert connection.recv(12) == b"HTTP/1.1 431"
    assert ask(serving, "GET", "/v2", headers={"X-Long": "a" * 16_000})[0] == 200


def test_heads_without_end_are_cut(serving: Serving) -> None:
    host, port = serving.http.split(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(b"GET /v2 HTTP/1.1\r\nX-Long: ")

        def is_cut() -> bool:
            try:
                connection.sendall(b"a" * 4096)
            except OSError:
                return True
            return False

        wait_until(is_cut)
    assert ask(serving, "GET", "/v2/health/live")[0] == 200


def test_much_json_is_answered(serving: Serving) -> None:
    elements = "[" + ", ".join(f"{each}.{'0' * 80_000}" for each in (1, 2, 3, 4)) + "]"
    body = f'{{"inputs": [{{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": {elements}}}]}}'
    status, document = ask(serving, "POST", "/v2/models/same_FP32/infer", body.encode())
    assert status == 200
    assert document["outputs"][0]["data"] == [1, 2, 3, 4]
    status, document = ask(serving, "POST", "/v2/models/same_FP32/infer", body[:-1].encode())
    assert status == 400
    assert "JSON" in document["error"]
