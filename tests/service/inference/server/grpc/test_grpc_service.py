"""The V2 protocol over gRPC, as tritonclient speaks it."""

import asyncio
import json
import os
import queue
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import numpy as np
import pytest
from support.inference import zoo
from support.inference.serving import Serving
from support.waiting import wait_until

from neurald.service.inference.models.requests.arrivals import Arrivals
from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.protocol.regions import NoRegions
from neurald.service.inference.server.admission.header_forwarding import ForwardedHeaders
from neurald.service.inference.server.admission.request_budget import RequestBudget
from neurald.service.inference.server.admission.restrictions import Restrictions
from neurald.service.inference.server.calls.endpoint_load import EndpointLoad
from neurald.service.inference.server.calls.host_usage import HostUsage
from neurald.service.inference.server.grpc.grpc_service import V2Service
from neurald.service.inference.server.regions.region_calls import RegionCalls

triton = pytest.importorskip("tritonclient.grpc", reason="the group test is not installed")
aio = pytest.importorskip("tritonclient.grpc.aio")
from tritonclient.grpc import service_pb2, service_pb2_grpc  # noqa: E402 - optional
from tritonclient.utils import InferenceServerException, np_to_triton_dtype  # noqa: E402 - optional

BATCHED = """
max_batch_size: 8
dynamic_batching { max_queue_delay_microseconds: 20000 }
model_warmup { name: "one" batch_size: 2 inputs { key: "x" value { data_type: TYPE_FP32 dims: 4 random_data: true } } }
"""


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    repository = tmp_path_factory.mktemp("repository")
    for datatype, kind in zoo.TYPES.items():
        if datatype in ("FP32", "INT8", "BYTES", "FP16", "UINT64", "BOOL"):
            zoo.write_plain(repository, f"same_{datatype}", zoo.reshaping(kind))
    zoo.write_plain(repository, "pair", zoo.addition())
    zoo.write_plain(repository, "finding", zoo.finding())
    zoo.write_plain(repository, "counting", zoo.counting())
    zoo.write_plain(repository, "open", zoo.open_addition())
    zoo.write_model(repository, "batched", zoo.dense(), config=BATCHED)
    zoo.write_model(
        repository, "versions", zoo.dense(seed=1), zoo.dense(seed=2), config="version_policy { all {} }"
    )
    with Serving(repository) as service:
        yield service.wait_ready()


@pytest.fixture
def client(serving: Serving) -> Iterator[Any]:
    with triton.InferenceServerClient(serving.grpc) as found:
        yield found


def given(name: str, array: "np.ndarray[Any, Any]") -> Any:
    tensor = triton.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
    tensor.set_data_from_numpy(array)
    return tensor


X = np.array([[1, 2, 3, 4]], np.float32)


