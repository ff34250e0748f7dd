"""Expectations of Triton's clients and tests: raw requests, statuses, and texts of errors."""

import http.client
import json
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from support.inference import zoo
from support.inference.serving import Serving
from support.sweeps import sweep

pytest.importorskip("tritonclient.http", reason="the group test is not installed")
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException

RAW = {"Inference-Header-Content-Length": "0"}
X = np.arange(4, dtype=np.float32)


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("models")
    zoo.write_plain(folder, "same", zoo.reshaping())
    zoo.write_plain(folder, "pair", zoo.addition())
    zoo.write_plain(folder, "open", zoo.open_addition())
    zoo.write_plain(folder, "texts", zoo.reshaping("STRING"))
    zoo.write_plain(folder, "text", zoo.reshaping("STRING", 1))
    zoo.write_plain(folder, "single", zoo.reshaping(count=1))
    zoo.write_plain(folder, "two", zoo.two_texts())
    zoo.write_plain(folder, "many", zoo.reshaping("STRING", 300_000))
    optional = 'input [ { name: "a" data_type: TYPE_INT32 dims: [ 1, 4 ] optional: true } ]'
    zoo.write_model(folder, "half", zoo.addition(), config=optional)
    with Serving(folder, allow_client_shm=True) as found:
        yield found.wait_ready()


