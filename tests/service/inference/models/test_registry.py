"""Models that clients load, with a configuration or files of their own."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from google.protobuf import json_format
from support.inference import zoo
from support.inference.serving import Serving

from neurald.hal.lanes import socket_end
from neurald.service.inference.models import registry
from neurald.service.inference.models.model_choices import ModelChoices
from neurald.service.inference.models.registry import OUTDATED, Registry
from neurald.service.inference.models.served_version import VersionOptions
from neurald.service.inference.models.workers import worker_pool
from neurald.service.inference.models.workers.worker_options import WorkerOptions
from neurald.service.inference.models.workers.worker_pool import WorkerPool
from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.repository.folders import Found, Repository
from neurald.service.inference.server import supervision
from neurald.service.inference.worker.orders import LoadOrder, ModelDescription
from neurald.service.inference.worker.read_files import read_state
from neurald.service.manager import control

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


def test_versions_that_were_served_may_come_back(client: Any) -> None:
    is_http = client.module is triton_http
    not_ready = ("503" if is_http else "StatusCode.UNAVAILABLE", "version 1 is not at ready state")
    not_found = ("404" if is_http else "StatusCode.NOT_FOUND", "version 7 is not found")

    def refusal(version: str) -> tuple[str, str]:
        with pytest.raises(InferenceServerException) as caught:
            asked(client, "same", 4, model_version=version)
        text = caught.value.message().removeprefix("Request for unknown model: 'same' ")
        return caught.value.status(), text

    def states() -> dict[str, tuple[str, str]]:
        index = client.get_model_repository_index()
        found = index if is_http else map(json_format.MessageToDict, index.models)
        # Other tests may have had other versions.
        return {
            each["version"]: (each["state"], each.get("reason", ""))
            for each in found
            if each["name"] == "same" and each["version"] in "12"
        }

    client.load_model("same", config='{"version_policy": {"all": {}}}')
    client.load_model("same", config='{"version_policy": {"specific": {"versions": [2]}}}')
    assert (refusal("1"), refusal("7")) == (not_ready, not_found)
    assert states() == {"1": ("UNAVAILABLE", "unloaded"), "2": ("READY", "")}
    with pytest.raises(InferenceServerException, match="requested model version is not available"):
        client.get_inference_statistics("same", "1")
    client.unload_model("same")
    assert refusal("1") == not_ready
    assert refusal("")[1] == "has no available versions"
    client.load_model("same")
    assert states() == {"1": ("READY", ""), "2": ("READY", "")}


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


def test_a_model_whose_workers_kept_dying_is_served_again_when_it_is_loaded(
    client: Any, serving: Serving
) -> None:
    config = '{"version_policy": {"specific": {"versions": [2]}}}'
    client.load_model("same", config=config)
    serving.wait_for(lambda status: any(each.name == "same" for each in status.models))
    killed: set[int] = set()
    while "times within" not in serving.model("same").reason:
        for process in set(serving.model("same").processes) - killed:
            with contextlib.suppress(ProcessLookupError):  # it was of the version before
                os.kill(process, signal.SIGKILL)
            killed.add(process)
        time.sleep(0.01)
    assert not client.is_model_ready("same")
    client.load_model("same")
    assert client.is_model_ready("same", "2")
    assert not client.is_model_ready("same", "1")  # it has the same configuration
    assert asked(client, "same", 4).tolist() == list(range(4))
    client.unload_model("same")
    client.load_model("same")


class FakeWorker:
    """A worker without a process."""

    has_ended = False
    is_ready = True
    reason = ""
    pid = 1

    def __init__(self, options: WorkerOptions) -> None:
        self.read_state = read_state()
        self.on_end: Callable[[], None] = lambda: None
        self.lanes: list[socket.socket] = []

    async def load(self, order: LoadOrder, model: int, within_s: float) -> ModelDescription:
        return ModelDescription(inputs=(), outputs=(), devices=(), drivers=())

    def open_lane(self, *, is_trusted: bool) -> tuple[socket.socket, int]:
        mine, theirs = socket_end.pair()
        self.lanes.append(theirs)
        return mine, len(self.lanes)

    def cut_window(self, lane: int, window: int) -> None:
        raise AssertionError("no lane has windows")

    def kill(self) -> None:
        self.has_ended = True
        for lane in self.lanes:
            lane.close()
        self.on_end()

    end = kill


def test_models_know_of_files_that_were_written_before_they_were_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers cannot read them once they are started; one is started in advance."""
    settings = tmp_path / "neurald.toml"
    monkeypatch.setenv("NEURALD_CONFIG", str(settings))
    monkeypatch.setattr(worker_pool, "ModelWorker", FakeWorker)
    (tmp_path / "same.tflite").touch()

    async def check() -> None:
        models = registry_of(tmp_path)
        await models.load("same")
        models._workers._start_spare()
        spare = models._workers._spare
        assert isinstance(spare, FakeWorker)
        assert models.statuses()[0].reason == ""
        settings.touch()
        assert models.statuses()[0].reason == OUTDATED
        before = models.find("same")
        await models.load("same")
        assert models.statuses()[0].reason == ""
        assert models.find("same") is not before
        assert spare.has_ended
        latest = models.find("same")
        await models.load("same")
        assert models.find("same") is latest
        await models.close(0.0)
        models._workers.close()

    asyncio.run(check())