def test_server_and_models_describe_themselves(client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert "statistics" in client.get_server_metadata().extensions
    assert client.is_model_ready("batched")
    assert not client.is_model_ready("batched", "2")
    assert not client.is_model_ready("missing")
    metadata = client.get_model_metadata("batched")
    assert (list(metadata.versions), list(metadata.inputs[0].shape)) == (["1"], [-1, 4])
    config = client.get_model_config("batched").config
    assert (config.max_batch_size, list(config.input[0].dims)) == (8, [4])
    assert config.dynamic_batching.max_queue_delay_microseconds == 20000
    assert list(client.get_model_metadata("versions").versions) == ["1", "2"]


@pytest.mark.parametrize("datatype", ["FP32", "INT8", "FP16", "UINT64", "BOOL"])
def test_elements_of_every_kind(client: Any, serving: Serving, datatype: str) -> None:
    dtype = {"FP32": "f4", "INT8": "i1", "FP16": "f2", "UINT64": "u8", "BOOL": "?"}[datatype]
    values = np.array([[0, 1, 1, 0]], dtype)
    result = client.infer(f"same_{datatype}", [given("x", values)], request_id="seven")
    assert result.get_response().id == "seven"
    assert np.array_equal(result.as_numpy("y"), values[0])
    field = {"FP32": "fp32", "INT8": "int", "UINT64": "uint64", "BOOL": "bool"}.get(datatype)
    if field is None:
        return
    message = service_pb2.ModelInferRequest(model_name=f"same_{datatype}")
    tensor = message.inputs.add(name="x", datatype=datatype, shape=[1, 4])
    getattr(tensor.contents, f"{field}_contents").extend(values[0].tolist())
    with grpc.insecure_channel(serving.grpc) as channel:
        answer = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(message)
    assert answer.raw_output_contents[0] == values.tobytes()


def test_byte_strings(client: Any) -> None:
    values = np.array([[b"a", b"", b"\xff\x00", "ä".encode()]], object)
    assert client.infer("same_BYTES", [given("x", values)]).as_numpy("y").tolist() == values[0].tolist()


def test_several_inputs_in_any_order_and_chosen_outputs(client: Any) -> None:
    a, b = np.array([[5, 6, 7, 8]], np.int32), np.array([[1, 2, 3, 4]], np.int32)
    wanted = [triton.InferRequestedOutput("difference")]
    result = client.infer("pair", [given("b", b), given("a", a)], outputs=wanted)
    assert np.array_equal(result.as_numpy("difference"), a - b)
    assert result.as_numpy("sum") is None
    both = client.infer("pair", [given("a", a), given("b", b)])
    assert np.array_equal(both.as_numpy("sum"), a + b)


def test_outputs_whose_size_depends_on_inputs(client: Any) -> None:
    for places in ([0], [1, 3, 5], [], list(range(8)), [2]):
        x = np.zeros((1, 8), bool)
        x[0, places] = True
        assert client.infer("finding", [given("x", x)]).as_numpy("y")[:, 1].tolist() == places
    for rows in (1, 3, 50_000, 2):
        x = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
        assert np.array_equal(client.infer("open", [given("x", x)]).as_numpy("y"), 2 * x)


def test_versions_are_different_models(client: Any) -> None:
    one, two, newest = (
        client.infer("versions", [given("x", X)], version).as_numpy("y") for version in ("1", "2", "")
    )
    assert not np.allclose(one, two)
    assert np.array_equal(two, newest)


def test_receipts_and_classes_on_request(client: Any) -> None:
    wanted = [triton.InferRequestedOutput("y", class_count=2)]
    result = client.infer("batched", [given("x", X)], outputs=wanted, parameters={"receipt": True})
    texts = [each.decode().split(":") for each in result.as_numpy("y")[0]]
    assert float(texts[0][0]) >= float(texts[1][0])
    assert '"devices": ["cpu' in result.get_response().parameters["receipt"].string_param


def expect(client: Any, status: str, text: str, *arguments: Any, **named: Any) -> None:
    with pytest.raises(InferenceServerException, match=text) as caught:
        client.infer(*arguments, **named)
    assert caught.value.status() == f"StatusCode.{status}"


def test_errors_have_the_status_that_clients_expect(client: Any) -> None:
    x = given("x", X)
    expect(client, "NOT_FOUND", "unknown model", "missing", [x])
    expect(client, "NOT_FOUND", "version", "batched", [x], "9")
    expect(client, "INVALID_ARGUMENT", "unexpected inference input", "batched", [given("z", X)])
    expect(client, "INVALID_ARGUMENT", "'x' already exists in request", "batched", [x, x])
    expect(client, "INVALID_ARGUMENT", "expected 1 inputs but got 2", "batched", [x, given("y", X)])
    expect(client, "INVALID_ARGUMENT", "data-type", "batched", [given("x", X.astype(np.int32))])
    expect(client, "INVALID_ARGUMENT", "shape", "batched", [given("x", X[:, :3])])
    expect(client, "INVALID_ARGUMENT", "batch-size", "batched", [given("x", np.repeat(X, 9, 0))])
    wanted = [triton.InferRequestedOutput("z")]
    expect(client, "INVALID_ARGUMENT", "unexpected inference output", "batched", [x], outputs=wanted)
    expect(client, "INVALID_ARGUMENT", "sequence_id", "batched", [x], sequence_id=5)
    wrong = triton.InferInput("x", [1, 4], "FP32")
    wrong._raw_content = b"123"
    expect(client, "INVALID_ARGUMENT", "Expected 16, got 3", "batched", [wrong])


def test_requests_at_once_are_run_in_batches_with_the_same_results(client: Any) -> None:
    before = client.get_inference_statistics("batched").model_stats[0]
    rows = np.random.default_rng(1).standard_normal((40, 4)).astype(np.float32)
    alone = [client.infer("batched", [given("x", row[None])]).as_numpy("y") for row in rows[:3]]
    answers: queue.Queue[tuple[int, Any, Any]] = queue.Queue()
    for number, row in enumerate(rows):
        client.async_infer(
            "batched",
            [given("x", row[None])],
            lambda result, error, number=number: answers.put((number, result, error)),
        )
    results: dict[int, Any] = {}
    for _ in rows:
        number, result, error = answers.get(timeout=60)
        assert error is None
        results[number] = result.as_numpy("y")
    for number, expected in enumerate(alone):
        np.testing.assert_allclose(results[number], expected, rtol=1e-5, atol=1e-6)
    after = client.get_inference_statistics("batched").model_stats[0]
    assert after.inference_count - before.inference_count == 43
    assert after.execution_count - before.execution_count < 43
    assert any(each.batch_size > 1 for each in after.batch_stats)
    stats = after.inference_stats
    assert stats.success.count == stats.compute_infer.count == stats.compute_input.count == stats.queue.count


def test_streams_answer_in_order_and_survive_errors(client: Any) -> None:
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    for number in range(20):
        name = "missing" if number == 7 else "same_FP32"
        client.async_stream_infer(name, [given("x", X + number)], request_id=str(number))
    for number in range(20):
        result, error = answers.get(timeout=60)
        if number == 7:
            assert "unknown model" in str(error)
            continue
        assert error is None
        assert result.get_response().id == str(number)
        assert np.array_equal(result.as_numpy("y"), X[0] + number)
    client.stop_stream()


def test_streams_end_at_errors_if_their_metadata_say_so(client: Any) -> None:
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    for value, is_ended in (("true", True), ("false", False)):
        client.start_stream(
            lambda result, error: answers.put((result, error)), headers={"triton_grpc_error": value}
        )
        client.async_stream_infer("same_FP32", [given("x", X)])
        assert answers.get(timeout=60)[1] is None
        client.async_stream_infer("missing", [given("x", X)])
        error = answers.get(timeout=60)[1]
        assert "unknown model" in str(error)
        assert (error.status() == "StatusCode.NOT_FOUND") is is_ended
        if is_ended:
            with pytest.raises(InferenceServerException, match="stream is no longer in valid state"):
                client.async_stream_infer("same_FP32", [given("x", X)])
        else:
            client.async_stream_infer("same_FP32", [given("x", X)])
            assert answers.get(timeout=60)[1] is None
        client.stop_stream()


def test_nothing_of_a_stream_stays_whose_client_has_left() -> None:
    """Also if it has sent more requests than are under way at once, and has taken no answer."""

    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    async def requests() -> AsyncIterator[bytes]:
        while True:
            yield b""

    async def run() -> None:
        calls: Any = SimpleNamespace(regions=NoRegions(), infer=never)
        service = V2Service(
            calls, RegionCalls(), RequestBudget(1), "", Restrictions((), noun="protocol"), ForwardedHeaders()
        )
        call: Any = SimpleNamespace(invocation_metadata=tuple)
        stream = asyncio.ensure_future(anext(service._stream(requests(), call)))
        async with asyncio.timeout(60):
            while len(asyncio.all_tasks()) <= 10:
                await asyncio.sleep(0.01)
            stream.cancel()
            while len(asyncio.all_tasks()) > 1:
                await asyncio.sleep(0.01)

    asyncio.run(run())


def test_calls_of_coroutines(serving: Serving) -> None:
    async def run() -> None:
        async with aio.InferenceServerClient(serving.grpc) as client:
            assert await client.is_server_ready()
            results = await asyncio.gather(
                *(client.infer("same_FP32", [given("x", X + n)]) for n in range(8))
            )
            for number, result in enumerate(results):
                assert np.array_equal(result.as_numpy("y"), X[0] + number)

    asyncio.run(run())


def test_time_limits_and_cancellation_reach_the_model(client: Any) -> None:
    endless = given("x", np.array(2**31 - 1, np.int32))
    with pytest.raises(InferenceServerException, match=r"longer|Deadline|DEADLINE"):
        client.infer("counting", [endless], timeout=200_000)
    with pytest.raises(InferenceServerException):
        client.infer("counting", [endless], client_timeout=0.2)
    call = client.async_infer("counting", [endless], lambda result, error: None)
    call.cancel()
    # Nothing of that keeps the lanes of the model busy.
    assert client.infer("counting", [given("x", np.array(5, np.int32))]).as_numpy("y") == 5


def test_models_are_loaded_and_unloaded_under_load(client: Any, serving: Serving) -> None:
    stop = threading.Event()
    failures: list[str] = []
    count = 0

    def load() -> None:
        nonlocal count
        with triton.InferenceServerClient(serving.grpc) as own:
            while not stop.is_set():
                try:
                    own.infer("same_FP32", [given("x", X)])
                    count += 1
                except InferenceServerException as error:
                    failures.append(str(error))

    thread = threading.Thread(target=load)
    thread.start()
    try:
        for _ in range(2):
            client.unload_model("pair")
            assert not client.is_model_ready("pair")
            client.load_model("pair")
            assert client.is_model_ready("pair")
        client.load_model(
            "same_FP32", config='{"max_batch_size": 0, "parameters": {"lanes": {"string_value": "3"}}}'
        )
        with pytest.raises(InferenceServerException, match="failed to poll from model repository"):
            client.load_model("missing")
        with pytest.raises(InferenceServerException, match="must not contain path traversal characters"):
            client.load_model("../pair")
    finally:
        wait_until(lambda: count > 5)
        stop.set()
        thread.join()
    assert not failures
    states = {each.name: each.state for each in client.get_model_repository_index().models}
    assert states["pair"] == states["batched"] == "READY"


def test_a_killed_worker_costs_no_call(client: Any, serving: Serving) -> None:
    (before,) = serving.model("batched").processes
    failures: list[object] = []
    done = threading.Event()

    def load() -> None:
        with triton.InferenceServerClient(serving.grpc) as own:
            while not done.is_set():
                try:
                    own.infer("batched", [given("x", X)])
                except InferenceServerException as error:
                    failures.append(error)

    threads = [threading.Thread(target=load) for _ in range(3)]
    for thread in threads:
        thread.start()
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: serving.model("batched").processes not in ((before,), ()))
    done.set()
    for thread in threads:
        thread.join()
    assert not failures
    wait_until(lambda: client.is_model_ready("batched"))