def ask(serving: Serving, model: str, body: bytes, headers: dict[str, str]) -> tuple[int, Any, bytes]:
    """Runs a model; returns the status, the document, and the bytes behind it."""
    connection = http.client.HTTPConnection(serving.http, timeout=60)
    connection.request("POST", f"/v2/models/{model}/infer", body, headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    length = int(answer.getheader("Inference-Header-Content-Length") or len(content))
    return answer.status, json.loads(content[:length]), content[length:]


def test_raw_requests(serving: Serving) -> None:
    assert ask(serving, "same", X.tobytes(), RAW)[::2] == (200, X.tobytes())
    rows = np.arange(6, dtype=np.float32)
    status, document, content = ask(serving, "open", rows.tobytes(), RAW)
    assert (status, document["outputs"][0]["shape"]) == (200, [2, 3])
    assert content == (rows + rows).tobytes()
    assert ask(serving, "text", b"427", RAW)[::2] == (200, b"\x03\0\0\x00427")


@sweep(
    ("model", "body", "message"),
    [
        (
            "pair",
            b"\0" * 32,
            "Raw request must only have 1 input (found 1) to be deduced but got 2 inputs in",
        ),
        ("texts", b"427", "For BYTE datatype raw input 'x', the model must have input shape [1]"),
        ("same", b"\0" * 8, "input byte size mismatch for input 'x' for model 'same'. Expected 16, got 8"),
        ("open", b"\0" * 10, "input byte size mismatch for input 'x' for model 'open'. Expected 0, got 10"),
    ],
)
def test_raw_requests_that_fit_no_model(serving: Serving, model: str, body: bytes, message: str) -> None:
    status, document, _ = ask(serving, model, body, RAW)
    assert status == 400
    assert message in document["error"]


@sweep(
    ("shape", "parameters", "message"),
    [
        ([2**4, 2**60 + 2], {}, "causes total element count to exceed maximum size of"),
        ([0, 2**64], {}, ""),
        ([2**2, 2**60 - 2], {}, "byte size overflow for input 'x'"),
        ([2, -5], {}, "attempt to access JSON non-unsigned-integer as unsigned-integer"),
        ([1, 4], {"triton_made_up": 1}, "reserved for Triton usage"),
        ([1, 4], {"triton_enable_empty_final_response": True}, "reserved for Triton usage"),
        ([1, 4], {"sequence_id": 3}, "sequence_id"),
        ([1, 4], {"timeout": -1}, "timeout"),
    ],
    ids=range(8),
)
def test_requests_that_are_refused(
    serving: Serving, shape: list[int], parameters: dict[str, Any], message: str
) -> None:
    tensor = {"name": "x", "shape": shape, "datatype": "FP32", "data": X.tolist()}
    body = json.dumps({"inputs": [tensor], "parameters": parameters}).encode()
    status, document, _ = ask(serving, "same", body, {})
    assert status == 400
    assert message in document["error"]


def test_parameters_that_are_allowed(serving: Serving) -> None:
    tensor = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": X.tolist()}
    body = json.dumps({"inputs": [tensor], "parameters": {"priority": 1, "mine": "a"}}).encode()
    status, document, _ = ask(serving, "same", body, {})
    assert (status, "parameters" in document) == (200, False)


def test_missing_inputs_are_named(serving: Serving) -> None:
    tensor = triton_grpc.InferInput("a", [1, 4], "INT32")
    tensor.set_data_from_numpy(np.zeros((1, 4), np.int32))
    with triton_grpc.InferenceServerClient(serving.grpc) as client:
        for inputs, found, missing in (([], "", "'a','b'"), ([tensor], "'a'", "'b'")):
            message = (
                f"expected 2 inputs but got {len(inputs)} inputs for model 'pair'. Got input(s) [{found}], but "
                f"missing required input(s) [{missing}]. Please provide all required input(s)."
            )
            with pytest.raises(InferenceServerException) as caught:
                client.infer("pair", inputs)
            assert message in str(caught.value)
            assert caught.value.status() == "StatusCode.INVALID_ARGUMENT"


def test_all_strings_that_are_not_whole_are_named(serving: Serving) -> None:
    """Triton names one of them, in no certain order."""
    tensors = []
    for name, count in (("a", 2), ("b", 4), ("a", 4), ("b", 5)):
        tensor = triton_grpc.InferInput(name, [1, count], "BYTES")
        tensor.set_data_from_numpy(np.full((1, count), b"x", object))
        tensors.append(tensor.set_shape([1, 4]))
    few, four, right, many = tensors
    short = "expected 4 string elements for inference input 'a' for model 'two', got 2"
    long = "unexpected number of string elements 5 for inference input 'b' for model 'two', expecting 4"
    with triton_grpc.InferenceServerClient(serving.grpc) as client:
        for inputs, message in (
            ([few, four], short),
            ([right, many], long),
            ([few, many], f"{short}; {long}"),
        ):
            with pytest.raises(InferenceServerException) as caught:
                client.infer("two", inputs)
            assert caught.value.message() == message
        assert client.infer("two", [right, four]).as_numpy("d").tolist() == [b"x"] * 4


def test_many_strings_as_elements(serving: Serving) -> None:
    """More than any message may have parts, of one length."""
    count = 300_000
    service_pb2 = triton_grpc.service_pb2
    request = service_pb2.ModelInferRequest(model_name="many")
    tensor = request.inputs.add(name="x", datatype="BYTES", shape=[1, count])
    tensor.contents.bytes_contents.extend([b"A"] * count)
    channel = grpc.insecure_channel(serving.grpc, options=[("grpc.max_receive_message_length", -1)])
    with channel:
        answer = triton_grpc.service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request)
    assert answer.raw_output_contents[0] == b"\1\0\0\0A" * count


def test_optional_inputs_may_be_left_out(serving: Serving) -> None:
    def answer(inputs: list[dict[str, Any]]) -> tuple[int, Any]:
        status, document, _ = ask(serving, "half", json.dumps({"inputs": inputs}).encode(), {})
        return status, document

    a, b = ({"name": name, "shape": [1, 4], "datatype": "INT32", "data": [1, 2, 3, 4]} for name in "ab")
    for inputs, expected in (([b], [-1, -2, -3, -4]), ([a, b], [0, 0, 0, 0])):
        status, document = answer(inputs)
        assert (status, document["outputs"][1]["data"]) == (200, expected)
    status, document = answer([a])
    assert (status, document["error"]) == (
        400,
        "expected number of inputs between 1 and 2 but got 1 inputs for model 'half'. Got input(s) ['a'], but "
        "missing required input(s) ['b']. Please provide all required input(s).",
    )
    with triton_http.InferenceServerClient(serving.http) as client:
        assert [each.get("optional") for each in client.get_model_config("half")["input"]] == [True, False]


