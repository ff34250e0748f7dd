"""The conformance suite of V2 servers, with this one and with servers that misbehave."""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import grpc
import pytest
from support.daemon.processes import bare_environment, run_command
from support.inference import zoo
from support.inference.serving import Serving

from neurald.hal.errors import BadData, UnavailableDevice
from neurald.service.conformance.result import Outcome
from neurald.service.inference.conformance.client import Inference, Reply
from neurald.service.inference.conformance.grpc_client import GrpcV2Client
from neurald.service.inference.conformance.http_client import HttpV2Client
from neurald.service.inference.conformance.server_access import ServerAccess
from neurald.service.inference.conformance.suite import connect, run_checks
from neurald.service.inference.protocol.messages import SERVICE, message_type

MODELS = ("pair", "same_FP32", "same_BYTES", "same_FP16", "batched", "open", "finding")


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    repository = tmp_path_factory.mktemp("repository")
    zoo.write_plain(repository, "pair", zoo.addition())
    zoo.write_plain(repository, "open", zoo.open_addition())
    zoo.write_plain(repository, "finding", zoo.finding())
    for datatype in ("FP32", "BYTES", "FP16"):
        zoo.write_plain(repository, f"same_{datatype}", zoo.reshaping(zoo.TYPES[datatype]))
    zoo.write_model(repository, "batched", zoo.dense(), config="max_batch_size: 4 dynamic_batching {}")
    with Serving(repository, allow_client_shm=True) as service:
        yield service.wait_ready()


def url(serving: Serving, scheme: str) -> str:
    return f"{scheme}://{serving.grpc if scheme == 'grpc' else serving.http}"


@pytest.mark.parametrize("scheme", ["grpc", "http"])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.sampled(4)
def test_this_service_passes(serving: Serving, scheme: str, model: str) -> None:
    client = connect(ServerAccess.of(url(serving, scheme)))
    results = list(run_checks(client, model, 60))
    client.close()
    assert [(each.label, each.detail) for each in results if each.outcome is Outcome.FAILED] == []
    declined = {each.label for each in results if each.outcome is Outcome.DECLINED}
    expected = {"streams_answer_all_requests", "streams_survive_errors", "batches_are_rows", "typed_elements"}
    assert declined <= expected
    if model == "batched" and scheme == "grpc":
        assert not declined


class Misbehaving(GrpcV2Client):
    """Changes the answers of a server."""

    def __init__(self, access: ServerAccess, change: Callable[[Inference, Reply], Reply]) -> None:
        super().__init__(access)
        self._change = change

    def infer(self, request: Inference) -> Reply:
        """Runs a model, and changes the answer."""
        return self._change(request, super().infer(request))


def without_id(request: Inference, reply: Reply) -> Reply:
    return replace(reply, id="")


def all_outputs(request: Inference, reply: Reply) -> Reply:
    return replace(reply, outputs=reply.outputs[::-1])


def accepting(request: Inference, reply: Reply) -> Reply:
    return reply if reply.status == "OK" else Reply(model=request.model)


def blaming_itself(request: Inference, reply: Reply) -> Reply:
    return reply if reply.status == "OK" else replace(reply, status="INTERNAL")


def short(request: Inference, reply: Reply) -> Reply:
    return replace(
        reply, outputs=tuple(replace(each, data=(each.data or b"")[:-1]) for each in reply.outputs)
    )


@pytest.mark.parametrize(
    ("change", "check"),
    [
        (without_id, "ids_are_repeated"),
        (all_outputs, "outputs_are_chosen"),
        (accepting, "unknown_inputs_are_refused"),
        (accepting, "wrong_sizes_are_refused"),
        (blaming_itself, "wrong_datatypes_are_refused"),
        (short, "answers_fit_the_description"),
    ],
)
def test_faults_are_found(serving: Serving, change: Any, check: str) -> None:
    client = Misbehaving(ServerAccess.of(url(serving, "grpc")), change)
    failed = {each.label for each in run_checks(client, "pair", 0) if each.outcome is Outcome.FAILED}
    client.close()
    assert check in failed


GARBAGE = b"\xff" * 64


def test_statuses_of_what_is_no_message_are_those_of_the_library() -> None:
    request = Inference(model="none", inputs=())

    def refuse(_: Any, context: grpc.ServicerContext) -> Any:
        context.abort(grpc.StatusCode.INTERNAL, "failed")

    handler: Any = grpc.unary_unary_rpc_method_handler(
        refuse, request_deserializer=message_type("ModelInferRequest").FromString
    )
    server = grpc.server(ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, {"ModelInfer": handler})])
    client = GrpcV2Client(ServerAccess.of(f"grpc://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"))
    server.start()
    assert client.send_raw(GARBAGE, "").status == "INVALID_ARGUMENT"
    assert client.infer(request).status == "INTERNAL"
    client.close()
    server.stop(None).wait()


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (500, b'{"error": "cannot be parsed"}', "INVALID_ARGUMENT"),
        (500, b"Internal Server Error", "HTTP 500"),
        (500, b'{"error": ""}', "HTTP 500"),
        (502, b'{"error": "cannot be parsed"}', "HTTP 502"),
    ],
)
def test_an_error_of_http_has_a_text(status: int, body: bytes, expected: str) -> None:
    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    assert (
        HttpV2Client(ServerAccess.of(f"http://127.0.0.1:{server.server_port}")).send_raw(GARBAGE, "a").status
        == expected
    )
    thread.join()
    server.server_close()


def test_the_command(serving: Serving) -> None:
    environment = bare_environment()
    arguments = ["conformance", "--service", url(serving, "http"), "--model", "pair", "--count", "0"]
    done = run_command([*arguments, "--json"], environment, timeout_s=120)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["passed"]
    assert len(document["checks"]) > 25
    table = run_command(arguments, environment, timeout_s=120)
    assert "An answer has the outputs" in table.stdout
    wrong = run_command(["conformance"], environment, timeout_s=60)
    assert wrong.returncode == 2
    missing = run_command([*arguments[:-3], "missing"], environment, timeout_s=60)
    assert missing.returncode == 1
    assert "no model" in missing.stderr


def test_what_is_no_server_is_an_error() -> None:
    for text in ("localhost:8001", "ftp://a:1", "grpc://", "http://a:1/v2"):
        with pytest.raises(BadData):
            ServerAccess.of(text)
    for text in ("grpc://127.0.0.1:1", "http://127.0.0.1:1"):
        with pytest.raises(UnavailableDevice):
            list(run_checks(connect(ServerAccess.of(text)), "", 0))
