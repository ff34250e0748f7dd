"""Models that clients load, with a configuration or files of their own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.inference import zoo
from support.inference.serving import Serving

pytest.importorskip("tritonclient.http", reason="the group test is not installed")
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

LABELS = "cat\ndog\n"
CONFIG = (
    'output [ { name: "y" data_type: TYPE_FP32 dims: [ 4 ] label_filename: "labels.txt" } ] '
    "version_policy { all {} }"
)


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("models")
    zoo.write_model(folder, "same", zoo.reshaping(), zoo.reshaping(), config=CONFIG)
    (folder / "same/labels.txt").write_text(LABELS)
    with Serving(folder) as found:
        yield found.wait_ready()


@pytest.fixture(params=[triton_http, triton_grpc], ids=["http", "grpc"])
def client(serving: Serving, request: pytest.FixtureRequest) -> Iterator[Any]:
    place = serving.http if request.param is triton_http else serving.grpc
    with request.param.InferenceServerClient(place) as found:
        found.module = request.param
        yield found


def asked(client: Any, name: str, count: int, **named: Any) -> Any:
    tensor = client.module.InferInput("x", [1, count], "FP32")
    tensor.set_data_from_numpy(np.arange(count, dtype=np.float32).reshape(1, count))
    return client.infer(name, [tensor], **named).as_numpy("y")


def test_classes_have_the_names_of_the_label_file(client: Any) -> None:
    wanted = [client.module.InferRequestedOutput("y", class_count=4)]
    found = [each.decode() for each in asked(client, "same", 4, outputs=wanted)]
    assert found == ["3.000000:3", "2.000000:2", "1.000000:1:dog", "0.000000:0:cat"]


def test_files_of_a_client_take_the_place_of_the_repository(client: Any) -> None:
    files = {"file:5/model.tflite": zoo.reshaping(count=6)}
    with pytest.raises(InferenceServerException, match="failed to load 'same', failed to poll"):
        client.load_model("same", files=files)
    for name in ("same", "other"):
        client.load_model(name, config="{}", files=files)
        assert client.is_model_ready(name, "5")
        assert asked(client, name, 6).tolist() == list(range(6))
    assert not client.is_model_ready("same", "1")
    client.unload_model("other")
    client.unload_model("same")
    client.load_model("same")
    assert client.is_model_ready("same", "2")
    assert asked(client, "same", 4).tolist() == list(range(4))
    with pytest.raises(InferenceServerException, match="failed to load 'other', failed to poll"):
        client.load_model("other")
    with pytest.raises(InferenceServerException, match="failed to load 'same', failed to poll"):
        client.load_model("same", config="{}", files={"file:../1/model.tflite": b"a"})
    client.unload_model("missing")


def test_a_configuration_of_a_client_stays_until_the_files_change(client: Any, serving: Serving) -> None:
    client.load_model("same", config='{"version_policy": {"specific": {"versions": [1]}}}')
    assert not client.is_model_ready("same", "2")
    client.load_model("same")
    assert not client.is_model_ready("same", "2")
    Path(serving.folder, "same/labels.txt").write_text(LABELS)
    client.load_model("same")
    assert client.is_model_ready("same", "2")


def test_models_that_cannot_be_loaded_stay_as_they_are(client: Any) -> None:
    with pytest.raises(
        InferenceServerException, match="load failed for model 'same': version 9 is at UNAVAIL"
    ):
        client.load_model("same", config="{}", files={"file:9/model.tflite": b"not a model"})
    with pytest.raises(
        InferenceServerException, match=r"load failed for model 'same': version 1.*no file 1/a"
    ):
        client.load_model("same", config='{"default_model_filename": "a"}', files={"file:1/b": b""})
    assert client.is_model_ready("same", "2")
    for version, message in (("9", "version 9 is not found"), ("0", "integral value > 0"), ("x", "integral")):
        with pytest.raises(InferenceServerException, match=message):
            asked(client, "same", 4, model_version=version)
