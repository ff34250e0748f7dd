"""Numbers that JSON or NumPy has not, and many elements; all else is tested over HTTP."""

import json
from typing import Any

import numpy as np
import pytest
from support.sweeps import sweep

from neurald.hal.lanes.opening import TensorDescription
from neurald.service.inference.protocol import json_encoding
from neurald.service.inference.protocol.errors import ServiceError
from neurald.service.inference.protocol.generate_encoding import (
    decode_generate_request,
    encode_generate_answer,
)
from neurald.service.inference.protocol.json_encoding import checked_request, encode_answer, parse_request
from neurald.service.inference.protocol.regions import NoRegions
from neurald.service.inference.protocol.tensors import (
    Bytes,
    InferenceAnswer,
    InferenceRequest,
    InputTensor,
    OutputTensor,
)

SPECIAL = np.array([np.nan, np.inf, -np.inf, 1.5], np.float32)


def request_of(body: bytes, header_bytes: int | None = None) -> InferenceRequest:
    return checked_request("m", "", parse_request(body, header_bytes), NoRegions())


def decoded(data: str, datatype: str = "FP32", count: int = 4, binary: bytes | None = None) -> InputTensor:
    text = f'{{"id": "NaN Infinity \\" \\\\", "inputs": [{{"name": "x", "datatype": "{datatype}", '
    body = (text + f'"shape": [{count}], "data": {data}}}]}}').encode()
    request = request_of(body + (binary or b""), None if binary is None else len(body))
    assert request.id == 'NaN Infinity " \\'
    return request.inputs[0]


@pytest.mark.parametrize(
    "data",
    [
        "[NaN, Infinity, -Infinity, 1.5]",
        '["NaN", "Infinity", "-Infinity", 1.5]',
        "[[NaN,Infinity],[-Infinity,1.5]]",
    ],
)
@pytest.mark.parametrize("binary", [None, b""])
def test_special_numbers_are_understood(data: str, binary: bytes | None) -> None:
    source = decoded(data, binary=binary).source
    assert isinstance(source, Bytes)
    found = bytearray(source.size)
    source.copy_into(memoryview(found))
    assert np.array_equal(np.frombuffer(found, np.float32), SPECIAL, equal_nan=True)


@pytest.mark.parametrize(
    ("data", "datatype", "count"),
    [
        ("[NaN]", "INT32", 1),
        ("[Infinity]", "BOOL", 1),
        ('["nan"]', "FP32", 1),
        ('[{"NaN": 1}]', "FP32", 1),
        ('"NaN"', "FP32", 1),
        ("[NaN, 1]", "FP32", 3),
        ("[--Infinity]", "FP32", 1),
        ("[NaNs]", "FP32", 1),
        ('[NaN, "' + '\\"' * 1000, "FP32", 1),
    ],
)
def test_others_are_refused(data: str, datatype: str, count: int) -> None:
    with pytest.raises(ServiceError, match=r"data|JSON"):
        decoded(data, datatype, count)


def test_texts_keep_the_words() -> None:
    source = decoded('["NaN", "a\\"Infinity"]', "BYTES", 2).source
    assert source.size == 2 * 4 + 3 + 10


def test_much_json_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_encoding, "_MAX_SPECIAL_BYTES", 10)
    with pytest.raises(ServiceError, match="malformed"):
        decoded("[NaN]", count=1)


def test_answers_have_them() -> None:
    data = memoryview(SPECIAL.tobytes())
    output = OutputTensor(name="y", datatype="FP32", shape=(4,), data=data)
    one = OutputTensor(name="z", datatype="FP32", shape=(1,), data=data[4:8])
    answer = InferenceAnswer(model="m", version="1", id="", outputs=(output, one), parameters={})
    body, _ = encode_answer(answer)
    assert b'"data":[NaN, Infinity, -Infinity, 1.5]' in body
    first, second = json.loads(body)["outputs"]
    assert np.array_equal(first["data"], SPECIAL, equal_nan=True)
    assert second["data"] == [np.inf]
    assert json.loads(encode_generate_answer(answer))["z"] == np.inf


