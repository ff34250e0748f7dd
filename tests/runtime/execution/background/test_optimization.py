"""A first tier runs at once, and optimised code replaces it between two calls."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.daemon.forking import in_child
from support.daemon.processes import python_path, running_daemon
from support.models.addition import AddingDevice, AddingPreparedModel, addition
from support.models.small import accumulator, add_model, ones
from support.tflite.builder import TfliteModel
from support.waiting import wait_until

import neurald as nd
from neurald.drivers.cpu.prepared_model import CpuPreparedModel
from neurald.hal.compiling import separate_compiler
from neurald.hal.compiling.pool import CompilePool
from neurald.hal.device import PreparedModel, PrepareOptions
from neurald.hal.errors import OpFailed, OutOfMemory, ResourceExhaustedTransient
from neurald.hal.model.request import Request
from neurald.hal.process.threads.preparing import PREPARING
from neurald.hal.sync.interpreter_turns import turns
from neurald.runtime.devices.local import cpu_device
from neurald.runtime.execution.background import optimization
from neurald.runtime.execution.recovery import retry
from neurald.runtime.execution.recovery.recovering_step import RecoveringStep
from neurald.runtime.model_compilation import ModelCompilation
from neurald.runtime.plan.prepared_step import PreparedStep
from neurald.runtime.plan.preparer import Preparer
from neurald.runtime.tflite import load

#: Longer than any compilation of these tests takes.
WAIT_S = 120.0


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Makes every test start without compiled models, and not wait for the others."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Holds back the optimised code until the event is set."""
    go = threading.Event()
    compile_model = separate_compiler.SeparateCompiler.compile

    def wait(self: separate_compiler.SeparateCompiler, *arguments: object, **more: object) -> object:
        stop = more.get("cancellation")
        while not go.wait(0.01):
            if getattr(stop, "is_cancelled", False):
                break
        return compile_model(self, *arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(separate_compiler.SeparateCompiler, "compile", wait)
    yield go
    go.set()


def started(
    model: nd.Model, devices: list[nd.Device] | None = None, *, is_cached: bool = True
) -> nd.Compilation:
    builder = nd.CompilationBuilder(model, devices)
    if not is_cached:
        builder.set_caching(None)
    builder.set_startup(nd.Startup.INSTANT)
    return builder.finish()


def current(compilation: nd.Compilation) -> object:
    (step,) = compilation.plan.steps
    return compilation.recovery.step(step).usable()


def test_the_work_begins_after_the_first_calls_or_when_somebody_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(optimization, "_FIRST_CALLS_S", 1000.0)
    monkeypatch.setattr(optimization, "_MAX_DELAY_S", 1000.0)
    begun: list[nd.Model] = []
    prepare = Preparer.prepare

    def prepared(self: Preparer, device: nd.Device, model: nd.Model, *steps: int) -> PreparedStep:
        begun.append(model)
        return prepare(self, device, model, *steps)

    freed = started(add_model((7, 2)), is_cached=False)
    kept = started(add_model())
    monkeypatch.setattr(Preparer, "prepare", prepared)
    kept.run(ones(), ones())
    assert not begun
    assert kept.status.steps[0].tier is nd.StepTier.FIRST
    # What waits for a compilation that is freed lets the others begin.
    del freed
    gc.collect()
    assert kept.wait_until_optimized(WAIT_S)
    assert begun == [kept.model]


@pytest.mark.parametrize(("rest_s", "most_s"), [(0.01, 1000.0), (1000.0, 0.01)])
def test_the_work_begins_by_itself(monkeypatch: pytest.MonkeyPatch, rest_s: float, most_s: float) -> None:
    monkeypatch.setattr(optimization, "_FIRST_CALLS_S", rest_s)
    monkeypatch.setattr(optimization, "_MAX_DELAY_S", most_s)
    compilation = started(add_model())
    wait_until(lambda: compilation.status.is_optimized, WAIT_S)


def test_the_work_waits_while_models_are_loaded_and_prepared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[float] = []

    def noting(function: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*arguments: Any) -> Any:
            seen.append(PREPARING.left_s(1000.0))
            return function(*arguments)

        return noted

    monkeypatch.setattr(load, "_load", noting(load._load))
    monkeypatch.setattr(ModelCompilation, "finish", noting(ModelCompilation.finish))
    file = TfliteModel()
    graph = file.subgraph()
    graph.inputs, graph.outputs = (graph.tensor((2,), name="x"),), (graph.tensor((2,), name="y"),)
    graph.operator("RELU", graph.inputs, graph.outputs)
    started(nd.load_tflite(file.build()))
    assert seen == [1000.0, 1000.0]


def test_the_first_tier_runs_until_the_code_is_ready(held: threading.Event) -> None:
    compilation = started(add_model())
    (step,) = compilation.status.steps
    assert (step.tier, step.runs_on, step.reason) == (nd.StepTier.FIRST, "cpu", "")
    # The references, or kernels of the first tier once their library is ready.
    first = current(compilation)
    assert "first tier" in compilation.report.steps[0].reason
    assert "first tier" in str(compilation.explain())
    np.testing.assert_array_equal(compilation.run(ones(), ones())[0], 2 * ones())
    assert not compilation.wait_until_optimized(0.05)
    held.set()
    assert compilation.wait_until_optimized(WAIT_S)
    assert compilation.status.is_optimized
    assert current(compilation) is not first
    assert isinstance(current(compilation), CpuPreparedModel)
    assert compilation.report.steps[0].compile_ms is not None
    np.testing.assert_array_equal(compilation.run(ones(), ones())[0], 2 * ones())
    assert compilation.profile()[0].kernels


def test_runs_of_a_first_tier_give_way_to_the_preparation(
    held: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(turns, "give_way", lambda _: calls.append("run"))
    compilation = started(add_model())
    compilation.run(ones(), ones())
    compilation.run(ones(), ones())
    assert calls == ["run", "run"]
    held.set()
    assert compilation.wait_until_optimized(WAIT_S)
    calls.clear()
    compilation.run(ones(), ones())
    assert not calls


@pytest.mark.parametrize("kind", [OutOfMemory, ResourceExhaustedTransient])
@pytest.mark.parametrize("failures", [2, 9])
def test_a_preparation_that_lacks_a_resource_is_tried_again(
    kind: type[nd.Error], failures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "_PAUSES_S", (0.01, 0.02, 0.03))
    count, prepare = 0, Preparer.prepare

    def prepared(self: Preparer, *arguments: Any) -> PreparedStep:
        nonlocal count
        if threading.current_thread() is threading.main_thread():
            return prepare(self, *arguments)
        count += 1
        if count <= failures:
            raise kind("there are too many")
        return prepare(self, *arguments)

    monkeypatch.setattr(Preparer, "prepare", prepared)
    compilation = started(add_model((5, 3)))
    assert compilation.wait_until_optimized(WAIT_S) == (failures == 2)
    assert count == min(failures, 3) + 1
    if failures > 2:
        assert "could not prepare it: there are too many" in compilation.status.steps[0].reason


def test_cached_code_needs_no_first_tier() -> None:
    assert started(add_model()).wait_until_optimized(WAIT_S)
    again = started(add_model())
    assert again.status.is_optimized
    assert again.report.steps[0].cache.value == "hit"


def test_all_kinds_of_calls_go_on_while_code_is_replaced(held: threading.Event) -> None:
    compilation = started(add_model())
    execution = nd.Execution(compilation, reusable=True)
    output = np.zeros((2, 3), np.float32)
    first = ones()
    execution.set_input(0, first)
    execution.set_input(1, ones())
    execution.set_output(0, output)
    with compilation.create_burst() as burst:
        for number in range(12):
            first[...] = number
            if number == 6:
                held.set()
                assert compilation.wait_until_optimized(WAIT_S)
            output[...] = -1
            if number % 3 == 0:
                execution.compute()
            elif number % 3 == 1:
                execution.compute(burst=burst)
            else:
                execution.start_compute().wait()
            np.testing.assert_array_equal(output, first + 1)
            np.testing.assert_array_equal(compilation.run(first, ones())[0], first + 1)


def test_threads_see_only_right_results_while_code_is_replaced(held: threading.Event) -> None:
    compilation = started(add_model((16, 3), operations=3))
    failures: list[str] = []
    is_over = threading.Event()

    def call(seed: int) -> None:
        given = np.full((16, 3), seed, np.float32)
        while not is_over.is_set():
            (found,) = compilation.run(given, given)
            if not (found == 4 * given).all():
                failures.append(f"{seed}: {found}")

    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    held.set()
    assert compilation.wait_until_optimized(WAIT_S)
    time.sleep(0.1)
    is_over.set()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.fixture
def kernels() -> None:
    """Waits for the kernels of the first tier."""
    library = cpu_device().first_tier.library  # type: ignore[attr-defined]
    library.code(None)
    assert library.wait(WAIT_S)


@pytest.fixture
def regular(monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    """Returns the requests that take the regular path from now on."""
    found: list[Request] = []
    execute = RecoveringStep.execute

    def noted(self: RecoveringStep, request: Request, *arguments: Any) -> Any:
        found.append(request)
        return execute(self, request, *arguments)

    monkeypatch.setattr(RecoveringStep, "execute", noted)
    return found


@pytest.mark.usefixtures("kernels")
def test_runs_take_the_fastest_way_before_and_after_the_replacement(
    held: threading.Event, regular: list[Request]
) -> None:
    compilation = started(add_model())
    for _ in range(3):
        np.testing.assert_array_equal(compilation.run(ones(), ones())[0], 2 * ones())
    first = compilation._array_runs.latest
    assert first is not None
    held.set()
    assert compilation.wait_until_optimized(WAIT_S)
    assert first(ones(), ones()) is None
    for _ in range(3):
        np.testing.assert_array_equal(compilation.run(ones(), ones())[0], 2 * ones())
    assert compilation._array_runs.latest is not first
    regular.clear()
    np.testing.assert_array_equal(compilation.run(ones(), ones())[0], 2 * ones())
    assert not regular


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("model", [add_model(), add_model((300, 300), operations=40), accumulator()])
def test_executions_repeat_on_the_first_tier(
    held: threading.Event, regular: list[Request], model: nd.Model
) -> None:
    compilation = started(model)
    operands = [model.main.operands[index].dimensions or () for index in model.inputs]
    execution, inputs = (
        nd.Execution(compilation, reusable=True),
        [np.ones(each, np.float32) for each in operands],
    )
    output = np.zeros(model.main.operands[model.outputs[0]].dimensions or (), np.float32)
    for number, each in enumerate(inputs):
        execution.set_input(number, each)
    execution.set_output(0, output)
    total, sum_of_ones = 10.0, 1.0 + len(model.main.operations)
    for number in range(12):
        if number == 4:
            regular.clear()
        if number == 8:
            # The first run takes the regular path again.
            assert not regular
            held.set()
            assert compilation.wait_until_optimized(WAIT_S)
        output[...] = -1
        execution.compute()
        total += 1
        assert (output == (total if model.state else sum_of_ones)).all()
    assert regular


def _first_tier(step: RecoveringStep) -> PreparedModel:
    """Returns what runs the step until its device has compiled it."""
    assert step._first is not None
    return step._first.prepared


@pytest.mark.usefixtures("kernels")
def test_the_first_tier_is_freed_after_the_replacement(held: threading.Event) -> None:
    compilation = started(add_model())
    (step,) = compilation.plan.steps
    first = weakref.ref(_first_tier(compilation.recovery.step(step)))
    execution, output = nd.Execution(compilation, reusable=True), np.zeros_like(ones())
    for number in range(2):
        execution.set_input(number, ones())
    execution.set_output(0, output)
    with compilation.create_burst() as burst:
        for _ in range(3):
            np.testing.assert_array_equal(compilation.run(ones(), ones())[0], 2 * ones())
            execution.compute()
            execution.compute(burst=burst)
        held.set()
        assert compilation.wait_until_optimized(WAIT_S)
        # Nothing has run since, or will for a long time.
        _expect_freed(first)
        execution.compute()
        np.testing.assert_array_equal(output, 2 * ones())


def _expect_freed(first: "weakref.ref[Any]") -> None:
    """Expects that a first tier is freed soon."""
    end_s = time.monotonic() + WAIT_S
    # The thread that has replaced it may still return from that.
    while first() is not None and time.monotonic() < end_s:
        gc.collect()
        time.sleep(0.01)
    assert first() is None


def test_variables_keep_their_values(held: threading.Event) -> None:
    compilation = started(accumulator())
    assert compilation.run(ones())[0][0, 0] == 11
    held.set()
    assert compilation.wait_until_optimized(WAIT_S)
    assert [compilation.run(ones())[0][0, 0] for _ in range(3)] == [12, 13, 14]


class SlowDevice(AddingDevice):
    """A device that prepares a model when it is told to, or fails."""

    name = "slow"

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()
        self.error: Exception | None = None

    def prepare_model(self, model: nd.Model, options: PrepareOptions) -> AddingPreparedModel:
        self.go.wait(WAIT_S)
        if self.error is not None:
            raise self.error
        return super().prepare_model(model, options)


def test_the_first_tier_of_another_device_is_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimization, "_LONG_S", 0.01)
    device, model, given = SlowDevice(), addition(2 * ones()), [ones()]
    expected = 3 * ones()
    compilation = started(model, [device])
    (step,) = compilation.status.steps
    assert (step.device, step.runs_on, step.tier) == ("slow", "cpu", nd.StepTier.FIRST)
    np.testing.assert_array_equal(compilation.run(*given)[0], expected)
    (counted,) = compilation.recovery.substitutions
    assert "has not compiled it yet" in counted.reason
    recovering = compilation.recovery.step(compilation.plan.steps[0])
    first, end_s = _first_tier(recovering), time.monotonic() + WAIT_S
    while _first_tier(recovering) is first and time.monotonic() < end_s:
        time.sleep(0.01)
    assert isinstance(_first_tier(recovering), CpuPreparedModel), "the CPU device compiles it meanwhile"
    np.testing.assert_array_equal(compilation.run(*given)[0], expected)
    device.go.set()
    assert compilation.wait_until_optimized(WAIT_S)
    (step,) = compilation.status.steps
    assert (step.runs_on, step.tier) == ("slow", nd.StepTier.OPTIMIZED)
    assert isinstance(current(compilation), AddingPreparedModel)
    np.testing.assert_array_equal(compilation.run(*given)[0], expected)


def test_the_first_tier_stays_if_the_device_fails() -> None:
    device, model, given = SlowDevice(), addition(2 * ones()), [ones()]
    expected = 3 * ones()
    device.error = OpFailed("no memory for it")
    device.go.set()
    compilation = started(model, [device])
    assert not compilation.wait_until_optimized(WAIT_S)
    (step,) = compilation.status.steps
    assert not step.is_pending
    assert "slow could not prepare it: no memory for it" in step.reason
    np.testing.assert_array_equal(compilation.run(*given)[0], expected)
    assert "it stays" in str(compilation.explain())


def test_a_helper_that_is_killed_leaves_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CompilePool, "begin", lambda self: (_ for _ in ()).throw(OpFailed("it has ended")))
    compilation = started(add_model())
    assert not compilation.wait_until_optimized(WAIT_S)
    assert "it has ended" in compilation.status.steps[0].reason
    np.testing.assert_array_equal(compilation.run(ones(), ones())[0], 2 * ones())


def test_compiling_goes_on_after_its_process_was_killed() -> None:
    assert started(add_model((3, 3))).wait_until_optimized(WAIT_S)
    processes = [pool.process for pool in separate_compiler._pools.values() if pool.process is not None]
    assert processes
    for process in processes:
        os.kill(process, signal.SIGKILL)
    compilation = started(add_model((5, 3)))
    assert compilation.wait_until_optimized(WAIT_S), str(compilation.status)


def test_a_cache_that_cannot_be_written_does_not_matter() -> None:
    builder = nd.CompilationBuilder(add_model())
    builder.set_startup(nd.Startup.INSTANT)
    builder.set_caching("/proc/none", bytes(32))
    compilation = builder.finish()
    assert compilation.wait_until_optimized(WAIT_S), str(compilation.status)
    np.testing.assert_array_equal(compilation.run(ones(), ones())[0], 2 * ones())


def test_a_freed_compilation_ends_its_work(held: threading.Event) -> None:
    compilation = started(add_model())
    time.sleep(0.05)
    del compilation
    gc.collect()
    # The lane is free for others.
    held.set()
    assert started(add_model((4, 4))).wait_until_optimized(WAIT_S)


@pytest.mark.forks
def test_a_forked_child_begins_again(held: threading.Event) -> None:
    # Without a cache, where the child would wait for its parent to compile the model.
    compilation = started(add_model(), is_cached=False)

    def check() -> None:
        held.set()
        np.testing.assert_array_equal(compilation.run(ones(), ones())[0], 2 * ones())
        assert compilation.wait_until_optimized(WAIT_S), str(compilation.status)
        np.testing.assert_array_equal(compilation.run(ones(), ones())[0], 2 * ones())

    in_child(check, 30.0)
    held.set()
    assert compilation.wait_until_optimized(WAIT_S)


def test_device_memory_waits_for_the_device(held: threading.Event) -> None:
    compilation = started(add_model())
    threading.Timer(0.05, held.set).start()
    memory = nd.MemoryDesc().add_input_role(compilation, 0).finish().allocate()
    assert memory.size >= 24
    assert compilation.status.is_optimized


def test_a_daemon_takes_over() -> None:
    with running_daemon("sample-all") as address:
        compilation = started(add_model(), [nd.connect(address)])
        assert compilation.wait_until_optimized(WAIT_S)
        assert compilation.status.steps[0].runs_on == compilation.plan.steps[0].device.name
        np.testing.assert_array_equal(compilation.run(ones(), ones())[0], 2 * ones())


_EXITS_MEANWHILE = """
import numpy as np
from support.models.small import add_model, ones
import neurald as nd
builder = nd.CompilationBuilder(add_model((2, 3), operations=60))
builder.set_startup(nd.Startup.INSTANT)
compilation = builder.finish()
assert (compilation.run(ones(), ones())[0] == 61).all()
"""


@pytest.mark.timed
def test_a_process_exits_while_its_code_is_compiled() -> None:
    started_s = time.monotonic()
    result = subprocess.run(
        [sys.executable, "-c", _EXITS_MEANWHILE],
        env={**os.environ, "PYTHONPATH": python_path()},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, b"")
    assert time.monotonic() - started_s < 30


def test_what_optimises_most_models_imports_little() -> None:
    program = """
import sys
import neurald as nd
from support.models.small import add_model, ones
builder = nd.CompilationBuilder(add_model())
builder.set_startup(nd.Startup.INSTANT)
compilation = builder.finish()
compilation.run(ones(), ones())
assert compilation.wait_until_optimized(120)
slow = {"subprocess", "locale", "neurald.drivers.cpu.data_dependent.growing_model", "neurald.drivers.cpu.open_model"}
assert not slow & set(sys.modules), slow & set(sys.modules)
"""
    environment = {**os.environ, "PYTHONPATH": python_path()}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment, timeout=120)