def test_operators_are_told_of_versions_that_a_policy_names_and_that_are_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(worker_pool, "ModelWorker", FakeWorker)
    folder = zoo.write_model(tmp_path, "m", b"a", b"b")

    async def check() -> None:
        models = registry_of(tmp_path)

        async def reason(versions: object) -> str:
            caplog.clear()
            (folder / "config.pbtxt").write_text(f"version_policy {{ specific {{ versions: {versions} }} }}")
            await models.load("m")
            (status,) = models.statuses()
            assert (status.version, status.is_ready) == ("2", True)
            assert bool(status.reason) == bool(caplog.messages)
            assert all("the model m is served, but" in each for each in caplog.messages)
            assert all(status.reason in each for each in caplog.messages)
            return status.reason

        assert await reason([2]) == ""
        told = "its policy names versions that are not there: "
        assert (await reason([2, 9])).startswith(f"{told}9; add them")
        assert (await reason([7, 2, 9])).startswith(f"{told}7 and 9;")
        many = await reason([2, *range(10, 10_010)])
        assert many.startswith(f"{told}10, 11,")
        assert "19 and 9990 more;" in many
        caplog.clear()
        await models.load("m")
        assert models.statuses()[0].reason == many
        assert not caplog.messages, "nothing has changed"
        assert await reason([2]) == ""
        await reason([2, 3])
        zoo.write_model(tmp_path, "m", b"c", first=3)
        (folder / "config.pbtxt").write_text("version_policy { specific { versions: [2, 3] } }")
        await models.load("m")
        assert [(each.version, each.reason) for each in models.statuses()] == [("2", ""), ("3", "")]
        await models.unload("m")
        assert not models._absences
        await models.close(0.0)
        models._workers.close()

    asyncio.run(check())


def test_versions_that_are_the_same_as_before_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "ModelWorker", FakeWorker)
    folder = zoo.write_model(tmp_path, "m", b"a", b"b", b"c", config="version_policy { all {} }")

    async def check() -> None:
        models = registry_of(tmp_path)
        await models.load("m")
        first, second, third = models.served()
        (folder / "2/model.tflite").write_bytes(b"changed")
        zoo.write_model(tmp_path, "m", b"d", first=4, config="version_policy { latest { num_versions: 3 } }")
        await models.load("m")
        again, same, fourth = models.served()
        assert (same, fourth.version) == (third, 4)
        assert (again.version, again is second) == (2, False)
        assert same.config.version_policy.latest.num_versions == 3
        assert first._dispatcher._is_unloaded
        assert second._dispatcher._is_unloaded
        assert not third._dispatcher._is_unloaded
        (folder / "config.pbtxt").write_text(
            "max_batch_size: 2 version_policy { specific { versions: [3] } }"
        )
        await models.load("m")
        assert models.find("m").version == 3
        assert models.find("m") is not third
        for given, stays in (
            ({3: b"c"}, False),
            ({3: b"c"}, True),
            ({3: b"d"}, False),
            ({3: b"d", 4: b"e"}, True),
        ):
            before = models.find("m", "3")
            files = {f"{version}/model.tflite": content for version, content in given.items()}
            await models.load("m", '{"version_policy": {"all": {}}}', files)
            assert (models.find("m", "3") is before) is stays
        await models.close(0.0)
        models._workers.close()

    asyncio.run(check())


FILES = {"1/model.tflite": b"a"}


