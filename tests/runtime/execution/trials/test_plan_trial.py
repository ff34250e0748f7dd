"""A plan is not slower than the CPU device for long."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from support.devices.fakes import FakePreparedModel
from support.devices.misbehaving import FailingDevice
from support.devices.simulated import SimulatedDevice
from support.models.small import accumulator, add_model

import neurald as nd
from neurald.hal.device import ExecuteOptions, ExecutionResult, PreparedModel, PrepareOptions
from neurald.hal.errors import OpFailed
from neurald.hal.model.request import Request
from neurald.hal.process.address import Address
from neurald.hal.rpc.server.server import DeviceServer
from neurald.hal.sync.cancellation import Cancellation
from neurald.hal.sync.interpreter_turns import turns
from neurald.runtime.costs import store
from neurald.runtime.costs.table import Average, CostTable, DeviceLink
from neurald.runtime.costs.work import kind_of, work_of
from neurald.runtime.execution.execution import Execution
from neurald.runtime.execution.trials import plan_trial
from neurald.runtime.execution.trials.comparison import TURN
from neurald.runtime.execution.trials.plan_trial import PlanTrial

#: Large enough for a device that declares half of the CPU device's time to be worth its launch.
SHAPE = (1024, 1024)
ONES = np.ones(SHAPE, np.float32)
#: An input for devices whose costs are given.
SMALL = np.full((64, 64), 0.25, np.float32)


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


def compiled(model: nd.Model, others: Sequence[nd.Device]) -> nd.Compilation:
    return nd.CompilationBuilder(model, [nd.devices()[0], *others]).finish()


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
    compilation = compiled(add_model(SHAPE), [slow])
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
    again = compiled(add_model(SHAPE), [slow])
    assert [step.device.name for step in again.plan.steps] == ["cpu"]
    assert "decided earlier" in again.explain().text()
    run_until(again, iter([False] * 3 + [True]).__next__)
    assert slow.executions == before
    # A new driver is another matter.
    slow.version = "a new driver"
    store.costs_of(slow).use(cheap(add_model(SHAPE)))
    assert [step.device.name for step in compiled(add_model(SHAPE), [slow]).plan.steps] == ["slow"]


def test_calls_give_way_to_a_rival_that_prepares_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go, given_way = threading.Event(), threading.Event(), list[float | None]()
    prepare = PlanTrial.prepare

    def held(self: PlanTrial, number: int, cancellation: Cancellation) -> None:
        begun.set()
        go.wait(30)
        prepare(self, number, cancellation)

    monkeypatch.setattr(PlanTrial, "prepare", held)
    monkeypatch.setattr(turns, "give_way", given_way.append)
    compilation = compiled(add_model(SHAPE), [device("slow", 0.05)])
    run_until(compilation, begun.is_set)
    given_way.clear()
    run_until(compilation, iter([False] * 3 + [True]).__next__)
    assert len(given_way) == 3
    go.set()
    run_until(compilation, is_decided(compilation))
    given_way.clear()
    run_until(compilation, iter([False] * 3 + [True]).__next__)
    assert not given_way


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
    compilation = compiled(add_model(SHAPE), [failing])
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
    compilation = compiled(model, [slow])
    assert [step.device.name for step in compilation.plan.steps] == ["slow"]
    expected = 10.0
    for _ in range(12):
        (result,) = compilation.run(np.ones((2, 3), np.float32))
        expected += 1
        assert np.all(result == expected)


def test_runs_beside_others_do_not_decide_but_end_the_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_trial, "_MAX_UNFAIR_RUNS", 20)
    small = add_model()
    compilation = compiled(small, [device("slow", 0.01, small)])
    assert [step.device.name for step in compilation.plan.steps] == ["slow"]
    ones = np.ones((2, 3), np.float32)
    compilation.executor._running = 1  # type: ignore[attr-defined]
    for _ in range(20):
        assert np.all(compilation.run(ones, ones)[0] == 2)
    assert "20 runs were beside others or had no time" in compilation.explain().text()
    assert [step.device.name for step in compilation.plan.steps] == ["slow"]


def two_steps() -> nd.Model:
    """Returns a model of two operations."""
    builder = nd.ModelBuilder()
    x, h, y = (builder.add_operand(nd.OperandType.TENSOR_FLOAT32, SMALL.shape) for _ in range(3))
    builder.add_operation(nd.OperationType.TANH, [x], [h])
    builder.add_operation(nd.OperationType.LOGISTIC, [h], [y])
    builder.identify_inputs_and_outputs([x], [y])
    return builder.finish()


_Device = TypeVar("_Device", bound=nd.Device)


def costed(found: _Device, seconds: float) -> _Device:
    """Gives a device costs for both operations, whatever it really takes."""
    graph = two_steps().main
    table = CostTable(launch=Average(seconds=1e-12), link=DeviceLink())
    for operation in graph.operations:
        table = table.observed(kind_of(graph, operation), work_of(graph, operation), seconds)
    store.costs_of(found).use(table)
    return found


def decided(compilation: nd.Compilation, limit_s: float = 60.0) -> str:
    """Runs a compilation until its trial has ended; returns the verdict."""
    end_s = time.monotonic() + limit_s
    expected = 1 / (1 + np.exp(-np.tanh(SMALL)))
    while compilation._trial is not None:
        assert time.monotonic() < end_s
        (result,) = compilation.run(SMALL)
        np.testing.assert_allclose(result, expected, rtol=1e-5)
    (found,) = [note for note in compilation.explain().notes if note.startswith("the plan")]
    return found


@pytest.fixture
def slow_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the CPU device take 0.1 s for a model of two operations that costs 30 ms."""
    _slow_cpu_for_whole_models(monkeypatch, two_steps(), 0.1)
    costed(nd.devices()[0], 0.015)


