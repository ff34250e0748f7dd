"""The ways in which clients on this host have an execution service run a model.

The model has an input `x` and an output `y`, of the same type and size.
"""

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tritonclient.grpc as grpc_client
import tritonclient.http as http_client
from tritonclient.utils import np_to_triton_dtype, shared_memory

import neurald as nd

#: Returns the output for an input.
Call = Callable[[Any], Any]
#: Connects a client.
Way = Callable[[], contextlib.AbstractContextManager[Call]]

#: Longer calls have failed.
CALL_S = 60.0


def _tensor(module: Any, x: Any) -> Any:
    return module.InferInput("x", x.shape, np_to_triton_dtype(x.dtype))


def _limit(module: Any) -> dict[str, float]:
    return {"client_timeout": CALL_S} if module is grpc_client else {}


def _client(module: Any, address: str) -> Any:
    limits = {} if module is grpc_client else {"network_timeout": CALL_S, "connection_timeout": CALL_S}
    return module.InferenceServerClient(address, **limits)


@contextlib.contextmanager
def _messages(module: Any, address: str, model: str) -> Iterator[Call]:
    def call(x: Any) -> Any:
        tensor = _tensor(module, x)
        tensor.set_data_from_numpy(x)
        return client.infer(model, [tensor], **_limit(module)).as_numpy("y")

    with _client(module, address) as client:
        yield call


@contextlib.contextmanager
def _stream(address: str, model: str) -> Iterator[Call]:
    answers: queue.Queue[Any] = queue.Queue()
    with grpc_client.InferenceServerClient(address) as client:
        client.start_stream(lambda result, error: answers.put(error or result))

        def call(x: Any) -> Any:
            tensor = _tensor(grpc_client, x)
            tensor.set_data_from_numpy(x)
            client.async_stream_infer(model, [tensor])
            answer = answers.get(timeout=CALL_S)
            if isinstance(answer, Exception):
                raise answer
            return answer.as_numpy("y")

        yield call
        client.stop_stream(cancel_requests=True)


@contextlib.contextmanager
def _regions(module: Any, address: str, model: str, example: Any, *, is_kept: bool) -> Iterator[Call]:
    size = example.nbytes
    name = f"way-{threading.get_ident()}"
    region = shared_memory.create_shared_memory_region(name, f"/{name}", 2 * size)
    tensor, wanted = _tensor(module, example), module.InferRequestedOutput("y")
    tensor.set_shared_memory(name, size)
    wanted.set_shared_memory(name, size, size)

    @contextlib.contextmanager
    def registered() -> Iterator[None]:
        client.unregister_system_shared_memory(name)
        client.register_system_shared_memory(name, f"/{name}", 2 * size)
        yield
        client.unregister_system_shared_memory(name)

    def call(x: Any) -> Any:
        with contextlib.nullcontext() if is_kept else registered():
            shared_memory.set_shared_memory_region(region, [x, np.zeros_like(x)])
            client.infer(model, [tensor], outputs=[wanted], **_limit(module))
            return shared_memory.get_contents_as_numpy(region, x.dtype, x.shape, size).copy()

    try:
        with _client(module, address) as client, registered() if is_kept else contextlib.nullcontext():
            yield call
    finally:
        shared_memory.destroy_shared_memory_region(region)


@contextlib.contextmanager
def _lane(path: Path, model: str) -> Iterator[Call]:
    with nd.connect_service(path).model(model) as served:
        yield lambda x: served.run([x])[0]


def ways(grpc: str, http: str, socket: Path, model: str, example: Any) -> dict[str, Way]:
    """Returns all ways to ask a service, by name.

    Args:
        grpc, http: addresses of the service.
        socket: that opens lanes of it.
        model: its name.
        example: of its input; others have the same type and shape.
    """

    def regions(module: Any, address: str, *, is_kept: bool) -> Way:
        return lambda: _regions(module, address, model, example, is_kept=is_kept)

    return {
        "gRPC": lambda: _messages(grpc_client, grpc, model),
        "HTTP": lambda: _messages(http_client, http, model),
        "stream": lambda: _stream(grpc, model),
        "regions over gRPC": regions(grpc_client, grpc, is_kept=True),
        "regions over HTTP": regions(http_client, http, is_kept=True),
        "new regions": regions(grpc_client, grpc, is_kept=False),
        "lane": lambda: _lane(socket, model),
    }
