"""The runtime's time around the steps of plans, as real runs show it."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.devices.simulated import SimulatedDevice
from support.models.chains import chain, ramp
from support.models.small import branching_model

import neurald as nd
from neurald.runtime.costs import store
from neurald.runtime.execution.measurement import step_overhead
from neurald.runtime.execution.program.step_clock import StepClock

_KINDS = (nd.OperationType.TANH, nd.OperationType.LOGISTIC)


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    store.forget()
    yield
    store.forget()


def devices() -> list[nd.Device]:
    return [SimulatedDevice(k.name.lower(), default_s=2e-3, supports=(k,).__contains__) for k in _KINDS]


def compiled(model: nd.Model, used: list[nd.Device]) -> nd.Compilation:
    builder = nd.CompilationBuilder(model, [nd.devices()[0], *used])
    builder.set_partitioning("android")
    builder.set_caching(None)
    return builder.finish()


def steps_of(used: list[nd.Device]) -> list[float | None]:
    tables = [store.costs_of(each).table for each in used]
    return [None if table.step is None else table.step.seconds for table in tables]


@pytest.mark.timed
def test_runs_tell_what_the_runtime_needs_around_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    right = StepClock.run

    def slow(*arguments: Any) -> Any:
        time.sleep(2e-4)
        return right(*arguments)

    used = devices()
    compilation = compiled(chain(["TANH", "LOGISTIC"] * 2), used)
    assert len(compilation.plan.steps) == 4
    for _ in range(3):
        compilation.run(ramp())
    assert steps_of(used) == [None, None]
    compilation.run(ramp())
    first = steps_of(used)
    assert all(each is not None and 0 < each < 1e-3 for each in first)
    monkeypatch.setattr(StepClock, "run", slow)
    for _ in range(12):
        compilation.run(ramp())
    later = steps_of(used)
    assert all(a is not None and b is not None and b > a for a, b in zip(first, later, strict=True))


def test_the_planner_uses_it() -> None:
    used = devices()
    for each in used:
        store.costs_of(each).observe_step(7e-5)
    builder = nd.CompilationBuilder(chain(["TANH", "LOGISTIC"]), [nd.devices()[0], *used])
    builder.set_partitioning("min_cost")
    candidates = builder.finish().partitioned.candidates
    assert [each.costs.step_s for each in candidates if each.costs is not None][1:] == [7e-5, 7e-5]


def test_steps_that_overlap_tell_nothing() -> None:
    used = devices()
    compilation = compiled(branching_model(), used)
    for _ in range(8):
        compilation.run(np.ones((2, 3), np.float32))
    assert steps_of(used) == [None, None]


def test_a_step_that_ran_elsewhere_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    used = devices()
    compilation = compiled(chain(["TANH", "LOGISTIC"]), used)
    monkeypatch.setattr(step_overhead._Calls, "count", 0)
    for each in compilation.plan.steps:
        state = compilation.recovery.step(each)
        monkeypatch.setattr(state, "execute", state._execute_on_cpu)
    for _ in range(8):
        compilation.run(ramp())
    assert steps_of(used) == [None, None]