@sweep(
    ("model", "inputs", "outputs", "message"),
    [
        ("pair", ("a", "a"), (), "input 'a' already exists in request"),
        ("pair", ("a", "c"), (), "unexpected inference input 'c' for model 'pair'"),
        ("pair", ("a", "b"), ("sum", "sum"), "output 'sum' already exists in request"),
        ("pair", ("a", "b"), ("none",), "unexpected inference output 'none' for model 'pair'"),
    ],
    ids=range(4),
)
def test_names_of_tensors(
    serving: Serving, model: str, inputs: tuple[str, ...], outputs: tuple[str, ...], message: str
) -> None:
    tensors = [{"name": name, "shape": [1, 4], "datatype": "INT32", "data": [0] * 4} for name in inputs]
    body = json.dumps({"inputs": tensors, "outputs": [{"name": name} for name in outputs]}).encode()
    status, document, _ = ask(serving, model, body, {})
    assert status == 400
    assert message in document["error"]


def test_shapes_are_written_as_triton_does(serving: Serving) -> None:
    tensor = {"name": "x", "shape": [2, 4], "datatype": "FP32", "data": [0.0] * 8}
    status, document, _ = ask(serving, "same", json.dumps({"inputs": [tensor]}).encode(), {})
    assert status == 400
    expected = "unexpected shape for input 'x' for model 'same'. Expected [1,4], got [2,4]"
    assert document["error"] == expected


@sweep(
    ("content", "message"),
    [
        (
            bytes(8),
            "expected 4 string elements for inference input 'x' for model 'texts', got 2",
        ),
        (
            bytes(4000),
            "unexpected number of string elements 5 for inference input 'x' for model 'texts', expecting 4",
        ),
        (
            bytes(18),
            "incomplete string length indicator for inference input 'x' for model 'texts', expecting 4 bytes "
            "but only 2 bytes available",
        ),
        (
            b"\x09" + bytes(5),
            "incomplete string data for inference input 'x' for model 'texts', expecting string of length 9 "
            "but only 2 bytes available",
        ),
    ],
    ids=range(4),
)
def test_strings_that_are_not_whole(serving: Serving, content: bytes, message: str) -> None:
    tensor = {
        "name": "x",
        "shape": [1, 4],
        "datatype": "BYTES",
        "parameters": {"binary_data_size": len(content)},
    }
    header = json.dumps({"inputs": [tensor]}).encode()
    length = {"Inference-Header-Content-Length": str(len(header))}
    status, document, _ = ask(serving, "texts", header + content, length)
    assert status == 400
    assert message in document["error"]


