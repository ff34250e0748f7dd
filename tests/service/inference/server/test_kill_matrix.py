"""Processes of the service are killed and stopped while clients call it in every way: no answer is
wrong, and a client that repeats what the service did not answer gets an answer to every call."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("uvicorn", reason="the extra [serve] is not installed")
pytest.importorskip("tritonclient.grpc", reason="the group test is not installed")
import tritonclient.grpc as grpc_client
import tritonclient.http as http_client
from faults.service_kills import served, service_status, strike, ways_of
from support.inference.insistent import InsistentClients
from support.waiting import wait_until
from tritonclient.utils import InferenceServerException, shared_memory


def test_no_call_is_lost(tmp_path_factory: pytest.TempPathFactory) -> None:
    with served(Path(tmp_path_factory.mktemp("k"))) as managed:
        clients = InsistentClients(ways_of(managed))
        try:
            clients.wait_for_more(10)
            for kind, fault in (
                ("worker", signal.SIGKILL),
                ("worker", signal.SIGSTOP),
                ("worker", signal.SIGSEGV),
                ("front end", signal.SIGKILL),
                ("worker", signal.SIGKILL),
            ):
                strike(managed, kind, fault)
                clients.wait_for_more(30)
        finally:
            clients.stop()
    assert (clients.wrong, clients.lost) == ([], [])


def test_what_clients_have_chosen_outlives_the_front_end(tmp_path_factory: pytest.TempPathFactory) -> None:
    x = np.array([[1, 2, 3, 4]], np.int32)
    names = [f"kept-{os.getpid()}", f"lost-{os.getpid()}"]
    with served(Path(tmp_path_factory.mktemp("k"))) as managed:
        handles = [shared_memory.create_shared_memory_region(name, f"/{name}", 32) for name in names]
        addresses = service_status(managed).addresses
        with (
            http_client.InferenceServerClient(addresses["http"]) as by_http,
            grpc_client.InferenceServerClient(addresses["grpc"]) as by_grpc,
        ):
            for name in names:
                by_grpc.register_system_shared_memory(name, f"/{name}", 32)
            by_http.update_trace_settings(settings={"trace_rate": "7"})
            by_http.update_trace_settings("same", {"trace_level": ["TIMESTAMPS", "TENSORS"]})
            by_http.update_log_settings({"log_verbose_level": 1, "log_info": False})

            def settings() -> list[dict[str, object]]:
                traces = (by_http.get_trace_settings(model) for model in (None, "same"))
                return [*traces, by_http.get_log_settings()]

            before = settings()
            shared_memory.destroy_shared_memory_region(handles[1])
            processes = [service_status(managed).process]
            for _ in range(2):  # what the second one was given is given to the third one
                strike(managed, "front end", signal.SIGKILL)
                wait_until(lambda: service_status(managed).process not in (None, *processes))
                wait_until(lambda: service_status(managed).is_ready)
                processes.append(service_status(managed).process)
                wait_until(lambda: by_grpc.is_server_ready() and by_http.is_server_ready())
            assert settings() == before
            tensor = grpc_client.InferInput("x", [1, 4], "INT32")
            tensor.set_shared_memory(names[0], 16)
            wanted = grpc_client.InferRequestedOutput("y")
            wanted.set_shared_memory(names[0], 16, 16)
            shared_memory.set_shared_memory_region(handles[0], [x])
            by_grpc.infer("same", [tensor], outputs=[wanted])
            assert (
                shared_memory.get_contents_as_numpy(handles[0], np.int32, [1, 4], 16).tolist() == x.tolist()
            )
            tensor.set_shared_memory(names[1], 16)
            with pytest.raises(InferenceServerException, match="Unable to find shared memory region"):
                by_grpc.infer("same", [tensor])
            by_http.register_system_shared_memory(names[0], f"/{names[0]}", 32)
            with pytest.raises(InferenceServerException, match="already in manager"):
                by_http.register_system_shared_memory(names[0], f"/{names[0]}", 32)
        shared_memory.destroy_shared_memory_region(handles[0])
