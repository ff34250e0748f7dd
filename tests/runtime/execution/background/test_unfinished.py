"""Models are finished although their compilations are freed, or the program exits."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.models.small import add_model
from support.waiting import wait_until

import neurald as nd
from neurald.hal.compiling import leaving
from neurald.hal.device import PrepareOptions
from neurald.hal.errors import OpFailed
from neurald.runtime.execution.background import unfinished
from neurald.runtime.plan.preparer import Caching, Preparer


class Goal:
    """A model that the CPU device compiles, or another device."""

    def __init__(self, model: nd.Model, caching: Caching | None, device: nd.Device | None = None) -> None:
        self.device = device or nd.open_device("cpu")
        self.model = model
        self.preparer = Preparer(PrepareOptions(), caching)


@pytest.fixture(autouse=True)
def _empty(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(leaving.AFTER_EXIT_VARIABLE, "1")
    monkeypatch.setattr(leaving, "_actions", [])
    monkeypatch.setattr(unfinished, "_goals", {})
    monkeypatch.setattr(unfinished, "_freed", set())
    yield
    leaving._actions.clear()


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[nd.Model]:
    """Returns a list of the models that are left when the process exits."""
    found: list[nd.Model] = []
    monkeypatch.setattr(Preparer, "leave", lambda _, device, model: found.append(model))
    return found


def test_models_that_others_can_use_are_left(tmp_path: Path, left: list[nd.Model]) -> None:
    caching = Caching(directory=tmp_path)
    wanted = Goal(add_model(), caching)
    for goal in (
        wanted,
        Goal(add_model((2, 2)), None),
        Goal(add_model((0, 2)), caching),
        Goal(add_model((3, 2)), caching, nd.open_device("reference")),
    ):
        unfinished.begin(goal)
    done = Goal(add_model((4, 2)), caching)
    unfinished.begin(done)
    unfinished.end(done)
    leaving.leave()
    assert left == [wanted.model]


def test_few_models_are_left(tmp_path: Path, left: list[nd.Model]) -> None:
    caching = Caching(directory=tmp_path)
    goals = [Goal(add_model((2 + number, 2)), caching) for number in range(unfinished._MAX_MODELS + 3)]
    for goal in goals:
        unfinished.begin(goal)
    leaving.leave()
    assert left == [goal.model for goal in goals[3:]]


def test_a_model_is_left_once_whatever_was_compiled_before(tmp_path: Path, left: list[nd.Model]) -> None:
    caching = Caching(directory=tmp_path)
    for number in range(3):
        done = Goal(add_model((2 + number, 2)), caching)
        unfinished.begin(done)
        unfinished.end(done)
    wanted = Goal(add_model(), caching)
    unfinished.begin(wanted)
    leaving.leave()
    assert left == [wanted.model]


def test_failures_are_none_of_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OpFailed("no process")

    monkeypatch.setattr(Preparer, "leave", fail)
    unfinished.begin(Goal(add_model(), Caching(directory=tmp_path)))
    leaving.leave()


def test_some_freed_ones_are_finished(tmp_path: Path) -> None:
    goals = [Goal(add_model(), Caching(directory=tmp_path)) for _ in range(unfinished._MAX_FREED + 1)]
    for goal in goals:
        unfinished.begin(goal)
    assert [unfinished.note_freed(goal) for goal in goals] == [True] * unfinished._MAX_FREED + [False]
    assert [unfinished.is_wanted(goal) for goal in goals] == [True] * unfinished._MAX_FREED + [False]
    unfinished.end(goals[0])
    assert unfinished.note_freed(goals[-1])
    assert not unfinished.note_freed(Goal(add_model(), None))


def test_a_freed_compilation_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def started() -> nd.Compilation:
        builder = nd.CompilationBuilder(add_model((7, 3)))
        builder.set_startup(nd.Startup.INSTANT)
        return builder.finish()

    compilation = started()
    assert not compilation.status.is_optimized
    del compilation
    gc.collect()
    wait_until(lambda: not unfinished._goals, 120.0)
    again = started()
    assert again.status.is_optimized