async def note(self: Registry, found: Found, config_json: str | None) -> None:
    """Loads nothing."""
    files = tuple((path, b"") for path in found.files)
    self._sources[found.name] = registry._Source(
        state=(), config_json=config_json, files=files, given_bytes=registry._size(found)
    )


def test_clients_give_few_models_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_MAX_GIVEN", 3)
    monkeypatch.setattr(Registry, "_load", note)

    async def check() -> None:
        models = registry_of(tmp_path)
        for name in ("a", "b", "c", "a"):
            await models.load(name, "{}", FILES)
        with pytest.raises(ServiceError, match="there are 3 models whose files clients have sent") as failed:
            await models.load("d", "{}", FILES)
        assert failed.value.status is Status.EXHAUSTED
        models._models["b"] = {}
        await models.unload("b")
        await models.load("d", "{}", FILES)
        assert not models._locks

    asyncio.run(check())


def test_files_of_clients_have_a_limit_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Registry, "_load", note)

    async def check() -> None:
        models = registry_of(tmp_path, given_bytes=10)
        half = {"1/model.tflite": b"12345"}
        for name in ("a", "b", "a"):
            await models.load(name, "{}", half)
        with pytest.raises(ServiceError, match="would have 15 bytes; 10 may be") as failed:
            await models.load("c", "{}", half)
        assert failed.value.status is Status.EXHAUSTED
        with pytest.raises(ServiceError, match="would have 11 bytes"):
            await models.load("a", "{}", {"1/model.tflite": b"123456"})

    asyncio.run(check())


def test_names_of_clients_are_not_remembered_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_MAX_FAILURES", 4)

    async def check() -> None:
        models = registry_of(tmp_path)
        for number in range(10):
            with pytest.raises(ServiceError, match="is not valid"):
                await models.load(f"m{number % 7}", "{", FILES)
        assert [each.name for each in models.index()] == ["m0", "m1", "m2", "m6"]
        assert not models._locks

    asyncio.run(check())


@pytest.mark.parametrize("character", ["a", "\x01", "\N{GRINNING FACE}"])
def test_a_report_of_all_failures_is_not_too_long(character: str, tmp_path: Path) -> None:
    """A front end whose reports are too long is ended, and clients choose what fails."""

    config = json.dumps({"backend": character * 100_000}, ensure_ascii=False)

    async def check() -> int:
        models = registry_of(tmp_path)
        with pytest.raises(ServiceError, match="backend"):
            await models.load("m" * 128, config, FILES)
        return len(msgspec.json.encode(models.statuses()))

    most = asyncio.run(check()) * registry._MAX_FAILURES
    assert most < min(supervision._MAX_LINE_BYTES, control._MAX_REPLY_BYTES)


def test_a_model_of_two_repositories_is_not_guessed(tmp_path: Path) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
        zoo.write_plain(folder, "same", zoo.reshaping())

    async def check() -> None:
        models = registry_of(*folders)
        reason = "model appears in two or more repositories"
        assert [(each.name, each.state, each.reason) for each in models.index()] == [
            ("same", "UNAVAILABLE", reason)
        ]
        with pytest.raises(
            ServiceError, match=f"failed to load 'same', failed to poll from model repository: {reason}"
        ):
            await models.load("same")
        await models.load_all(None)
        assert not models.is_ready
        assert reason in models.statuses()[0].reason

    asyncio.run(check())


def test_a_failure_is_logged_while_other_models_are_still_being_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("broken", "slow"):
        zoo.write_plain(tmp_path, name, zoo.reshaping())

    async def check() -> None:
        models = registry_of(tmp_path)
        is_allowed = asyncio.Event()

        async def load(name: str) -> None:
            if name == "broken":
                raise ServiceError(Status.INVALID, "it is broken")
            await is_allowed.wait()

        monkeypatch.setattr(models, "load", load)
        models.is_starting = True
        loading = asyncio.create_task(models.load_all(None))
        async with asyncio.timeout(10):
            while "the model broken cannot be served: it is broken" not in caplog.text:
                await asyncio.sleep(0.01)
        assert models.is_starting
        is_allowed.set()
        await loading
        assert not models.is_starting

    asyncio.run(check())


def registry_of(*folders: Path, given_bytes: int = 1 << 20) -> Registry:
    workers = WorkerPool(WorkerOptions())
    return Registry(
        Repository(folders),
        workers,
        VersionOptions(queue_size=1, load_s=1.0),
        given_bytes=given_bytes,
        choices=ModelChoices({}),
    )
