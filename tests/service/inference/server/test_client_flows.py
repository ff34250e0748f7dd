"""The ways in which the public example programs of tritonclient ask a service."""

import asyncio
import queue
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from support.inference import zoo
from support.inference.serving import Serving

pytest.importorskip("tritonclient.http", reason="the group test is not installed")
import tritonclient.grpc as grpc_client
import tritonclient.grpc.aio as grpc_aio
import tritonclient.http as http_client
import tritonclient.http.aio as http_aio
import tritonclient.utils.shared_memory as shm
from tritonclient.grpc.auth import BasicAuth
from tritonclient.utils import InferenceServerException

A = np.arange(4, dtype=np.int32).reshape(1, 4)
B = np.ones((1, 4), np.int32)


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("models")
    zoo.write_plain(folder, "simple", zoo.addition())
    zoo.write_plain(folder, "text", zoo.reshaping("STRING"))
    zoo.write_plain(folder, "count", zoo.counting())
    with Serving(folder, allow_client_shm=True) as found:
        yield found.wait_ready()


def given(module: Any, a: Any = A, b: Any = B) -> list[Any]:
    inputs = [module.InferInput(name, [1, 4], "INT32") for name in "ab"]
    for tensor, array in zip(inputs, (a, b), strict=True):
        tensor.set_data_from_numpy(array)
    return inputs


def endless() -> Any:
    tensor = grpc_client.InferInput("x", [], "INT32")
    tensor.set_data_from_numpy(np.array(2_000_000_000, np.int32))
    return tensor


def test_objects_are_used_again(serving: Serving) -> None:
    for module, place in ((grpc_client, serving.grpc), (http_client, serving.http)):
        inputs, outputs = given(module), [module.InferRequestedOutput("sum")]
        with module.InferenceServerClient(place) as client:
            for step in range(3):
                inputs[0].set_data_from_numpy(A + step)
                found = client.infer("simple", inputs, outputs=outputs, request_id=str(step))
                assert found.as_numpy("sum").tolist() == (A + step + B).tolist()
                assert found.as_numpy("difference") is None
                number = found.get_response()
                assert (number["id"] if isinstance(number, dict) else number.id) == str(step)


def test_requests_with_callbacks_and_futures(serving: Serving) -> None:
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
    with grpc_client.InferenceServerClient(serving.grpc) as client:
        for step in range(10):
            client.async_infer(
                "simple", given(grpc_client, A + step), lambda result, error: answers.put((result, error))
            )
        found = [answers.get(timeout=60) for _ in range(10)]
        assert all(error is None for _, error in found)
        sums = sorted(int(result.as_numpy("sum")[0, 0]) for result, _ in found)
        assert sums == list(range(1, 11))
    with http_client.InferenceServerClient(serving.http, concurrency=4) as client:
        pending = [client.async_infer("simple", given(http_client, A + step)) for step in range(10)]
        assert [int(each.get_result().as_numpy("sum")[0, 0]) for each in pending] == list(range(1, 11))


def test_coroutines_over_http_and_grpc(serving: Serving) -> None:
    async def ask(module: Any, aio: Any, place: str) -> None:
        async with aio.InferenceServerClient(place) as client:
            assert await client.is_server_ready()
            assert (await client.get_model_config("simple")) is not None
            results = await asyncio.gather(
                *(client.infer("simple", given(module, A + step)) for step in range(5))
            )
            assert [int(each.as_numpy("sum")[0, 0]) for each in results] == list(range(1, 6))
            with pytest.raises(InferenceServerException):
                await client.infer("missing", given(module))

    asyncio.run(ask(grpc_client, grpc_aio, serving.grpc))
    asyncio.run(ask(http_client, http_aio, serving.http))


def test_cancellation_by_the_client(serving: Serving) -> None:
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
    with grpc_client.InferenceServerClient(serving.grpc) as client:
        call = client.async_infer(
            "count", [endless()], lambda result, error: answers.put((result, error)), client_timeout=60
        )
        call.cancel()
        result, error = answers.get(timeout=60)
        assert result is None
        assert "CANCELLED" in str(error) or "Locally cancelled" in str(error)
        client.start_stream(lambda result, error: answers.put((result, error)))
        client.async_stream_infer("count", [endless()])
        client.stop_stream(cancel_requests=True)
        _, error = answers.get(timeout=60)
        assert "ancelled" in str(error)
        with pytest.raises(InferenceServerException, match="DEADLINE_EXCEEDED"):
            client.infer("count", [endless()], client_timeout=0.3)
    # Nothing runs any more, so that the model is free at once.
    with grpc_client.InferenceServerClient(serving.grpc) as client:
        tensor = grpc_client.InferInput("x", [], "INT32")
        tensor.set_data_from_numpy(np.array(3, np.int32))
        assert client.infer("count", [tensor], client_timeout=60).as_numpy("y").tolist() == 3