@sweep(
    ("changes", "message"),
    [
        ({"inputs": None}, "Unable to parse 'inputs': attempt to access JSON non-array as array"),
        ({"id": 5}, "Unable to parse 'id': attempt to access JSON non-string as string"),
        ({"name": ...}, "Unable to parse 'name': attempt to access non-existing object member 'name'"),
        ({"shape": ...}, "Unable to parse 'shape': attempt to access non-existing object member 'shape'"),
        (
            {"shape": [1, "4"]},
            "Unable to parse 'shape': attempt to access JSON non-unsigned-integer as unsigned-integer",
        ),
        ({"shape": 4}, "Unable to parse 'shape': attempt to access JSON non-array as array"),
        ({"datatype": 1}, "Unable to parse 'datatype': attempt to access JSON non-string as string"),
        ({"outputs": [{}]}, "Unable to parse 'name': attempt to access non-existing object member 'name'"),
        (
            {"parameters": {"binary_data_output": "false"}},
            "Unable to parse 'binary_data_output': attempt to access JSON non-boolean as boolean",
        ),
        (
            {"outputs": [{"name": "y", "parameters": {"binary_data": 1}}]},
            "Unable to parse 'binary_data': attempt to access JSON non-boolean as boolean",
        ),
    ],
    ids=range(10),
)
def test_members_that_are_missing_or_of_another_type(
    serving: Serving, changes: dict[str, Any], message: str
) -> None:
    tensor: dict[str, Any] = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": X.tolist()}
    document: dict[str, Any] = {"inputs": [tensor]}
    for key, value in changes.items():
        target = tensor if key in tensor else document
        if value is ...:
            del target[key]
        else:
            target[key] = value
    status, found, _ = ask(serving, "same", json.dumps(document).encode(), {})
    assert status == 400
    assert found["error"].startswith(message), found


@sweep(
    ("outputs", "is_binary"),
    [
        (None, True),
        ([{"name": "y"}], False),
        ([{"name": "y", "parameters": {"binary_data": False}}], False),
        ([{"name": "y", "parameters": {"binary_data": True}}], True),
    ],
    ids=range(4),
)
def test_binary_data_output_is_for_requests_that_name_no_outputs(
    serving: Serving, outputs: Any, is_binary: bool
) -> None:
    tensor = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": X.tolist()}
    document = {"inputs": [tensor], "parameters": {"binary_data_output": True}}
    document |= {} if outputs is None else {"outputs": outputs}
    connection = http.client.HTTPConnection(serving.http, timeout=60)
    connection.request("POST", "/v2/models/same/infer", json.dumps(document))
    answer = connection.getresponse()
    assert answer.status == 200
    assert (answer.getheader("Inference-Header-Content-Length") is not None) == is_binary
    connection.close()


def test_elements_of_other_types_are_named_as_in_triton(serving: Serving) -> None:
    for value in (1.5, True, "a", None):
        inputs = [
            {"name": name, "shape": [1, 4], "datatype": "INT32", "data": [value] * 4} for name in ("a", "b")
        ]
        status, document, _ = ask(serving, "pair", json.dumps({"inputs": inputs}).encode(), {})
        assert status == 400
        assert "attempt to access JSON non-signed-integer as signed-integer" in document["error"]


def test_classes_of_integers_are_integers(serving: Serving) -> None:
    for module, place in ((triton_grpc, serving.grpc), (triton_http, serving.http)):
        inputs = []
        for name in ("a", "b"):
            inputs.append(module.InferInput(name, [1, 4], "INT32"))
            inputs[-1].set_data_from_numpy(np.array([[1, 30, -2, 7]], np.int32))
        wanted = [module.InferRequestedOutput("sum", class_count=3)]
        with module.InferenceServerClient(place) as client:
            found = client.infer("pair", inputs, outputs=wanted).as_numpy("sum")
        assert found.ravel().tolist() == [b"60:1", b"14:3", b"2:0"]


def test_answers_of_plain_values_and_grpc_do_not_repeat_a_parameter_of_http(serving: Serving) -> None:
    request = triton_grpc.service_pb2.ModelInferRequest(model_name="same", raw_input_contents=[X.tobytes()])
    request.inputs.add(name="x", datatype="FP32", shape=[1, 4])
    request.parameters["binary_data_output"].bool_param = True
    with grpc.insecure_channel(serving.grpc) as channel:
        answer = triton_grpc.service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(
            request, timeout=60
        )
    assert answer.raw_output_contents == [X.tobytes()]
    assert not answer.parameters
    connection = http.client.HTTPConnection(serving.http, timeout=60)
    body = json.dumps({"x": X.tolist(), "binary_data_output": True})
    connection.request("POST", "/v2/models/same/generate", body)
    found = json.loads(connection.getresponse().read())
    connection.close()
    assert found == {"model_name": "same", "model_version": "1", "y": X.tolist()}