def third(whole_s: float, predicted_s: float = 1e-4) -> SimulatedDevice:
    """Returns a device that runs the model of two operations in `whole_s`."""
    found = SimulatedDevice("whole", default_s=whole_s / 2)
    return costed(found, predicted_s / 2)


def split_plan(whole: nd.Device) -> tuple[nd.Compilation, list[Any]]:
    """Returns a plan of two devices that takes 60 ms, with a third device, and all three."""
    found: list[Any] = []
    for kind in (nd.OperationType.TANH, nd.OperationType.LOGISTIC):
        each = SimulatedDevice(kind.name.lower(), default_s=0.03, supports=(kind,).__contains__)
        found.append(costed(each, 1e-5))
    compilation = compiled(two_steps(), [*found, whole])
    assert names(compilation) == ["tanh", "logistic"]
    return compilation, [*found, whole]


def compiled_again(devices: Sequence[Any]) -> nd.Compilation:
    """Compiles for the devices of a split plan, with costs that no real runs have refined."""
    for each, seconds in zip(devices, (1e-5, 1e-5, 5e-5), strict=True):
        costed(each, seconds)
    return compiled(two_steps(), devices)


def names(compilation: nd.Compilation) -> list[str]:
    return [step.device.name for step in compilation.plan.steps]


@pytest.mark.usefixtures("slow_cpu")
def test_a_device_alone_wins_over_a_plan_of_wrong_costs() -> None:
    whole = third(0.02)
    compilation, devices = split_plan(whole)
    assert "the plan, the CPU device and whole run in turns" in compilation.explain().text()
    verdict = decided(compilation)
    assert verdict.startswith("the plan, the CPU device or whole: ")
    assert " ms on whole, measured in" in verdict
    assert names(compilation) == ["whole"]
    assert compilation.report.fallback == ""
    assert compilation.status.is_optimized
    explanation = compilation.explain()
    assert {each.device for each in explanation.operations} == {"whole"}
    assert "the whole plan runs on whole since 20" in explanation.text()
    assert "whole runs the whole model: " in explanation.text()
    assert "would move from whole to tanh" in compilation.explain(pin=nd.pin("tanh", [0])).text()
    before = [each.executions for each in devices]
    compilation.run(SMALL)
    assert [each.executions for each in devices] == [*before[:2], before[2] + 1]
    # Another compilation, as in another process, knows it at once, until one of the drivers
    # changes.
    again = compiled_again(devices)
    assert names(again) == ["whole"]
    assert "decided earlier" in again.explain().text()
    assert again._trial is None
    whole.version = "a new driver"
    assert names(compiled_again(devices)) == ["tanh", "logistic"]


@pytest.mark.usefixtures("slow_cpu")
def test_a_winner_that_fails_in_a_later_process_leaves_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = third(0.02)
    compilation, devices = split_plan(whole)
    decided(compilation)
    assert names(compiled_again(devices)) == ["whole"]

    def fail(model: nd.Model, options: PrepareOptions) -> PreparedModel:
        raise OpFailed("out of order")

    monkeypatch.setattr(whole, "prepare_model", fail)
    again = compiled_again(devices)
    assert names(again) == ["tanh", "logistic"]
    assert again.report.fallback == ""
    again.run(SMALL)


@pytest.mark.usefixtures("slow_cpu")
def test_a_device_alone_that_is_slower_costs_few_runs() -> None:
    whole = third(0.3)
    compilation, devices = split_plan(whole)
    assert " ms on whole, measured in" in decided(compilation)
    assert names(compilation) == ["tanh", "logistic"]
    # Two of them were in the background.
    assert whole.executions <= 2 + 2 * TURN
    assert names(compiled_again(devices)) == ["tanh", "logistic"]


@pytest.mark.usefixtures("slow_cpu")
def test_a_device_alone_of_orders_of_magnitude_is_only_run_in_the_background() -> None:
    whole = third(2.0)
    compilation, _ = split_plan(whole)
    assert "ms predicted on whole" in decided(compilation)
    assert whole.executions == 2