def test_streams_and_sequences(serving: Serving) -> None:
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def answered(target: "queue.SimpleQueue[Any]", result: Any, error: Any) -> None:
        target.put((result, error))

    with grpc_client.InferenceServerClient(serving.grpc) as client:
        client.start_stream(partial(answered, answers))
        for step in range(5):
            client.async_stream_infer("simple", given(grpc_client, A + step), request_id=str(step))
        found = [answers.get(timeout=60) for _ in range(5)]
        assert [result.get_response().id for result, _ in found] == list("01234")
        client.async_stream_infer("simple", given(grpc_client), sequence_id=7, sequence_start=True)
        result, error = answers.get(timeout=60)
        assert result is None
        assert "sequence" in str(error)
        # The stream goes on.
        client.async_stream_infer("simple", given(grpc_client), enable_empty_final_response=True)
        result, error = answers.get(timeout=60)
        assert error is None
        assert result.get_response().parameters["triton_final_response"].bool_param
        client.stop_stream()


def test_strings_in_every_form(serving: Serving) -> None:
    values = np.array([[b"a", "ü".encode(), b"", b"long" * 100]], object)
    for module, place in ((grpc_client, serving.grpc), (http_client, serving.http)):
        with module.InferenceServerClient(place) as client:
            tensor = module.InferInput("x", [1, 4], "BYTES")
            tensor.set_data_from_numpy(values)
            assert client.infer("text", [tensor]).as_numpy("y").tolist() == values[0].tolist()


def test_inputs_and_outputs_in_shared_memory(serving: Serving) -> None:
    for module, place in ((grpc_client, serving.grpc), (http_client, serving.http)):
        inputs = shm.create_shared_memory_region("flow_in", "/nd_flow_in", 32)
        outputs = shm.create_shared_memory_region("flow_out", "/nd_flow_out", 32)
        try:
            shm.set_shared_memory_region(inputs, [A, B])
            with module.InferenceServerClient(place) as client:
                client.register_system_shared_memory("flow_in", "/nd_flow_in", 32)
                client.register_system_shared_memory("flow_out", "/nd_flow_out", 32)
                tensors = [module.InferInput(name, [1, 4], "INT32") for name in "ab"]
                tensors[0].set_shared_memory("flow_in", 16)
                tensors[1].set_shared_memory("flow_in", 16, 16)
                wanted = [module.InferRequestedOutput(name) for name in ("sum", "difference")]
                wanted[0].set_shared_memory("flow_out", 16)
                wanted[1].set_shared_memory("flow_out", 16, 16)
                answer = client.infer("simple", tensors, outputs=wanted)
                # The client in C++ takes parameters of an output for those of binary data.
                for described in (answer.get_output(name) for name in ("sum", "difference")):
                    over_http = module is http_client
                    assert not (described.get("parameters") if over_http else described.parameters)
                for offset, expected in ((0, A + B), (16, A - B)):
                    found = shm.get_contents_as_numpy(outputs, np.int32, [1, 4], offset)
                    assert found.tolist() == expected.tolist()
                client.unregister_system_shared_memory()
                with pytest.raises(InferenceServerException, match="Unable to find shared memory region"):
                    client.infer("simple", tensors, outputs=wanted)
        finally:
            for handle in (inputs, outputs):
                shm.destroy_shared_memory_region(handle)


def test_options_of_channels_and_plugins(serving: Serving) -> None:
    keepalive = grpc_client.KeepAliveOptions(keepalive_time_ms=10_000, keepalive_timeout_ms=5_000)
    arguments = [("grpc.max_receive_message_length", 1 << 20)]
    for options in ({"keepalive_options": keepalive}, {"channel_args": arguments}):
        with grpc_client.InferenceServerClient(serving.grpc, **options) as client:
            client.register_plugin(BasicAuth("name", "secret"))
            found = client.infer("simple", given(grpc_client), compression_algorithm="gzip")
            assert found.as_numpy("sum").tolist() == (A + B).tolist()
    with http_client.InferenceServerClient(serving.http) as client:
        found = client.infer(
            "simple",
            given(http_client),
            request_compression_algorithm="gzip",
            response_compression_algorithm="deflate",
        )
        assert found.as_numpy("sum").tolist() == (A + B).tolist()
