"""The models that clients have loaded and unloaded outlive the front end."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="the extra [serve] is not installed")
pytest.importorskip("tritonclient.grpc", reason="the group test is not installed")
from support.daemon.managed import Managed
from support.inference import zoo
from support.waiting import wait_until
from tritonclient.grpc import InferenceServerClient

from neurald.service.inference.models.model_choices import ModelChoices
from neurald.service.inference.models.registry import Registry
from neurald.service.inference.models.served_version import VersionOptions
from neurald.service.inference.models.workers.worker_options import WorkerOptions
from neurald.service.inference.models.workers.worker_pool import WorkerPool
from neurald.service.inference.repository.folders import Repository
from neurald.service.inference.server.calls.calls import Calls
from neurald.service.inference.server.calls.log_settings import LogSettings
from neurald.service.inference.server.settings import ServiceSettings
from neurald.service.inference.server.tracing.traces import RequestTraces
from neurald.service.manager.state import ServiceStatus

_NAMES = ("a", "b", "c")


def test_the_last_choice_counts_and_is_reported() -> None:
    choices = ModelChoices({"b": False})
    reported: list[dict[str, bool]] = []
    choices.report = lambda: reported.append(choices.current())
    assert _start(choices) == (("a", "c"), (), ("b",))
    choices.note("b", is_wanted=False, names=_NAMES)
    assert reported == []
    choices.note("c", is_wanted=True, names=_NAMES)
    choices.note("b", is_wanted=True, names=_NAMES)
    choices.note("c", is_wanted=False, names=_NAMES)
    assert reported == [{"b": False, "c": True}, {"c": True, "b": True}, {"b": True, "c": False}]
    assert _start(choices) == (("a", "b"), ("b",), ("c",))


def _start(choices: ModelChoices) -> tuple[tuple[str, ...], ...]:
    """Returns what is loaded at the start, by default and without a default, and what is not."""
    default, explicit = (choices.to_load(names, there=_NAMES) for names in (_NAMES, ()))
    return default, explicit, choices.unloaded()


def test_models_that_are_gone_are_not_loaded() -> None:
    """The service would wait for them, and not be ready."""
    choices = ModelChoices({"a": True, "gone": True})
    assert choices.to_load((), there=_NAMES) == ("a",)
    # This one was asked for by the operator, who is told that it is missing.
    assert choices.to_load(("gone",), there=_NAMES) == ("gone", "a")


@pytest.mark.parametrize("last", ["load", "unload"])
def test_of_calls_at_the_same_time_the_last_one_counts(
    last: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zoo.write_plain(tmp_path, "a", zoo.reshaping())

    async def check() -> None:
        choices = ModelChoices({})
        models = Registry(
            Repository([tmp_path]),
            WorkerPool(WorkerOptions()),
            VersionOptions(queue_size=1, load_s=1.0),
            given_bytes=1,
            choices=choices,
        )

        async def load(*_: object) -> None:
            await asyncio.sleep(0.01)

        monkeypatch.setattr(models, "_load", load)
        with contextlib.closing(LogSettings({})) as log_settings:
            calls = Calls(models, None, RequestTraces(ServiceSettings().trace, {}), log_settings)
            first, second = calls.load("a", {}), calls.unload("a")
            if last == "load":
                first, second = second, first
            # The second one waits for the lock of the model, which the first one has.
            await asyncio.gather(first, second)
        assert choices.current() == {"a": last == "load"}

    asyncio.run(check())


def test_only_models_of_the_repository_are_remembered() -> None:
    choices = ModelChoices({})
    for number in range(100):
        choices.note(f"sent by a client {number}", is_wanted=bool(number % 2), names=_NAMES)
    assert choices.current() == {}
    choices.note("a", is_wanted=False, names=_NAMES)
    choices.note("b", is_wanted=False, names=("b",))
    assert choices.current() == {"b": False}


@contextlib.contextmanager
def _served(folder: Path, *options: str) -> Iterator[Managed]:
    for name in _NAMES:
        zoo.write_model(folder / "models", name, zoo.reshaping())
    addresses = ("--grpc", f"unix://{folder / 'v2.sock'}")
    with Managed(folder, *addresses, "--repository", str(folder / "models"), *options) as managed:
        wait_until(lambda: _status(managed).is_ready)
        yield managed


def _status(managed: Managed) -> ServiceStatus:
    status = managed.manager_status().service
    assert status is not None
    return status


@pytest.mark.parametrize(
    ("options", "loads", "unloads", "expected"),
    [((), ("a", "b"), ("b", "c"), {"a"}), (("--model-control-mode", "explicit"), ("a", "b"), ("b",), {"a"})],
    ids=["default", "explicit"],
)
def test_a_new_front_end_serves_what_clients_have_chosen(
    tmp_path_factory: pytest.TempPathFactory,
    options: tuple[str, ...],
    loads: tuple[str, ...],
    unloads: tuple[str, ...],
    expected: set[str],
) -> None:
    with _served(tmp_path_factory.mktemp("c"), *options) as managed:
        first = _status(managed)
        address = first.addresses["grpc"].replace("unix://", "unix:")
        with InferenceServerClient(address) as client:
            for name in loads:
                client.load_model(name)
            for name in unloads:
                client.unload_model(name)
            # At once, since what a client was told must not depend on a later report.
            assert first.process is not None
            os.kill(first.process, signal.SIGKILL)

        def is_back() -> bool:
            status = _status(managed)
            return status.is_ready and status.process != first.process

        wait_until(is_back, 60)
        assert {each.name for each in _status(managed).models} == expected
        with InferenceServerClient(address) as client:
            index = {each.name: each.reason for each in client.get_model_repository_index().models}
            assert all(index[name] == "unloaded" for name in unloads)
            client.load_model(unloads[0])
            assert client.is_model_ready(unloads[0])
