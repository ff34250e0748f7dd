"""The models that clients have loaded and unloaded outlive the front end."""

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
from neurald.service.manager.state import ServiceStatus

_NAMES = ("a", "b", "c")


def test_the_last_choice_counts_and_is_reported() -> None:
    choices = ModelChoices({"b": False})
    reported: list[dict[str, bool]] = []
    choices.report = lambda: reported.append(choices.current())
    assert (choices.to_load(_NAMES), choices.to_load(()), choices.unloaded()) == (("a", "c"), (), ("b",))
    choices.note("b", is_wanted=False, names=_NAMES)
    assert reported == []
    choices.note("c", is_wanted=True, names=_NAMES)
    choices.note("b", is_wanted=True, names=_NAMES)
    choices.note("c", is_wanted=False, names=_NAMES)
    assert reported == [{"b": False, "c": True}, {"c": True, "b": True}, {"b": True, "c": False}]
    assert (choices.to_load(_NAMES), choices.to_load(()), choices.unloaded()) == (("a", "b"), ("b",), ("c",))


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