def test_regions_that_are_not_registered_are_not_found(serving: Serving) -> None:
    tensor = triton_grpc.InferInput("x", [1, 4], "FP32")
    tensor.set_shared_memory("none", 16)
    with (
        triton_grpc.InferenceServerClient(serving.grpc) as client,
        pytest.raises(
            InferenceServerException, match="Unable to find shared memory region: 'none'"
        ) as caught,
    ):
        client.infer("same", [tensor])
    assert caught.value.status() == "StatusCode.NOT_FOUND"


def test_configurations_that_cannot_be_used_fail_to_load(serving: Serving) -> None:
    with triton_http.InferenceServerClient(serving.http) as client:
        for config in ("x", "[]", '{"backend": "identity"}', '{"sequence_batching": {}}'):
            message = "^\\[400\\] failed to load 'same', failed to poll from model repository: "
            with pytest.raises(InferenceServerException, match=message):
                client.load_model("same", config=config)
        assert client.is_model_ready("same")


def test_configurations_of_clients_are_named_in_the_error(serving: Serving) -> None:
    for module, place in ((triton_grpc, serving.grpc), (triton_http, serving.http)):
        with (
            module.InferenceServerClient(place) as client,
            pytest.raises(
                InferenceServerException, match="Invalid config override: the configuration of same"
            ),
        ):
            client.load_model("same", config='"parameters": {')


def test_models_that_are_not_ready_say_so(serving: Serving) -> None:
    connection = http.client.HTTPConnection(serving.http, timeout=60)
    for path, status, content in (
        ("/v2/models/same/ready", 200, b""),
        ("/v2/models/none/ready", 400, b'{"error":"Model version not ready"}'),
    ):
        connection.request("GET", path)
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (status, content)
    connection.close()


@sweep(
    ("data", "message"),
    [
        ([1.0, 2.0, 3.0], "Failed to parse 'data' field: shape does not match true shape"),
        ([1.0] * 5, "Unable to parse 'data': Shape does not match true shape of 'data' field"),
        (["a"] * 4, "attempt to access JSON non-number as number"),
        (None, "But no field is set"),
    ],
    ids=range(4),
)
def test_elements_that_do_not_fit(serving: Serving, data: Any, message: str) -> None:
    tensor = {"name": "x", "shape": [1, 4], "datatype": "FP32"} | ({} if data is None else {"data": data})
    status, document, _ = ask(serving, "same", json.dumps({"inputs": [tensor]}).encode(), {})
    assert (status, message in document["error"]) == (400, True), document


def test_wrong_numbers_of_elements_have_no_other_words(serving: Serving) -> None:
    """Clients compare the whole body, also where the other input is missing."""
    for count, message in (
        (3, "Failed to parse 'data' field: shape does not match true shape"),
        (5, "Unable to parse 'data': Shape does not match true shape of 'data' field"),
    ):
        tensor = {"name": "a", "shape": [1, 4], "datatype": "INT32", "data": [1] * count}
        status, document, _ = ask(serving, "pair", json.dumps({"inputs": [tensor]}).encode(), {})
        assert (status, document) == (400, {"error": message})


@sweep(
    ("model", "datatype", "data"),
    [("text", "BYTES", '"a"'), ("single", "FP32", "3.5")],
    ids=("text", "number"),
)
def test_nested_elements(serving: Serving, model: str, datatype: str, data: str) -> None:
    for depth, expected in ((50, 200), (100, 200), (101, 400), (5000, 400)):
        nested = "[" * depth + data + "]" * depth
        body = f'{{"inputs": [{{"name": "x", "shape": [1, 1], "datatype": "{datatype}", "data": {nested}}}]}}'
        status, document, _ = ask(serving, model, body.encode(), {})
        assert status == expected, document
        if status != 200:
            assert "JSON nesting depth exceeds maximum allowed limit (100)" in document["error"]


