"""The calls `generate` and `generate_stream`."""

import http.client
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.inference import zoo
from support.inference.serving import Serving
from support.sweeps import sweep

from neurald.hal.lanes.opening import TensorDescription
from neurald.service.inference.protocol.errors import ServiceError
from neurald.service.inference.protocol.generate_encoding import decode_generate_request


def described(shape: tuple[int, ...] | None, kind: str = "float32", name: str = "x") -> TensorDescription:
    return TensorDescription(name=name, kind=kind, shape=shape, scale=0.0, zero_point=0)


def decoded(document: Any, *inputs: TensorDescription) -> Any:
    return decode_generate_request("m", "", json.dumps(document).encode(), inputs)


@sweep(
    ("shape", "value", "expected"),
    [
        ((1,), 1.5, (1,)),
        ((1, 4), [1, 2, 3, 4], (1, 4)),
        ((-1, 2), [1, 2, 3, 4], (2, 2)),
        ((-1, -1), [1, 2, 3], (1, 3)),
        ((-1, 1), 7, (1, 1)),
        ((), 7, ()),
        (None, [1, 2], (2,)),
        ((-1,), [], (0,)),
    ],
    ids=range(8),
)
def test_shapes_follow_from_the_model(shape: tuple[int, ...] | None, value: Any, expected: Any) -> None:
    (tensor,) = decoded({"x": value}, described(shape)).inputs
    assert tensor.shape == expected
    content = memoryview(bytearray(tensor.source.size))
    tensor.source.copy_into(content)
    assert np.frombuffer(content, np.float32).tolist() == np.ravel(value).tolist()


def test_other_names_are_parameters() -> None:
    found = decoded({"x": "😀", "id": "7", "a": 1, "parameters": {"b": True}}, described((1,), "bytes"))
    assert (found.id, found.parameters) == ("7", {"a": 1, "b": True})
    assert found.inputs[0].datatype == "BYTES"


def test_inputs_may_be_among_parameters() -> None:
    """Finds inputs in the member `parameters`, which may also be an input itself."""
    x, y = described((1,), name="x"), described((2,), name="y")
    found = decoded({"x": 1, "parameters": {"y": [2, 3], "b": True}}, x, y)
    assert ([each.name for each in found.inputs], found.parameters) == (["x", "y"], {"b": True})
    (tensor,) = decoded({"parameters": 5}, described((1,), name="parameters")).inputs
    assert (tensor.name, tensor.shape) == ("parameters", (1,))


@sweep(
    ("document", "message"),
    [
        ({"x": [1, 2, 3]}, "can not convert input 'x' to tensor with proper shape"),
        ({"x": ["a", "b"]}, "attempt to access JSON non-number as number"),
        ({"x": [{"a": 1}, {}]}, "attempt to access JSON non-number as number|not understood"),
        ({"y": {"a": 1}}, "parameter 'y' has invalid type"),
        ({"parameters": 1}, "Expected JSON object for keyword: 'parameters'"),
        (
            {"parameters": {"nested": {"twice": 1}}},
            "Converting keyword: 'parameters': parameter 'nested' has invalid type.",
        ),
        (
            {"parameters": {"x": [1, 2, 3]}},
            "Converting keyword: 'parameters': The schema can not convert input 'x'",
        ),
        ({"triton_a": 1}, "reserved for Triton usage"),
        ({"id": 5}, "Unable to parse 'id'"),
        ({"id": "\ud800"}, "failed to parse the request JSON"),
        ({"x": "a\udc00"}, "failed to parse the request JSON"),
        ([], "not an object"),
    ],
    ids=range(12),
)
def test_requests_that_are_refused(document: Any, message: str) -> None:
    with pytest.raises(ServiceError, match=message):
        decoded(document, described((1, 2)))


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"])
def test_bodies_that_are_no_json(body: bytes) -> None:
    with pytest.raises(ServiceError):
        decode_generate_request("m", "", body, [described((1, 2))])


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("models")
    zoo.write_plain(folder, "pair", zoo.addition())
    zoo.write_plain(folder, "text", zoo.reshaping("STRING", 1))
    with Serving(folder, grpc="") as found:
        yield found.wait_ready()


def ask(serving: Serving, path: str, body: str) -> tuple[int, str, str]:
    connection = http.client.HTTPConnection(serving.http, timeout=60)
    connection.request("POST", f"/v2/models/{path}", body)
    answer = connection.getresponse()
    found = answer.status, answer.getheader("Content-Type") or "", answer.read().decode()
    connection.close()
    return found


def test_answers_have_outputs_by_name(serving: Serving) -> None:
    body = json.dumps({"a": [1, 2, 3, 4], "b": [1, 1, 1, 1], "id": "9", "mine": 1.5})
    status, kind, text = ask(serving, "pair/generate", body)
    assert (status, kind) == (200, "application/json")
    assert json.loads(text) == {
        "model_name": "pair",
        "model_version": "1",
        "id": "9",
        "sum": [2, 3, 4, 5],
        "difference": [0, 1, 2, 3],
    }
    assert json.loads(ask(serving, "text/versions/1/generate", '{"x": "hello"}')[2])["y"] == "hello"


def test_events(serving: Serving) -> None:
    status, kind, text = ask(serving, "text/generate_stream", '{"x": ["hello"]}')
    assert (status, kind) == (200, "text/event-stream; charset=utf-8")
    assert text.startswith("data: {")
    assert text.endswith("}\n\n")
    assert json.loads(text.removeprefix("data: "))["y"] == "hello"


def test_errors_are_json(serving: Serving) -> None:
    for call in ("generate", "generate_stream"):
        for body, message in (
            (
                '{"a": [1, 2, 3, 4], "b": [1, 1, 1, 1], "a": [1, 2, 3, 4]}',
                "input 'a' already exists in request",
            ),
            ('{"other": 1}', "expected 2 inputs but got 0 inputs"),
        ):
            status, kind, text = ask(serving, f"pair/{call}", body)
            assert (status, kind) == (400, "application/json"), text
            assert message in json.loads(text)["error"]
        assert ask(serving, f"missing/{call}", "{}")[0] == 404


def test_a_request_has_few_parameters_and_no_million_of_values() -> None:
    x = described((-1,))
    with pytest.raises(ServiceError, match="there are 1025 parameters"):
        decoded({"x": [1], **{f"p{number}": 1 for number in range(1025)}}, x)
    with pytest.raises(ServiceError, match="40001 members of objects"):
        decoded({"x": [1], **{f"p{number}": 1 for number in range(40_000)}}, x)
    with pytest.raises(ServiceError, match="values; 1048576 may be"):
        decode_generate_request("m", "", b'{"x": [1' + b",1" * (1 << 21) + b"]}", (x,))
    text = described((1,), "bytes", "text")
    long = json.dumps({f"p{number}": 1 for number in range(40_000)})
    assert decoded({"text": long}, text).inputs[0].source.size > len(long)
