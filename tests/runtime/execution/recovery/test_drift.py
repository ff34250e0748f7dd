"""Devices that become slow are passed over until they are as fast as before."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from support.devices.simulated import SimulatedDevice
from support.models.plans import request_for
from support.models.small import add_model
from support.waiting import wait_until

import neurald as nd
from neurald.hal.device import ExecuteOptions, ExecutionResult, PrepareOptions
from neurald.hal.model.request import Request
from neurald.runtime.costs import store
from neurald.runtime.costs.slowness import slowness_of
from neurald.runtime.execution.recovery import (
    device_calls,
    fast_paths,
    recovering_step,
    retry,
    slow_device,
    step_health,
)
from neurald.runtime.execution.recovery.drift import DriftWatch, may_be_watched
from neurald.runtime.execution.recovery.recovery import Recovery
from neurald.runtime.execution.recovery.retry import RetryPolicy
from neurald.runtime.plan.plan import ExecutionStep
from neurald.runtime.plan.preparer import Preparer

MODEL = add_model()
ONES = np.ones((2, 3), np.float32)


def watch(*seconds: float) -> DriftWatch:
    found = DriftWatch("watched")
    for each in (5.0, 5.0, *[0.1] * 8, *seconds):
        found.add(each)
    return found


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    store.forget()
    yield
    store.forget()


def test_only_lasting_slowness_counts() -> None:
    assert not watch(0.29, 0.29).is_slow
    assert not watch(0.29, 0.29, 0.1, 0.1, 0.29, 0.29).is_slow
    assert not watch(*[0.15] * 50).is_slow
    found = watch(0.3, 0.25, 0.25)
    assert found.is_slow
    assert found.reason == "it has become slow: 250 ms instead of 100 ms"
    assert slowness_of("watched") == pytest.approx(2.5)
    assert not found.is_back(0.2)
    assert found.is_back(0.11)
    assert slowness_of("watched") == 1.0
    assert not found.is_slow


@pytest.mark.parametrize("jitter", [0.0, 0.1, 0.3, 0.5])
@pytest.mark.parametrize("seconds", [2e-3, 20e-3, 100e-3, 200e-3])
def test_times_that_always_vary_are_no_slowness_and_hide_none(seconds: float, jitter: float) -> None:
    """A device that gets twice as slow is noticed in a second of work, unless times vary much."""
    early, work_s = 0, []
    for seed in range(40):
        rng = random.Random(seed)
        found = DriftWatch("varying")
        early += any(found.add(seconds * rng.uniform(1 - jitter, 1 + jitter)) for _ in range(500))
        worked_s = 0.0
        while not found.is_slow and worked_s < 20:
            taken_s = 2 * seconds * rng.uniform(1 - jitter, 1 + jitter)
            worked_s += taken_s
            found.add(taken_s)
        work_s.append(worked_s)
    work_s.sort()
    assert early <= 2
    assert work_s[20] <= (1.0 if jitter < 0.5 else max(1.0, 8 * 2 * seconds))
    assert work_s[38] <= max(1.0, 20 * 2 * seconds)


def test_one_long_run_is_no_slowness_and_two_are_enough() -> None:
    found = DriftWatch("long")
    for _ in range(10):
        found.add(1.0)
    assert not found.add(5.0)
    assert not found.add(1.0)
    assert not found.add(5.0)
    assert found.add(2.0)
    assert found.reason == "it has become slow: 2000 ms instead of 1000 ms"
    found.is_back(1.0)


class SharedDevice(SimulatedDevice):
    """A device that divides its time among the runs that are in it at once."""

    active = 0

    def run(
        self, model: nd.Model, request: Request, compute: Callable[[], ExecutionResult]
    ) -> ExecutionResult:
        with self._turn:
            self.active += 1
            left = [self.default_s]
        while left[0] > 0:
            time.sleep(1e-3)
            left[0] -= 1e-3 / self.active
        with self._turn:
            self.active -= 1
            self.executions += 1
        return compute()


@pytest.mark.timed
def test_runs_that_wait_for_each_other_are_no_slowness() -> None:
    """A stream keeps several runs on a device, each of which then takes several times as long."""
    device = SharedDevice("shared", default_s=0.02)
    recovery, step = recovering(device)

    def run() -> None:
        request = request_for([ONES, ONES], [np.empty_like(ONES)])
        for _ in range(12):
            recovery.run(step, request, ExecuteOptions())

    run()
    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert recovery.fallbacks == ()
    assert device.executions == 60


def test_a_single_short_run_is_not_the_usual_one() -> None:
    """A device that returns too early once, or an empty input, must not make all others slow."""
    found = DriftWatch("early")
    for seconds in (1.0, 1.0, 0.1, 0.1, 1e-4, 0.1, 0.1, 0.1, 0.1, 0.1, *[0.1] * 100):
        assert not found.add(seconds)


@pytest.mark.parametrize("seconds", [1e-3, 20e-3])
def test_first_runs_on_a_busy_machine_hide_no_slowness(seconds: float) -> None:
    """Compilations in the background make the first runs of a step long, and their times vary."""
    rng = random.Random(4)
    found = DriftWatch("busy at first")
    for _ in range(40):
        assert not found.add(seconds * rng.uniform(1.5, 6))
    for _ in range(60):
        assert not found.add(seconds * rng.uniform(0.95, 1.05))
    worked_s = 0.0
    while not found.add(2.2 * seconds):
        worked_s += 2.2 * seconds
        assert worked_s < 1.0
    found.is_back(seconds)


@pytest.mark.parametrize("seconds", [1e-3, 20e-3, 100e-3, 120e-3, 140e-3])
@pytest.mark.parametrize("factor", [2.2, 3, 3.5, 3.9, 6, 20])
def test_the_slower_a_device_becomes_the_fewer_runs_are_enough(seconds: float, factor: float) -> None:
    found = DriftWatch("much slower")
    for _ in range(20):
        assert not found.add(seconds)
    worked_s, runs = factor * seconds, 1
    while not found.add(factor * seconds):
        worked_s += factor * seconds
        runs += 1
    assert worked_s <= 1.0 or runs == 2
    found.is_back(seconds)


def test_short_runs_must_be_slow_for_some_time() -> None:
    found = DriftWatch("short")
    for _ in range(10):
        found.add(1e-3)
    runs = 0
    while not found.add(3e-3):
        runs += 1
    assert 50 <= runs <= 100
    found.is_back(1e-3)


def test_a_stand_in_that_is_slower_still_is_given_up() -> None:
    found = watch(*[0.3] * 4)
    assert [found.stood_in(each) for each in (0.5, 0.5, 0.6)] == [False, False, True]
    assert not found.is_slow
    assert not found.add(0.3)
    faster = watch(*[0.3] * 4)
    assert not any(faster.stood_in(0.2) for _ in range(10))
    faster.is_back(0.1)


def test_models_whose_time_depends_on_their_inputs_are_not_watched() -> None:
    assert may_be_watched(MODEL)
    assert not may_be_watched(add_model((0, 3)))


def recovering(device: nd.Device) -> tuple[Recovery, ExecutionStep]:
    compilation = nd.CompilationBuilder(MODEL, [device]).finish()
    (step,) = compilation.plan.steps
    preparer = Preparer(PrepareOptions())
    return Recovery(MODEL, (step,), preparer, may_fall_back=True, watches_drift=True), step


class Clock:
    """Stands for the module `time`, in which only devices take any."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def perf_counter(self) -> float:
        return self.now_s

    monotonic = time = perf_counter