def test_compressed_messages_of_grpc(serving: Serving) -> None:
    tensor = triton_grpc.InferInput("x", [1, 4], "FP32")
    tensor.set_data_from_numpy(X.reshape(1, 4))
    with triton_grpc.InferenceServerClient(serving.grpc) as client:
        for algorithm in ("gzip", "deflate"):
            result = client.infer("same", [tensor], compression_algorithm=algorithm)
            assert np.array_equal(result.as_numpy("y"), X)


def test_classes_of_strings(serving: Serving) -> None:
    for module, place in ((triton_grpc, serving.grpc), (triton_http, serving.http)):
        tensor = module.InferInput("x", [1, 4], "BYTES")
        tensor.set_data_from_numpy(np.array([[b"a"] * 4], object))
        with (
            module.InferenceServerClient(place) as client,
            pytest.raises(InferenceServerException, match="unsupported type 'BYTES'"),
        ):
            client.infer("texts", [tensor], outputs=[module.InferRequestedOutput("y", class_count=2)])


def test_statistics_of_what_is_not_served(serving: Serving) -> None:
    for module, place, status in (
        (triton_grpc, serving.grpc, r"\[StatusCode\.INVALID_ARGUMENT\]"),
        (triton_http, serving.http, r"\[400\]"),
    ):
        with module.InferenceServerClient(place) as client:
            for arguments, words in (
                (("none",), "requested model 'none' is not available"),
                (("none", "1"), "requested model 'none' is not available"),
                (("same", "9"), "requested model version is not available for model 'same'"),
                (("same", "x"), "failed to get model version from specified version string 'x'"),
            ):
                with pytest.raises(InferenceServerException, match=f"{status} {words}"):
                    client.get_inference_statistics(*arguments)


def test_regions_that_cannot_be_registered(serving: Serving) -> None:
    with triton_grpc.InferenceServerClient(serving.grpc) as client:
        unopened = r"\[StatusCode\.INVALID_ARGUMENT\] Unable to open shared memory region: '/neurald_none'"
        with pytest.raises(InferenceServerException, match=unopened):
            client.register_system_shared_memory("none", "/neurald_none", 0)
        words = "failed to register shared memory region.*invalid args.*GPUs not supported"
        with pytest.raises(InferenceServerException, match=words):
            client.register_cuda_shared_memory("", b"", 0, 0)
    unopened = r"\[400\] Unable to open"
    with (
        triton_http.InferenceServerClient(serving.http) as web,
        pytest.raises(InferenceServerException, match=unopened),
    ):
        web.register_system_shared_memory("none", "/neurald_none", 8)


