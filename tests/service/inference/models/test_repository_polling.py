"""Models that are loaded and unloaded as the repository changes."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from support.inference import zoo
from support.inference.serving import Serving
from support.waiting import wait_until

from neurald.service.inference.models.registry import Registry
from neurald.service.inference.models.repository_polling import RepositoryPolling
from neurald.service.inference.protocol.errors import ServiceError, Status
from neurald.service.inference.repository.folders import Repository

pytest.importorskip("tritonclient.grpc", reason="the group test is not installed")
import tritonclient.grpc as triton


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    zoo.write_plain(tmp_path, "first", zoo.reshaping())
    return tmp_path


def write(folder: Path, name: str, content: bytes) -> None:
    """Replaces a model at once, as programs do that deploy models."""
    (folder / "new").write_bytes(content)
    (folder / "new").replace(folder / f"{name}.tflite")


def shape(client: triton.InferenceServerClient, name: str) -> list[int]:
    return list(client.get_model_metadata(name).inputs[0].shape)


def test_the_service_follows_the_repository(folder: Path) -> None:
    with (
        Serving(folder, poll_s=0.05, allow_control=False) as serving,
        triton.InferenceServerClient(serving.wait_ready().grpc) as client,
    ):
        zoo.write_model(folder, "second", zoo.reshaping())
        wait_until(lambda: client.is_model_ready("second"), 60.0)
        assert shape(client, "first") == [1, 4]
        write(folder, "first", zoo.reshaping(count=6))
        wait_until(lambda: shape(client, "first") == [1, 6], 60.0)
        write(folder, "first", b"not a model")
        serving.wait_for(lambda status: "load failed" in serving.model("first").reason)
        tensor = triton.InferInput("x", [1, 6], "FP32")
        tensor.set_data_from_numpy(np.ones((1, 6), np.float32))
        assert client.infer("first", [tensor]).as_numpy("y").tolist() == [1.0] * 6
        (folder / "first.tflite").unlink()
        wait_until(lambda: not client.is_model_ready("first"), 60.0)
        serving.wait_for(lambda status: status.is_ready and len(status.models) == 1)
        assert client.is_model_ready("second")
        with pytest.raises(triton.InferenceServerException, match="not allowed if polling is enabled"):
            client.load_model("second")


class RecordingRegistry:
    """Notes which models are loaded and unloaded, of which those in `broken` cannot be."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.broken: set[str] = set()

    async def load(self, name: str) -> None:
        self.calls.append(f"load {name}")
        if name in self.broken:
            raise ServiceError(Status.INVALID, "it is broken")

    async def unload(self, name: str) -> None:
        self.calls.append(f"unload {name}")


@pytest.fixture
def repository(folder: Path) -> Iterator[Repository]:
    found = Repository([folder])
    yield found
    found.close()


def test_only_what_has_changed_is_loaded_again(
    folder: Path, repository: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    registry = RecordingRegistry()
    polling = RepositoryPolling(cast(Registry, registry), repository, None)

    async def looked() -> list[str]:
        registry.calls = []
        await polling.look()
        return registry.calls

    async def check() -> None:
        await polling.note()
        assert await looked() == []
        write(folder, "second", b"2")
        write(folder, "third", b"3")
        registry.broken = {"second"}
        assert await looked() == ["load second", "load third"]
        assert "the model second cannot be served as it is now: it is broken" in caplog.text
        assert await looked() == [], "a broken model is loaded again without a change"
        write(folder, "second", b"22")
        assert await looked() == ["load second"]
        (folder / "first.tflite").unlink()
        assert await looked() == ["unload first"]

    asyncio.run(check())


def test_only_named_models_are_looked_at(folder: Path, repository: Repository) -> None:
    registry = RecordingRegistry()
    polling = RepositoryPolling(cast(Registry, registry), repository, ["second"])

    async def check() -> None:
        await polling.note()
        (folder / "first.tflite").unlink()
        write(folder, "second", b"2")
        write(folder, "third", b"3")
        await polling.look()
        assert registry.calls == ["load second"]

    asyncio.run(check())


def test_a_repository_that_cannot_be_read_unloads_nothing(
    repository: Repository, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = RecordingRegistry()
    polling = RepositoryPolling(cast(Registry, registry), repository, None)

    def fail(_: Repository) -> dict[str, object]:
        raise OSError(5, "Input/output error")

    async def check() -> None:
        await polling.note()
        with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
            patch.setattr(Repository, "states", fail)
            await polling.look()
        assert "cannot be read; what is loaded stays: Input/output error" in caplog.text
        await polling.look()
        assert registry.calls == []

    asyncio.run(check())