@pytest.mark.parametrize("place", ["request", "input", "output"])
@pytest.mark.parametrize(("count", "is_right"), [(1024, True), (1025, False)])
def test_there_are_few_parameters(place: str, count: int, is_right: bool) -> None:
    parameters = {f"p{number}": number for number in range(count)}
    request: dict[str, Any] = {
        "inputs": [{"name": "x", "datatype": "INT8", "shape": [1], "data": [1]}],
        "outputs": [{"name": "y"}],
    }
    target = {"request": request, "input": request["inputs"][0], "output": request["outputs"][0]}[place]
    target["parameters"] = parameters
    body = json.dumps(request).encode()
    if is_right:
        assert request_of(body).model == "m"
    else:
        with pytest.raises(ServiceError, match="there are 1025 parameters; 1024 may be"):
            request_of(body)


@sweep(
    ("value", "is_right"),
    [(2**64 - 1, True), (-(2**63), True), (2**64, False), (-(2**63) - 1, False), (10**400, False)],
    ids=range(5),
)
@sweep("name", ["timeout", "priority", "mine"])
def test_integers_of_parameters_fit_those_of_grpc(name: str, value: int, is_right: bool) -> None:
    request: dict[str, Any] = {
        "inputs": [{"name": "x", "datatype": "INT8", "shape": [1], "data": [1]}],
        "parameters": {name: value},
    }
    body = json.dumps(request).encode()
    plain = json.dumps({"x": 1, name: value}).encode()
    inputs = [TensorDescription(name="x", kind="int8", shape=(1,))]
    if is_right:
        assert request_of(body).parameters == {name: value}
        assert decode_generate_request("m", "", plain, inputs).parameters == {name: value}
        return
    message = f"the parameter '{name}' is an integer of {value.bit_length()} bits"
    with pytest.raises(ServiceError, match=message):
        request_of(body)
    with pytest.raises(ServiceError, match=message):
        decode_generate_request("m", "", plain, inputs)


def test_many_members_are_refused_before_they_are_parsed() -> None:
    body = json.dumps({"inputs": [], "parameters": {f"p{number}": 1 for number in range(40_000)}}).encode()
    with pytest.raises(ServiceError, match="40002 members of objects"):
        request_of(body)
    text = json.dumps({f"p{number}": 1 for number in range(40_000)})
    given = {"inputs": [{"name": "x", "datatype": "BYTES", "shape": [1], "data": [text]}]}
    assert request_of(json.dumps(given).encode()).inputs[0].source.size > len(text)


def parsed(elements: str, count: int, datatype: str = "FP32") -> memoryview:
    """Returns the bytes of the only input of a request in JSON."""
    body = (
        f'{{"inputs": [{{"name": "x", "datatype": "{datatype}", "shape": [{count}], "data": {elements}}}]}}'
    )
    request = checked_request("m", "", parse_request(body.encode(), None), NoRegions())
    target = bytearray(request.inputs[0].source.size)
    request.inputs[0].source.copy_into(memoryview(target))
    return memoryview(target)


@pytest.mark.parametrize("datatype", ["FP32", "INT8", "BOOL", "UINT64"])
def test_many_elements_are_parsed_in_parts(datatype: str) -> None:
    count = 200_003
    numbers = np.random.default_rng(0).integers(0, 128, count)
    values: Any = {"FP32": numbers / 7, "BOOL": numbers > 64}.get(datatype, numbers)
    dtype = {"FP32": np.float32, "INT8": np.int8, "BOOL": np.bool_, "UINT64": np.uint64}[datatype]
    text = json.dumps(values.tolist())
    assert np.array_equal(np.frombuffer(parsed(text, count, datatype), dtype), values.astype(dtype))
    nested = json.dumps(values[: count - 3].reshape(-1, 8).tolist())
    flat = values[: count - 3].astype(dtype)
    assert np.array_equal(np.frombuffer(parsed(nested, count - 3, datatype), dtype), flat)


def test_many_wrong_elements_are_refused() -> None:
    count = 200_000
    text = json.dumps([1] * count)
    for elements, expected, message in (
        (text, count + 1, "Failed to parse 'data' field: shape does not match true shape"),
        (text, count - 1, "Shape does not match true shape of 'data' field"),
        (text[:-1] + ", 300]", count + 1, "beyond the range of INT8"),
        (text[:-1] + ', "a"]', count + 1, "not understood|elements that are not INT8"),
        (text[:-1] + ",]", count, "trailing comma"),
        (f'"{text}"', count, "attempt to access JSON non-array as array"),
        (f'{{"x": {text}}}', count, "attempt to access JSON non-array as array"),
    ):
        with pytest.raises(ServiceError, match=message):
            parsed(elements, expected, "INT8")
    assert not parsed("[" + " " * count * 2 + "]", 0).nbytes