def test_readiness_follows_workers(client: Any, serving: Serving) -> None:
    (worker,) = serving.model("finding").processes
    os.kill(worker, signal.SIGKILL)
    # On a busy machine the next worker may be there before anybody has asked.
    wait_until(
        lambda: (
            not client.is_model_ready("finding") or serving.model("finding").processes not in ((worker,), ())
        )
    )
    wait_until(lambda: client.is_model_ready("finding"))
    wait_until(client.is_server_ready)


def test_health_and_reflection(serving: Serving) -> None:
    from grpc_health.v1 import health_pb2, health_pb2_grpc
    from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

    with grpc.insecure_channel(serving.grpc) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        wait_until(
            lambda: (
                stub.Check(health_pb2.HealthCheckRequest()).status == health_pb2.HealthCheckResponse.SERVING
            )
        )
        database = ProtoReflectionDescriptorDatabase(channel)
        assert "inference.GRPCInferenceService" in database.get_services()
        file = database.FindFileContainingSymbol("inference.GRPCInferenceService")
        assert any(each.name == "ModelInferRequest" for each in file.message_type)


def test_settings_and_shared_memory_of_cuda_are_answered(client: Any) -> None:
    assert list(client.get_trace_settings().settings["trace_level"].value) == ["OFF"]
    assert client.get_log_settings().settings["log_info"].bool_param
    assert not client.get_cuda_shared_memory_status().regions
    assert not client.get_system_shared_memory_status().regions
    for call in (
        lambda: client.register_system_shared_memory("a", "/a", 16),
        client.unregister_system_shared_memory,
        client.unregister_cuda_shared_memory,
    ):
        with pytest.raises(
            InferenceServerException, match=r"Client shared memory is disabled.*allow-client-shm"
        ):
            call()


