"""Steps that run at the same time: order, errors, pauses; and models whose branches overlap."""

import random
import threading
import time

import numpy as np
import pytest
from support.devices.simulated import SimulatedDevice
from support.models.small import branching_model

import neurald as nd
from neurald.hal.errors import OpFailed
from neurald.runtime.execution.program import overlapping_steps
from neurald.runtime.execution.program.overlapping_steps import OverlappingSteps


def nothing() -> None:
    pass


@pytest.mark.parametrize("seed", range(30))
def test_every_step_runs_once_after_those_it_waits_for(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randint(1, 30)
    waits_for = [frozenset(rng.sample(range(n), k=min(n, rng.randint(0, 2)))) for n in range(count)]
    done: list[int] = []

    def execute(position: int) -> None:
        assert waits_for[position] <= set(done)
        time.sleep(rng.choice([0, 0.001]))
        done.append(position)

    OverlappingSteps(waits_for, execute, lambda: False, nothing).run()
    assert sorted(done) == list(range(count))


def test_steps_that_do_not_wait_run_at_the_same_time() -> None:
    barrier = threading.Barrier(4, timeout=30)

    def execute(_: int) -> None:
        barrier.wait()

    OverlappingSteps([frozenset()] * 4, execute, lambda: False, nothing).run()


def test_an_error_is_raised_when_the_others_have_ended() -> None:
    has_begun, has_failed = threading.Event(), threading.Event()
    ended: list[int] = []

    def execute(position: int) -> None:
        if position == 0:
            assert has_begun.wait(30)
            has_failed.set()
            raise OpFailed("broken")
        has_begun.set()
        assert has_failed.wait(30)
        time.sleep(0.05)
        ended.append(position)

    waits_for = [frozenset[int](), frozenset[int](), frozenset({1})]
    with pytest.raises(OpFailed, match="broken"):
        OverlappingSteps(waits_for, execute, lambda: False, nothing).run()
    assert ended == [1]


def test_a_pause_is_made_while_no_step_runs() -> None:
    running, paused = set[int](), []
    lock = threading.Lock()
    wanted = [True]

    def execute(position: int) -> None:
        with lock:
            running.add(position)
        time.sleep(0.02 * position)
        with lock:
            running.discard(position)

    def in_pause() -> None:
        paused.append(sorted(running))
        wanted[0] = False

    waits_for = [frozenset[int](), frozenset[int](), frozenset[int](), frozenset({0, 1, 2})]
    OverlappingSteps(waits_for, execute, lambda: wanted[0], in_pause).run()
    assert paused == [[]]


def test_an_error_in_a_pause_is_raised() -> None:
    def fail() -> None:
        raise MemoryError

    with pytest.raises(MemoryError):
        OverlappingSteps([frozenset(), frozenset()], lambda _: None, lambda: True, fail).run()


def test_without_threads_the_caller_runs_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(overlapping_steps, "_submit", refuse)
    threads = set()
    OverlappingSteps(
        [frozenset()] * 5, lambda _: threads.add(threading.current_thread()), lambda: False, nothing
    ).run()
    assert threads == {threading.current_thread()}


def devices(seconds: float) -> list[nd.Device]:
    return [
        nd.devices()[0],
        SimulatedDevice("tanh", default_s=seconds, supports=(nd.OperationType.TANH,).__contains__),
        SimulatedDevice("logistic", default_s=seconds, supports=(nd.OperationType.LOGISTIC,).__contains__),
    ]


@pytest.mark.timed
def test_two_branches_of_200_ms_take_little_more_than_one() -> None:
    compilation = nd.CompilationBuilder(branching_model(), devices(0.2)).finish()
    assert len(compilation.plan.steps) == 3
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    compilation.run(x)
    started = time.perf_counter()
    (y,) = compilation.run(x)
    duration_s = time.perf_counter() - started
    np.testing.assert_allclose(y, np.tanh(x) + 1 / (1 + np.exp(-x)), rtol=1e-5)
    assert duration_s <= 0.215


def test_a_branch_that_fails_goes_to_the_cpu_device() -> None:
    class Failing(SimulatedDevice):
        def run(self, model, request, compute):  # type: ignore[no-untyped-def]
            raise OpFailed("broken")

    found = devices(0.01)
    found[1] = Failing("tanh", supports=(nd.OperationType.TANH,).__contains__)
    with pytest.raises(OpFailed, match="broken"):
        nd.CompilationBuilder(branching_model(), found).finish().run(np.zeros((2, 3), np.float32))


def test_executions_of_several_threads_share_the_devices() -> None:
    compilation = nd.CompilationBuilder(branching_model(), devices(0.001)).finish()
    wrong: list[float] = []

    def run(value: float) -> None:
        x = np.full((2, 3), value, np.float32)
        for _ in range(10):
            (y,) = compilation.run(x)
            if not np.allclose(y, np.tanh(x) + 1 / (1 + np.exp(-x)), rtol=1e-5):
                wrong.append(value)

    threads = [threading.Thread(target=run, args=(n / 8,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
