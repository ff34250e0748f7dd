"""A plan is not slower than the CPU device for long."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.devices.misbehaving import FailingDevice
from support.devices.simulated import SimulatedDevice
from support.models.small import accumulator, add_model

import neurald as nd
from neurald.hal.errors import OpFailed
from neurald.runtime.costs import store
from neurald.runtime.costs.table import Average, CostTable, DeviceLink
from neurald.runtime.costs.work import kind_of, work_of
from neurald.runtime.execution.execution import Execution
from neurald.runtime.execution.trials import cpu_trial

#: Large enough for a device that declares half of the CPU device's time to be worth its launch.
SHAPE = (1024, 1024)
ONES = np.ones(SHAPE, np.float32)


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("NEURALD_POLICY", "min_cost")
    store.forget()
    yield
    store.forget()


def device(name: str, seconds: float, model: nd.Model | None = None) -> SimulatedDevice:
    """Returns a device whose measured costs are far too low."""
    found = SimulatedDevice(name, default_s=seconds)
    store.costs_of(found).use(cheap(model or add_model(SHAPE)))
    return found


def cheap(model: nd.Model) -> CostTable:
    graph = model.main
    table = CostTable(launch=Average(seconds=1e-12), link=DeviceLink())
    for operation in graph.operations:
        table = table.observed(kind_of(graph, operation), work_of(graph, operation), 1e-12)
    return table


def compiled(other: nd.Device, model: nd.Model | None = None) -> nd.Compilation:
    return nd.CompilationBuilder(model or add_model(SHAPE), [nd.devices()[0], other]).finish()


def run_until(compilation: nd.Compilation, is_over: Callable[[], bool], limit_s: float = 30.0) -> int:
    end_s = time.monotonic() + limit_s
    runs = 0
    while not is_over():
        assert time.monotonic() < end_s
        (result,) = compilation.run(ONES, ONES)
        assert np.all(result == 2)
        runs += 1
    return runs


def is_decided(compilation: nd.Compilation) -> Callable[[], bool]:
    return lambda: "the plan or the CPU device:" in compilation.explain().text()


def test_a_device_that_lies_loses_its_plan_and_stays_without_it() -> None:
    slow = device("slow", 0.2)
    compilation = compiled(slow)
    assert [step.device.name for step in compilation.plan.steps] == ["slow"]
    run_until(compilation, is_decided(compilation))
    assert [step.device.name for step in compilation.plan.steps] == ["cpu"]
    assert slow.executions < 40
    before = slow.executions
    run_until(compilation, iter([False] * 20 + [True]).__next__)
    assert slow.executions == before
    explanation = compilation.explain()
    assert {each.device for each in explanation.operations} == {"cpu"}
    assert "by the plan and" in explanation.text()
    assert "on the CPU device" in compilation.report.fallback
    assert "the whole plan runs on the CPU device since 20" in explanation.text()
    assert compilation.status.is_optimized
    # Another compilation, as in another process, knows it at once.
    again = compiled(slow)
    assert [step.device.name for step in again.plan.steps] == ["cpu"]
    assert "decided earlier" in again.explain().text()
    run_until(again, iter([False] * 3 + [True]).__next__)
    assert slow.executions == before
    # A new driver is another matter.
    slow.version = "a new driver"
    store.costs_of(slow).use(cheap(add_model(SHAPE)))
    assert [step.device.name for step in compiled(slow).plan.steps] == ["slow"]


def test_a_plan_that_is_faster_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    fast = device("fast", 0.0)
    _slow_cpu_for_whole_models(monkeypatch, add_model(SHAPE), 0.3)
    builder = nd.CompilationBuilder(add_model(SHAPE), [nd.devices()[0], fast])
    builder.set_caching(None)
    compilation = builder.finish()
    run_until(compilation, is_decided(compilation))
    assert [step.device.name for step in compilation.plan.steps] == ["fast"]
    executions = fast.executions
    run_until(compilation, iter([False] * 3 + [True]).__next__)
    assert fast.executions == executions + 3


@pytest.mark.parametrize(("shape", "around"), [(SHAPE, "set_output"), ((512, 256), "compute")])
def test_what_calls_of_several_steps_need_around_their_runs_counts(
    shape: tuple[int, ...], around: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan's runs are faster, but the CPU device needs no Python around each of its runs.

    Smaller arrays are copied to those of an execution that the thread keeps.
    """
    builder = nd.ModelBuilder()
    x, h, y = (builder.add_operand(nd.OperandType.TENSOR_FLOAT32, shape) for _ in range(3))
    builder.add_operation(nd.OperationType.TANH, [x], [h])
    builder.add_operation(nd.OperationType.LOGISTIC, [h], [y])
    builder.identify_inputs_and_outputs([x], [y])
    model = builder.finish()
    other = SimulatedDevice("other", supports=(nd.OperationType.TANH,).__contains__)
    store.costs_of(other).use(cheap(model))
    _slow_cpu_for_whole_models(monkeypatch, model, 0.1)
    right = getattr(Execution, around)

    def slowly(self: Execution, *arguments: Any, **named: Any) -> None:
        time.sleep(0.2)
        right(self, *arguments, **named)

    monkeypatch.setattr(Execution, around, slowly)
    compiling = nd.CompilationBuilder(model, [nd.devices()[0], other])
    compiling.set_caching(None)
    compilation = compiling.finish()
    assert [step.device.name for step in compilation.plan.steps] == ["other", "cpu"]
    end_s = time.monotonic() + 60
    while not is_decided(compilation)():
        assert time.monotonic() < end_s
        compilation.run(ONES[: shape[0], : shape[1]])
    assert [step.device.name for step in compilation.plan.steps] == ["cpu"]