@pytest.mark.timed
@pytest.mark.usefixtures("slow_cpu")
def test_a_trial_makes_no_execution_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan takes 60 ms, the CPU device 100 ms instead of 30, and the third one 500 ms."""
    monkeypatch.setattr(plan_trial, "_MAX_UNFAIR_RUNS", 8)
    monkeypatch.setattr(plan_trial, "_MARGIN", 20.0)
    whole = third(0.5)
    compilation, _ = split_plan(whole)
    compilation.run(SMALL)
    trial = compilation._trial
    assert trial is not None
    end_s = time.monotonic() + 60
    while len(trial._ready) < 2:
        assert time.monotonic() < end_s
        time.sleep(0.01)
    before = whole.executions
    while compilation._trial is not None:
        assert time.monotonic() < end_s
        execution = nd.Execution(compilation)
        execution.set_input(0, SMALL)
        execution.set_output(0, np.empty_like(SMALL))
        execution.set_timeout(0.45)
        execution.compute()
    assert whole.executions == before
    assert names(compilation) == ["tanh", "logistic"]
    assert "had no time for another device" in compilation.explain().text()


@pytest.mark.usefixtures("slow_cpu")
def test_a_device_runs_inputs_of_the_application_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others might be illegal for it: a division by zero, a bad index, an endless loop."""
    whole = third(0.02)
    right, seen = whole.run, list[bool]()

    def run(model: nd.Model, request: Request, compute: Callable[[], ExecutionResult]) -> ExecutionResult:
        argument = request.inputs[0]
        data = request.pools[argument.pool or 0].view(argument.offset, argument.length)
        seen.append(bytes(data) == SMALL.tobytes())
        return right(model, request, compute)

    monkeypatch.setattr(whole, "run", run)
    compilation, _ = split_plan(whole)
    decided(compilation)
    assert len(seen) > 2
    assert all(seen)


@pytest.mark.usefixtures("slow_cpu")
def test_a_device_that_is_predicted_to_be_much_slower_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = third(0.02, predicted_s=3e-4)
    models: list[nd.Model] = []
    monkeypatch.setattr(whole, "prepare_model", lambda model, options: models.append(model))
    compilation, _ = split_plan(whole)
    assert decided(compilation).startswith("the plan or the CPU device: ")
    assert (models, whole.executions) == ([], 0)


@pytest.mark.usefixtures("slow_cpu")
@pytest.mark.parametrize("fault", ["prepare", "first runs", "later runs", "late", "hangs"])
def test_a_rival_that_does_not_work_harms_nothing(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = third(0.02)
    right, runs, is_over = whole.prepare_model, [0], threading.Event()

    class Broken(FakePreparedModel):
        def __init__(self, model: PreparedModel) -> None:
            self._model = model

        def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
            runs[0] += 1
            if fault == "hangs":
                is_over.wait(60)
            if fault == "first runs" or runs[0] > 3:
                raise OpFailed("no\nsuch luck")
            return self._model.execute(request, options)

    def prepare(model: nd.Model, options: PrepareOptions) -> PreparedModel:
        if fault == "prepare" and len(model.main.operations) > 1:
            raise RuntimeError("broken driver")
        if fault == "late":
            is_over.wait(60)
        return Broken(right(model, options))

    monkeypatch.setattr(whole, "prepare_model", prepare)
    monkeypatch.setattr(plan_trial, "_MAX_PREPARE_S", 0.2)
    compilation, devices = split_plan(whole)
    verdict = decided(compilation)
    is_over.set()
    late = "was not ready after 0.2 s"
    reasons = {"prepare": "broken driver", "late": late, "hangs": late}
    assert reasons.get(fault, "such luck") in verdict
    assert names(compilation) == ["tanh", "logistic"]
    assert "runs on" not in compilation.explain().text()
    # It may work in the next process.
    again = compiled_again(devices)
    assert "decided earlier" not in again.explain().text()
    assert again._trial is not None


@pytest.mark.usefixtures("slow_cpu")
def test_a_plan_of_the_cpu_device_alone_is_compared_too() -> None:
    whole = third(0.02, predicted_s=0.04)
    compilation = compiled(two_steps(), [whole])
    assert names(compilation) == ["cpu"]
    assert decided(compilation).startswith("the plan or whole: ")
    assert names(compilation) == ["whole"]


@pytest.mark.usefixtures("slow_cpu")
def test_a_device_of_a_daemon_may_win(tmp_path: Path) -> None:
    server = DeviceServer(third(0.02), Address.parse(f"unix://{tmp_path}/whole.sock"))
    server.start()
    try:
        whole = nd.connect(str(server.address))
        store.costs_of(whole).use(store.costs_of(third(0.02)).table)
        compilation, _ = split_plan(whole)
        assert f" ms on {whole.name}, measured in" in decided(compilation)
        assert names(compilation) == [whole.name]
        compilation.run(SMALL)
    finally:
        server.stop()