def test_regions_that_do_not_fit(serving: Serving) -> None:
    handle = shm.create_shared_memory_region("nd_regions", "/nd_regions", 64)
    try:
        for module, place in ((triton_grpc, serving.grpc), (triton_http, serving.http)):
            with module.InferenceServerClient(place) as client:
                for size, offset in ((65, 0), (64, 1), (1, 64), (0, 65)):
                    with pytest.raises(
                        InferenceServerException,
                        match=r"failed to register shared memory region.*invalid args",
                    ):
                        client.register_system_shared_memory("r", "/nd_regions", size, offset)
                for key in ("/", "///"):
                    message = f"cannot register shared memory region 'r' - invalid shm key '{key}'"
                    with pytest.raises(InferenceServerException, match=message):
                        client.register_system_shared_memory("r", key, 8)
                client.register_system_shared_memory("r", "/nd_regions", 64)
                with pytest.raises(InferenceServerException, match="'r' already in manager") as exists:
                    client.register_system_shared_memory("r", "/nd_regions", 64)
                expected = "StatusCode.ALREADY_EXISTS" if module is triton_grpc else "400"
                assert exists.value.status() == expected
                tensor = module.InferInput("x", [1, 4], "FP32")
                tensor.set_shared_memory("r", 16)
                output = module.InferRequestedOutput("y")
                output.set_shared_memory("r", 8, 16)
                message = r"specified with the request for output 'y' \(8 bytes\) should be at least 16 bytes to hold"
                with pytest.raises(InferenceServerException, match=message):
                    client.infer("same", [tensor], outputs=[output])
                for size, offset, message in (
                    (16, 64, "Invalid offset for shared memory region"),
                    (16, 60, "Invalid offset . byte size for shared memory region"),
                    (2**63 - 32, 32, "Integer overflow detected: byte_size "),
                    (32, 0, "input byte size mismatch for input 'x' for model 'same'. Expected 16, got 32"),
                ):
                    tensor.set_shared_memory("r", size, offset)
                    with pytest.raises(InferenceServerException, match=message):
                        client.infer("same", [tensor])
                reserved = "triton_python_backend_shm_region_a"
                for key in (reserved, f"///{reserved}"):
                    with pytest.raises(
                        InferenceServerException, match=f"with key '{key}' as the key contains"
                    ):
                        client.register_system_shared_memory("q", key, 8)
                client.unregister_system_shared_memory("r")
    finally:
        shm.destroy_shared_memory_region(handle)


@sweep(
    ("tensor", "parameters", "message"),
    [
        (
            "input",
            {"shared_memory_region": "none"},
            "'shared_memory_byte_size' must be specified along with 'shared_memory_region' parameter for tensor 'x'",
        ),
        (
            "input",
            {"shared_memory_region": 5, "shared_memory_byte_size": 16},
            "invalid value type for 'shared_memory_region' parameter for tensor 'x', expected string_param.",
        ),
        (
            "output",
            {"shared_memory_byte_size": 16},
            "'shared_memory_byte_size' can not be specified without 'shared_memory_region' parameter for tensor 'y'",
        ),
        ("output", {"classification": 0}, "invalid value for 'classification' parameter, expected >= 0"),
    ],
    ids=range(4),
)
def test_parameters_of_tensors_over_grpc(
    serving: Serving, tensor: str, parameters: dict[str, Any], message: str
) -> None:
    service_pb2 = triton_grpc.service_pb2
    request = service_pb2.ModelInferRequest(model_name="same", raw_input_contents=[bytes(16)])
    source = request.inputs.add(name="x", datatype="FP32", shape=[1, 4])
    target = request.outputs.add(name="y")
    for key, value in parameters.items():
        parameter = (source if tensor == "input" else target).parameters[key]
        if isinstance(value, str):
            parameter.string_param = value
        else:
            parameter.int64_param = value
    with (
        grpc.insecure_channel(serving.grpc) as channel,
        pytest.raises(grpc.RpcError) as caught,
    ):
        triton_grpc.service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request)
    error: Any = caught.value
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert error.details().startswith(message)


def test_what_is_asked_of_models_is_checked(serving: Serving) -> None:
    with triton_grpc.InferenceServerClient(serving.grpc) as client:
        with pytest.raises(InferenceServerException, match="version should be an integral value > 0"):
            client.is_model_ready("same", "a")
        assert not client.is_model_ready("none", "1")
        request = triton_grpc.service_pb2.RepositoryModelUnloadRequest(model_name="none")
        request.parameters["unload_dependents"].string_param = "yes"
        with (
            grpc.insecure_channel(serving.grpc) as channel,
            pytest.raises(grpc.RpcError, match="'unload_dependents' parameter, expected bool_param"),
        ):
            triton_grpc.service_pb2_grpc.GRPCInferenceServiceStub(channel).RepositoryModelUnload(request)


def test_other_encodings_are_not_implemented(serving: Serving) -> None:
    status, document, _ = ask(serving, "same", b"{}", {"Content-Encoding": "br"})
    assert status == 501
    assert document["error"].startswith("Unsupported compression type")
