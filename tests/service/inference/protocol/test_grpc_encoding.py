"""Requests and answers over gRPC, and what is not one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neurald.hal.lanes.byte_strings import encode_byte_strings
from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.protocol.grpc_encoding import (
    decode_request,
    encode_answer,
    encode_stream_answer,
)
from neurald.service.inference.protocol.messages import (
    ModelInferRequest,
    ModelInferResponse,
    ModelStreamInferResponse,
)
from neurald.service.inference.protocol.regions import NoRegions
from neurald.service.inference.protocol.tensors import (
    Bytes,
    InferenceAnswer,
    OutputTensor,
    RegionPlace,
    WantedOutput,
    checked_shape,
)


def message(**fields: object) -> "ModelInferRequest":
    request = ModelInferRequest(model_name="m", id="1", **fields)
    request.inputs.add(name="x", datatype="FP32", shape=[2])
    return request


def decoded(request: "ModelInferRequest") -> "object":
    return decode_request(request.SerializeToString(), NoRegions())


def test_raw_tensors_are_used_where_they_arrived() -> None:
    raw = bytes(range(256)) * 32
    request = message(raw_input_contents=[raw])
    request.parameters["timeout"].int64_param = 5
    request.outputs.add(name="y").parameters["classification"].int64_param = 3
    data = request.SerializeToString()
    found = decode_request(data, NoRegions())
    (tensor,) = found.inputs
    assert isinstance(tensor.source, Bytes)
    assert tensor.source.data.obj is data
    assert bytes(tensor.source.data) == raw
    assert (found.model, found.id, found.parameters) == ("m", "1", {"timeout": 5})
    assert found.outputs[0].classes == 3


def test_classes_are_a_number() -> None:
    request = message(raw_input_contents=[bytes(8)])
    request.outputs.add(name="y").parameters["classification"].string_param = "2"
    with pytest.raises(
        ServiceError, match=r"^invalid value type for 'classification' parameter, expected int64"
    ):
        decoded(request)


@pytest.mark.parametrize("count", [-1, 2**31 + 1, 2**40])
def test_classes_that_cannot_be_wanted(count: int) -> None:
    request = message(raw_input_contents=[bytes(8)])
    request.outputs.add(name="y").parameters["classification"].int64_param = count
    with pytest.raises(ServiceError, match=rf"'y': classification is {count}; an integer from 0 to 2\^31"):
        decoded(request)


@pytest.mark.parametrize(
    ("datatype", "field", "values"),
    [
        ("BOOL", "bool_contents", [True, False]),
        ("INT8", "int_contents", [-128, 127]),
        ("UINT16", "uint_contents", [0, 65535]),
        ("INT64", "int64_contents", [-(2**63), 1]),
        ("UINT64", "uint64_contents", [2**64 - 1, 1]),
        ("FP32", "fp32_contents", [1.5, float("inf")]),
        ("FP64", "fp64_contents", [1e300, -0.0]),
        ("BYTES", "bytes_contents", [b"", b"\xff"]),
    ],
)
def test_elements_in_fields(datatype: str, field: str, values: list[object]) -> None:
    request = ModelInferRequest(model_name="m")
    tensor = request.inputs.add(name="x", datatype=datatype, shape=[2])
    getattr(tensor.contents, field).extend(values)
    (found,) = decode_request(request.SerializeToString(), NoRegions()).inputs
    target = memoryview(bytearray(found.source.size))
    found.source.copy_into(target)
    if datatype == "BYTES":
        strings = np.empty(2, object)
        strings[:] = values
        assert bytes(target) == encode_byte_strings(strings)
    else:
        dtype = {"BOOL": "?", "INT8": "i1", "UINT16": "u2", "INT64": "i8"}.get(datatype)
        dtype = dtype or {"UINT64": "u8", "FP32": "f4", "FP64": "f8"}[datatype]
        assert bytes(target) == np.array(values, dtype).tobytes()


def test_what_contradicts_itself_is_refused() -> None:
    cases = [message(), message(raw_input_contents=[b"1", b"2"])]
    both = message(raw_input_contents=[b"1"])
    both.inputs[0].contents.fp32_contents.append(1)
    wrong = message()
    wrong.inputs[0].contents.int_contents.extend([1, 2])
    small = ModelInferRequest(model_name="m")
    small.inputs.add(name="x", datatype="INT8", shape=[1]).contents.int_contents.append(200)
    half = ModelInferRequest(model_name="m")
    half.inputs.add(name="x", datatype="FP16", shape=[0])
    negative = message(raw_input_contents=[b"1"])
    negative.inputs[0].shape[0] = -1
    empty = message(raw_input_contents=[b"1"])
    empty.parameters["a"].SetInParent()
    region = message()
    region.inputs[0].parameters["shared_memory_region"].string_param = "r"
    for request in (*cases, both, wrong, small, half, negative, empty, region):
        with pytest.raises(ServiceError) as caught:
            decoded(request)
        assert caught.value.status is Status.INVALID


@pytest.mark.parametrize("shape", [[0, 2**40, 2**40], [2**62, 0, 2**62], [0, 2**61, 3]])
def test_lengths_overflow_also_beside_a_length_of_0(shape: list[int]) -> None:
    with pytest.raises(ServiceError, match=r"element count|byte size overflow"):
        checked_shape("x", shape)
    assert checked_shape("x", [0, 2**20, 2**20]) == (0, 2**20, 2**20)


def test_floods_of_tiny_fields_are_refused_early() -> None:
    for data in (b"\x3a\x00" * 100_000, b"\x2a\x00" * 100_000, b"\x08\x01" * 100_000):
        with pytest.raises(ServiceError, match="more than"):
            decode_request(data, NoRegions())


def outcome(data: bytes) -> Status | None:
    """Returns the status of the error with which a request is refused; None if it is not."""
    try:
        decode_request(data, NoRegions())
    except ServiceError as error:
        return error.status
    return None


def test_there_are_few_parameters() -> None:
    request = message(raw_input_contents=[bytes(8)])
    for number in range(1024):
        request.parameters[f"p{number}"].int64_param = number
    decoded(request)
    request.parameters["more"].bool_param = True
    with pytest.raises(ServiceError, match="there are 1025 parameters"):
        decoded(request)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_request_or_refused(data: bytes) -> None:
    assert outcome(data) in (None, Status.INVALID)


@given(st.data())
def test_damaged_requests_are_requests_or_refused(data: st.DataObject) -> None:
    content = bytearray(message(raw_input_contents=[b"12345678"]).SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    assert outcome(bytes(content)) in (None, Status.INVALID)


def test_answers_are_what_protobuf_would_write() -> None:
    tensor = OutputTensor(name="y", datatype="FP32", shape=(50,), data=memoryview(bytes(200)))
    small = OutputTensor(name="z", datatype="INT8", shape=(1,), data=memoryview(b"a"))
    answer = InferenceAnswer(
        model="m",
        version="1",
        id="7",
        outputs=(tensor, small),
        parameters={"a": True, "b": 1, "c": 1.5, "d": "e", "f": 2**64 - 1, "g": -(2**63)},
    )
    data = encode_answer(answer)
    found = ModelInferResponse.FromString(data)
    assert list(found.raw_output_contents) == [bytes(200), b"a"]
    assert [list(each.shape) for each in found.outputs] == [[50], [1]]
    assert found.parameters["a"].bool_param
    assert found.parameters["d"].string_param == "e"
    assert found.parameters["f"].uint64_param == 2**64 - 1
    assert found.parameters["g"].int64_param == -(2**63)
    streamed = ModelStreamInferResponse.FromString(encode_stream_answer(data))
    assert streamed.infer_response.parameters.pop("triton_final_response").bool_param
    assert streamed.infer_response == found


class Region:
    """A region of shared memory that only says what was written to it. Implements `RegionPart`."""

    size = 1 << 10

    def __init__(self) -> None:
        self.written = b""

    @property
    def place(self) -> "RegionPlace":
        raise NotImplementedError

    def copy_into(self, target: memoryview) -> None:
        raise NotImplementedError

    def release(self) -> None:
        pass

    def write(self, data: memoryview, name: str) -> None:
        self.written = bytes(data)


_ANSWERS = st.tuples(
    st.sampled_from(("m", "n")),
    st.sampled_from(("", "1", "2")),
    st.sampled_from(("", "é")),
    st.sampled_from(({}, {"a": 1}, {"a": True})),
    st.lists(st.tuples(st.sampled_from(("INT8", "UINT8")), st.integers(0, 2), st.booleans()), max_size=3),
)


@given(st.lists(_ANSWERS, max_size=6))
def test_answers_never_have_parts_of_other_answers(
    answers: "list[tuple[str, str, str, dict[str, int], list[tuple[str, int, bool]]]]",
) -> None:
    for number, (model, version, name, parameters, outputs) in enumerate(answers):
        regions = [Region() if is_placed else None for _, _, is_placed in outputs]
        given_outputs = tuple(
            OutputTensor(
                name=f"{name}{n}",
                datatype=datatype,
                shape=(size,),
                data=memoryview(bytes([number] * size)),
                wanted=None if region is None else WantedOutput(name="", region=region),
            )
            for n, ((datatype, size, _), region) in enumerate(zip(outputs, regions, strict=True))
        )
        answer = InferenceAnswer(
            model=model, version=version, id=name, outputs=given_outputs, parameters=dict(parameters)
        )
        expected = ModelInferResponse(model_name=model, model_version=version, id=name)
        for key, value in parameters.items():
            if isinstance(value, bool):
                expected.parameters[key].bool_param = value
            else:
                expected.parameters[key].int64_param = value
        for output, region in zip(given_outputs, regions, strict=True):
            expected.outputs.add(name=output.name, datatype=output.datatype, shape=output.shape)
            expected.raw_output_contents.append(b"" if region is not None else bytes(output.data))
        assert ModelInferResponse.FromString(encode_answer(answer)) == expected
        assert all(
            region is None or region.written == output.data
            for output, region in zip(given_outputs, regions, strict=True)
        )