def test_messages_that_are_too_large_are_refused(tmp_path: Path) -> None:
    zoo.write_plain(tmp_path, "open", zoo.open_addition())
    with Serving(tmp_path, limits={"message_bytes": 1 << 16}, http="") as service:
        service.wait_ready()
        with triton.InferenceServerClient(service.grpc) as client:
            x = np.zeros((20_000, 3), np.float32)
            with pytest.raises(InferenceServerException) as caught:
                client.infer("open", [given("x", x)])
            assert caught.value.status() == "StatusCode.RESOURCE_EXHAUSTED"
            assert client.infer("open", [given("x", x[:4])]).as_numpy("y").shape == (4, 3)


def trailing_of(stub: Any, request: Any, *metadata: tuple[str, str]) -> dict[str, str | bytes]:
    """Returns the metadata behind the answer of an inference."""
    _, call = stub.ModelInfer.with_call(request, metadata=metadata)
    return dict(call.trailing_metadata())


def test_clients_that_spread_requests_are_told_the_load(serving: Serving) -> None:
    request = service_pb2.ModelInferRequest(model_name="same_FP32")
    request.inputs.add(name="x", datatype="FP32", shape=(1, 4))
    request.raw_input_contents.append(X.tobytes())
    with grpc.insecure_channel(serving.grpc) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        for _ in range(2):
            found = trailing_of(stub, request, ("endpoint-load-metrics-format", "json"))
            form, _, text = str(found["endpoint-load-metrics"]).partition(" ")
            assert form == "JSON"
            load = json.loads(text)
            assert 0 <= load["cpu_utilization"] <= 1
            assert load["named_metrics"] == {"pending_request_count": 0}
        found = trailing_of(stub, request, ("endpoint-load-metrics-format", "text"))
        assert str(found["endpoint-load-metrics"]).startswith("TEXT cpu_utilization=")
        for metadata in ((), (("endpoint-load-metrics-format", "yaml"),)):
            assert not any(key.startswith("endpoint-load") for key in trailing_of(stub, request, *metadata))


