"""grpcurl, which knows nothing of the protocol but what reflection says."""

import base64
import json
import struct
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.inference import zoo
from support.inference.serving import Serving
from support.inference.tools import grpcurl

_SERVICE = "inference.GRPCInferenceService"
_TENSOR = {"name": "x", "datatype": "FP32", "shape": [1, 4], "contents": {"fp32_contents": [1, 2, 3, 4]}}
_REQUEST = {"model_name": "same", "id": "a", "inputs": [_TENSOR]}

Ask = Callable[..., tuple[list[Any], str]]


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("models")
    zoo.write_plain(folder, "same", zoo.reshaping())
    with Serving(folder, http="") as service:
        yield service.wait_ready()


@pytest.fixture(scope="module")
def ask(serving: Serving, tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """Returns what makes a call: it gives the answers, and the error that ended it."""
    program = grpcurl(tmp_path_factory.mktemp("grpcurl"))

    def asked(method: str, *requests: Any) -> tuple[list[Any], str]:
        done = subprocess.run(
            [program, "-plaintext", "-d", "@", serving.grpc, method],
            input="".join(map(json.dumps, requests)),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        answers, rest = [], done.stdout.strip()
        while rest:
            answer, end = json.JSONDecoder().raw_decode(rest)
            answers.append(answer)
            rest = rest[end:].strip()
        return answers, done.stderr

    return asked


def test_health_and_metadata(ask: Ask) -> None:
    for name in ({}, {"service": _SERVICE}):
        assert ask("grpc.health.v1.Health/Check", name) == ([{"status": "SERVING"}], "")
    assert "Code: NotFound" in ask("grpc.health.v1.Health/Check", {"service": "none"})[1]
    assert ask(f"{_SERVICE}/ServerReady") == ([{"ready": True}], "")
    (metadata,), _ = ask(f"{_SERVICE}/ModelMetadata", {"name": "same"})
    assert metadata["inputs"] == [{"name": "x", "datatype": "FP32", "shape": ["1", "4"]}]


def test_answers_and_errors(ask: Ask) -> None:
    (answer,), error = ask(f"{_SERVICE}/ModelInfer", _REQUEST)
    assert not error
    assert struct.unpack("<4f", base64.b64decode(answer["rawOutputContents"][0])) == (1, 2, 3, 4)
    assert "Code: NotFound" in ask(f"{_SERVICE}/ModelInfer", {**_REQUEST, "model_name": "none"})[1]
    assert "Code: InvalidArgument" in ask(f"{_SERVICE}/ModelInfer", {"model_name": "same"})[1]


def test_a_stream_answers_in_order(ask: Ask) -> None:
    requests = [{**_REQUEST, "id": str(number)} for number in range(5)]
    answers, error = ask(f"{_SERVICE}/ModelStreamInfer", *requests, {"model_name": "none"})
    assert not error
    assert [each["inferResponse"].get("id") for each in answers] == [*"01234", None]
    assert "none" in answers[-1]["errorMessage"]


def test_models_are_unloaded_and_loaded(ask: Ask) -> None:
    for call, state in (("RepositoryModelUnload", "UNAVAILABLE"), ("RepositoryModelLoad", "READY")):
        assert ask(f"{_SERVICE}/{call}", {"model_name": "same"}) == ([{}], "")
        (index,), _ = ask(f"{_SERVICE}/RepositoryIndex")
        assert [each["state"] for each in index["models"]] == [state]
