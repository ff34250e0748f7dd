"""Headers that become parameters of inferences."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.inference import zoo
from support.inference.serving import Serving
from support.waiting import wait_until

from neurald.hal.errors import BadData
from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.server.admission.header_forwarding import ForwardedHeaders

pytest.importorskip("tritonclient.http", reason="the group test is not installed")
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

RESERVED = [
    "sequence_id",
    "sequence_start",
    "sequence_end",
    "priority",
    "timeout",
    "headers",
    "binary_data_output",
    "triton_enable_empty_final_response",
    "triton_grpc_error",
]


def test_names_are_looked_for_in_any_case() -> None:
    headers = ((b"my_header_1", b"one"), (b"x-my_header", 'q"\\ é'.encode()), (b"other", b"two"))
    expected = {"my_header_1": "one", "x-my_header": 'q"\\ é'}
    assert ForwardedHeaders("MY_HEADER.*").of_http(headers) == expected
    assert ForwardedHeaders("(?-i)MY_HEADER.*").of_http(headers) == {}
    assert ForwardedHeaders("(?-i)^my_").of_http(headers) == {"my_header_1": "one"}
    assert ForwardedHeaders().of_http(headers) == {}
    assert ForwardedHeaders("(?-i)").of_http(headers) == {"other": "two", **expected}


def test_secrets_and_bytes_are_never_forwarded() -> None:
    forwarded = ForwardedHeaders(".*", secret=("infer-key",))
    sent: list[tuple[str, str | bytes]] = [
        ("authorization", "Bearer one"),
        ("infer-key", "two"),
        ("cookie", "three"),
        ("a-bin", b"\xff"),
        ("user-agent", "four"),
    ]
    assert forwarded.of_grpc(sent) == {"user-agent": "four"}


@pytest.mark.parametrize("name", RESERVED)
def test_headers_that_are_parameters_of_the_protocol(name: str) -> None:
    message = f"Header '{name}' is reserved for Triton usage and cannot be forwarded."
    for pattern in (".*", name.upper()):
        with pytest.raises(ServiceError, match=message) as caught:
            ForwardedHeaders(pattern).of_grpc([(name, "1")])
        assert caught.value.status is Status.INVALID
    assert ForwardedHeaders("^my").of_grpc([(name, "1")]) == {}


def test_a_pattern_that_is_none() -> None:
    with pytest.raises(BadData, match=r"--http-header-forward-pattern '\(' is not a regular expression"):
        ForwardedHeaders("(", option="--http-header-forward-pattern")


def tensors(module: Any) -> list[Any]:
    tensor = module.InferInput("x", [1, 4], "FP32")
    tensor.set_data_from_numpy(np.zeros((1, 4), np.float32))
    return [tensor]


def test_forwarded_headers_of_all_calls(tmp_path: Path) -> None:
    """They ask for a receipt, are in traces, and are checked in each request, also in regions."""
    repository, file = tmp_path / "models", tmp_path / "trace.json"
    repository.mkdir()
    zoo.write_plain(repository, "same", zoo.reshaping())
    pattern = "^(x-.*|receipt|priority)$"
    with Serving(
        repository,
        http_header_forward_pattern=pattern,
        grpc_header_forward_pattern=pattern,
        trace={"file": str(file), "level": "TIMESTAMPS", "rate": 1},
    ) as service:
        service.wait_ready()
        with triton_http.InferenceServerClient(service.http) as client:
            for module, place in ((triton_http, service.http), (triton_grpc, service.grpc)):
                with module.InferenceServerClient(place) as each:
                    for receipt in ("true", "false"):
                        headers = {"x-id": receipt, "receipt": receipt, "other": "2"}
                        given = {"x-id": "of the body", "own": 1}
                        found = each.infer("same", tensors(module), headers=headers, parameters=given)
                        answer = found.get_response()
                        answer = answer if isinstance(answer, dict) else {"parameters": answer.parameters}
                        assert ("receipt" in answer.get("parameters", {})) is (receipt == "true")
                    with pytest.raises(InferenceServerException, match="is reserved for Triton usage"):
                        each.infer("same", tensors(module), headers={"priority": "1"})
            body = json.dumps({"x": [0, 0, 0, 0]}).encode()
            generated = client._post("v2/models/same/generate", body, {"receipt": "true"}, {})
            assert "receipt" in json.loads(generated.read())
        wait_until(lambda: file.exists() and file.read_text().count("REQUEST_END") == 5)
    described = [each["parameters"] for each in json.loads(file.read_text()) if "model_name" in each]
    for first, second in (described[:2], described[2:4]):
        assert {**first, "binary_data_output": True} == {
            "x-id": "true",
            "receipt": "true",
            "own": 1,
            "binary_data_output": True,
        }
        assert second["x-id"] == "false"
    assert described[4] == {"receipt": "true"}


def test_a_known_request_with_headers(tmp_path: Path) -> None:
    """A request whose bytes have come before is told apart by what its headers add."""
    shm = pytest.importorskip("tritonclient.utils.shared_memory")
    zoo.write_plain(tmp_path, "same", zoo.reshaping())
    with Serving(
        tmp_path,
        allow_client_shm=True,
        http_header_forward_pattern=".",
        grpc_header_forward_pattern="receipt",
    ) as service:
        service.wait_ready()
        region = shm.create_shared_memory_region("r", f"/neurald_{tmp_path.name}_{service.process.pid}", 16)
        try:
            with triton_grpc.InferenceServerClient(service.grpc) as client:
                client.register_system_shared_memory(
                    "r", f"/neurald_{tmp_path.name}_{service.process.pid}", 16
                )
                given = triton_grpc.InferInput("x", [1, 4], "FP32")
                given.set_shared_memory("r", 16)
                for headers in ({}, {}, {"receipt": "true"}, {}, {"receipt": "true"}):
                    answer = client.infer("same", [given], headers=headers).get_response()
                    assert ("receipt" in answer.parameters) is bool(headers)
            with triton_http.InferenceServerClient(service.http) as client:
                given = triton_http.InferInput("x", [1, 4], "FP32")
                given.set_shared_memory("r", 16)
                wanted = [triton_http.InferRequestedOutput("y", binary_data=False)]
                for headers in ({}, {}, {"receipt": "true"}, {}, {"receipt": "true"}):
                    answer = client.infer("same", [given], outputs=wanted, headers=headers).get_response()
                    assert ("receipt" in answer.get("parameters", {})) is bool(headers)
        finally:
            shm.destroy_shared_memory_region(region)