@pytest.mark.parametrize(
    ("form", "key"),
    [
        (None, None),
        (b"json", "endpoint-load-metrics"),
        # The core of gRPC shows this one to policies that balance load, and not to applications.
        (b"bin", "endpoint-load-metrics-bin"),
        (b"yaml", None),
    ],
)
@pytest.mark.parametrize("secret", ["one", "two"])
def test_only_clients_that_may_ask_for_statistics_are_told_the_load(
    form: bytes | None, key: str | None, secret: str
) -> None:
    restrictions = Restrictions(("statistics:secret=one",), noun="protocol")
    registry = SimpleNamespace(served=list)
    calls: Any = SimpleNamespace(
        regions=NoRegions(), registry=registry, endpoint_load=EndpointLoad(HostUsage())
    )
    service = V2Service(calls, RegionCalls(), RequestBudget(1), "", restrictions, ForwardedHeaders())
    sent: list[tuple[bytes, Any]] = []
    call: Any = SimpleNamespace(
        invocation_metadata=lambda: (("secret", secret),),
        finish=lambda answer, trailing=(): sent.append((answer, trailing)),
    )
    service._finish(call, b"answer", form)
    ((answer, trailing),) = sent
    assert answer == b"answer"
    assert [name for name, _ in trailing] == ([key] if key is not None and secret == "one" else [])


@pytest.mark.parametrize(("token", "is_late"), [("secret", False), ("secret", True), ("wrong", False)])
def test_only_admitted_requests_count_while_they_arrive(token: str, is_late: bool) -> None:
    """Clients without the token cannot have others refused."""
    late = ServiceError(Status.EXHAUSTED, "it would be late") if is_late else None
    version = SimpleNamespace(arrivals=Arrivals(), refusal=lambda limit_s: late)
    calls: Any = SimpleNamespace(registry=SimpleNamespace(only=lambda: version), regions=NoRegions())
    restrictions = Restrictions((), noun="protocol")
    service = V2Service(calls, RegionCalls(), RequestBudget(1), "secret", restrictions, ForwardedHeaders())
    refused: list[grpc.StatusCode] = []
    arrived: list[Callable[[], None]] = []
    call: Any = SimpleNamespace(
        time_remaining=lambda: 1.0,
        invocation_metadata=lambda: (("authorization", f"Bearer {token}"),),
        refuse=lambda code, details: refused.append(code),
        message_follows=arrived.append,
    )
    is_refused = service._refuses_infer(call)
    assert is_refused is (is_late or token == "wrong")
    assert len(version.arrivals) == len(arrived) == (not is_refused)
    if is_refused:
        expected = grpc.StatusCode.RESOURCE_EXHAUSTED if is_late else grpc.StatusCode.UNAUTHENTICATED
        assert refused == [expected]
    for each in arrived:
        each()
    assert len(version.arrivals) == 0