class ClockedDevice(SimulatedDevice):
    """A device that takes exactly the time of its model on a clock."""

    def __init__(self, name: str, *, clock: Clock, default_s: float) -> None:
        super().__init__(name, default_s=default_s)
        self._clock = clock

    def run(
        self, model: nd.Model, request: Request, compute: Callable[[], ExecutionResult]
    ) -> ExecutionResult:
        self.executions += 1
        self._clock.now_s += self.duration_s(model, request)
        return compute()


@pytest.mark.parametrize("is_large", [False, True])
def test_the_cpu_device_stands_in_within_a_second_of_work(
    is_large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replacement is compiled before that: a step of many constants, when it takes longer."""
    if is_large:
        monkeypatch.setattr(slow_device, "_MAX_EARLY_BYTES", -1)
    clock = Clock()
    for module in (device_calls, fast_paths, recovering_step, step_health):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(retry, "SLOW_RETRY", RetryPolicy(first_pause_s=0.3, max_pause_s=1.0))
    device = ClockedDevice("throttling", clock=clock, default_s=0.02)
    recovery, step = recovering(device)
    request = request_for([ONES, ONES], [np.empty_like(ONES)])

    def run() -> None:
        recovery.run(step, request, ExecuteOptions())

    stand_in = recovery.step(step).stand_in
    for _ in range(10):
        run()
    if not is_large:
        wait_until(lambda: stand_in.is_optimized)
    device.slowness = 3.0
    end_s = clock.now_s + 1.0
    while slowness_of("throttling") == 1.0:
        if clock.now_s > end_s - 0.85:
            wait_until(lambda: stand_in.is_optimized)
        run()
        assert clock.now_s <= end_s
    (found,) = recovery.fallbacks
    assert "it has become slow" in found.reason
    executions = device.executions
    for _ in range(3):
        run()
    assert device.executions == executions
    # It is tried again, and passed over for longer.
    clock.now_s += 0.35
    run()
    assert device.executions == executions + 1
    assert recovery.fallbacks[0].failures == 2
    device.slowness = 1.0
    clock.now_s += 0.7
    run()
    assert recovery.fallbacks == ()
    run()
    assert device.executions == executions + 3