def _slow_cpu_for_whole_models(monkeypatch: pytest.MonkeyPatch, model: nd.Model, seconds: float) -> None:
    cpu = nd.devices()[0]
    right = type(cpu).prepare_model

    def prepare(self: object, part: nd.Model, options: object) -> object:
        prepared = right(self, part, options)  # type: ignore[arg-type]
        if len(part.main.operations) < len(model.main.operations):
            return prepared

        class Slowed:
            def __getattr__(self, name: str) -> object:
                return getattr(prepared, name)

            def execute(self, request: object, options: object) -> object:
                time.sleep(seconds)
                return prepared.execute(request, options)  # type: ignore[arg-type]

        return Slowed()

    monkeypatch.setattr(type(cpu), "prepare_model", prepare)


def test_failures_do_not_decide() -> None:
    failing = FailingDevice()
    store.costs_of(failing).use(cheap(add_model(SHAPE)))
    compilation = compiled(failing)
    assert [step.device.name for step in compilation.plan.steps] == ["failing"]
    for _ in range(3):
        compilation.run(ONES, ONES)
    failing.error = OpFailed("broken")
    with pytest.raises(OpFailed, match="broken"):
        run_until(compilation, iter([False] * 20 + [True]).__next__)
    assert "the plan or the CPU device" not in compilation.explain().text()


def test_a_plan_that_the_application_wants_is_not_tried() -> None:
    slow = device("slow", 0.05)
    builder = nd.CompilationBuilder(add_model(SHAPE), [nd.devices()[0], slow])
    builder.set_partitioning(nd.Partitioning(policy="min_cost", overrides=(nd.pin("slow", [0]),)))
    pinned = builder.finish()
    android = nd.CompilationBuilder(add_model(SHAPE), [nd.devices()[0], slow])
    android.set_partitioning("android")
    for compilation in (pinned, android.finish()):
        run_until(compilation, iter([False] * 8 + [True]).__next__)
        assert [step.device.name for step in compilation.plan.steps] == ["slow"]


def test_variables_have_the_same_values_on_both_sides() -> None:
    model = accumulator()
    slow = device("slow", 0.05, model)
    compilation = compiled(slow, model)
    assert [step.device.name for step in compilation.plan.steps] == ["slow"]
    expected = 10.0
    for _ in range(12):
        (result,) = compilation.run(np.ones((2, 3), np.float32))
        expected += 1
        assert np.all(result == expected)


def test_runs_beside_others_do_not_decide_but_end_the_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_trial, "_MAX_UNFAIR_RUNS", 20)
    small = add_model()
    compilation = compiled(device("slow", 0.01, small), small)
    assert [step.device.name for step in compilation.plan.steps] == ["slow"]
    ones = np.ones((2, 3), np.float32)
    compilation.executor._running = 1  # type: ignore[attr-defined]
    for _ in range(20):
        assert np.all(compilation.run(ones, ones)[0] == 2)
    assert "20 runs were beside others" in compilation.explain().text()
    assert [step.device.name for step in compilation.plan.steps] == ["slow"]
