"""Traces explain nearly all of the time of each kind of call.

A clock that counts executed lines measures it, so that other programs change nothing.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from support.daemon.processes import running_daemon
from support.inference import zoo
from support.inference.serving import Serving
from support.models.control_flow import below, counting, loop
from support.models.plans import CONTROL_FLOW, all_but, cpu, only, program
from support.traces.line_clock import counted_lines
from support.traces.tracing import assert_valid, shares

import neurald as nd
from neurald import litert
from neurald.runtime.tracing.trace_points import TRACE_POINTS, owner_of
from neurald.service.demo.digits import MODEL

IMAGE = np.zeros((1, 8, 8, 1), np.uint8)
#: What spans must cover of a call's time.
LEAST = 0.95

Calls = Mapping[str, Callable[[], object]]


def bound(compilation: nd.Compilation, *inputs: np.ndarray, reusable: bool = True) -> nd.Execution:
    """Returns an execution with these inputs, and with outputs of its own."""
    execution = nd.Execution(compilation, reusable=reusable)
    for position, array in enumerate(inputs):
        execution.set_input(position, array)
    for position, output in enumerate(compilation.run(*inputs)):
        execution.set_output(position, np.empty_like(output))
    return execution


def executions(compilation: nd.Compilation, *inputs: np.ndarray) -> Calls:
    """Returns functions that execute a compilation in all ways."""
    execution, burst = bound(compilation, *inputs), compilation.create_burst()
    events: list[nd.Event] = []

    def fresh() -> nd.Execution:
        return bound(compilation, *inputs, reusable=False)

    def depend() -> None:
        events[:] = [fresh().start_compute_with_dependencies(events)]
        events[0].wait()

    return {
        "run": lambda: compilation.run(*inputs),
        "run with a receipt": lambda: compilation.run_with_receipt(*inputs),
        "compute": lambda: execution.compute(),  # a bound method would be that of before the trace
        "compute once": lambda: fresh().compute(),
        "compute in a burst": lambda: execution.compute(burst=burst),
        "start_compute": lambda: execution.start_compute().wait(),
        "start_compute once": lambda: fresh().start_compute().wait(),
        "start_compute_with_dependencies": depend,
    }


def functions(function: nd.CompiledFunction, *inputs: np.ndarray) -> Calls:
    """Returns functions that call a compiled function in all ways."""
    named = dict(zip((each.name for each in function.inputs_info), inputs, strict=True))

    async def asynchronous() -> None:
        await function.run_async(*inputs)

    return {
        "function": lambda: function(*inputs),
        "by name": lambda: function(named),
        "submit": lambda: function.submit(*inputs).result(),
        "run_async": lambda: asyncio.run(asynchronous()),
        "stream": lambda: list(function.stream([inputs] * 3)),
    }


def preparations(device: nd.Device) -> Calls:
    """Returns functions that load and prepare a model, from the cache."""
    model = nd.load_tflite(MODEL)

    def finish(startup: nd.Startup) -> None:
        builder = nd.CompilationBuilder(model, [device])
        builder.set_startup(startup)
        builder.finish()

    return {
        "load": lambda: nd.load_tflite(MODEL),
        "nd.compile": lambda: nd.compile(MODEL, device),
        "finish, instant": lambda: finish(nd.Startup.INSTANT),
        "finish, optimized": lambda: finish(nd.Startup.OPTIMIZED),
    }


def least_shares(calls: Calls, path: Path, times: int = 5) -> dict[str, float]:
    """Returns the coverage of each kind of call, where that is too low; checks the files, too."""
    least = {}
    for name, call in calls.items():
        for _ in range(3):
            call()
        with nd.trace(path) as trace:
            for _ in range(times):
                call()
        assert_valid(path, trace)
        with counted_lines(), nd.trace() as counted:
            for _ in range(times):
                call()
        found = shares(counted)
        assert len(found) >= times, name
        least[name] = min(found)
    return {name: share for name, share in least.items() if share < LEAST}


@pytest.mark.parametrize(
    "where", ["in process", "this host", pytest.param("another host", marks=pytest.mark.full)]
)
def test_calls_of_a_device(where: str, tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        if where == "in process":
            device = nd.open_device("cpu")
        else:
            listen = {} if where == "this host" else {"listen": "127.0.0.1:0"}
            device = nd.connect(stack.enter_context(running_daemon(**listen)))
        compilation = nd.CompilationBuilder(nd.load_tflite(MODEL), [device]).finish()
        calls = {
            **preparations(device),
            **executions(compilation, IMAGE),
            **functions(nd.compile(MODEL, device), IMAGE),
        }
        assert not least_shares(calls, tmp_path / "trace.json")


@pytest.mark.parametrize("way", ["run", "run with a receipt", "compute", "start_compute"])
def test_first_calls(way: str) -> None:
    """Traces cover the findings of a compilation in its first calls, too."""
    device, model = nd.open_device("cpu"), nd.load_tflite(MODEL)
    compilation = nd.CompilationBuilder(model, [device]).finish()
    execution = nd.Execution(compilation, reusable=True)
    execution.set_input(0, IMAGE)
    execution.set_output(0, np.empty((1, 10), np.uint8))
    call: Callable[[], object] = {
        "run": lambda: compilation.run(IMAGE),
        "run with a receipt": lambda: compilation.run_with_receipt(IMAGE),
        "compute": lambda: execution.compute(),
        "start_compute": lambda: execution.start_compute().wait(),
    }[way]
    names: set[str] = set()
    for number in range(4):
        with counted_lines(), nd.trace() as trace:
            call()
        assert min(shares(trace)) >= LEAST, number
        names |= {span.name for span in trace.spans}
    assert ("find a function for all shapes" in names) == (way == "run")


@pytest.mark.parametrize("kind", ["finding", "open_addition", "counting", "repeating", "strings"])
def test_first_calls_of_models_with_open_shapes(kind: str) -> None:
    """Traces cover the inference of shapes, and executions that are made for larger outputs."""
    content, given = {
        "finding": (zoo.finding(), np.ones((1, 8), bool)),
        "open_addition": (zoo.open_addition(), np.ones((5, 3), np.float32)),
        "counting": (zoo.counting(), np.array(3, np.int32)),
        "repeating": (zoo.repeating(3), np.ones((4, 2), np.float32)),
        "strings": (zoo.passing("STRING"), np.array([[b"a", b"b", b"c"]], object)),
    }[kind]
    model = nd.load_tflite(content)
    for way in ("run", "run_with_receipt"):
        compilation = nd.CompilationBuilder(model, [nd.open_device("cpu")]).finish()
        compilation.wait_until_optimized(60)
        for number in range(3):
            with counted_lines(), nd.trace() as trace:
                getattr(compilation, way)(given)
            assert min(shares(trace)) >= LEAST, (way, number)


def test_loops_over_several_devices(tmp_path: Path) -> None:
    model, devices = loop(below(5, extra=1), counting(1, 2)), (all_but("flat", *CONTROL_FLOW), cpu())
    inputs = np.zeros(1, np.float32), np.ones(2, np.float32)
    function = nd.compile(model, devices)
    assert "While" in program(function.compilation)
    calls = {
        "nd.compile": lambda: nd.compile(model, devices),
        **executions(function.compilation, *inputs),
        **functions(function, *inputs),
    }
    assert not least_shares(calls, tmp_path / "trace.json")


def test_steps_on_several_devices(tmp_path: Path) -> None:
    graph, kind = nd.ModelBuilder(), nd.OperandType.TENSOR_FLOAT32
    values = [graph.add_operand(kind, (4,)) for _ in range(4)]
    types = nd.OperationType.ABS, nd.OperationType.TANH, nd.OperationType.ABS
    for operation, given, result in zip(types, values, values[1:], strict=False):
        graph.add_operation(operation, [given], [result])
    graph.identify_inputs_and_outputs(values[:1], values[3:])
    devices = only("abs", nd.OperationType.ABS), only("tanh", nd.OperationType.TANH)
    function = nd.compile(graph.finish(), devices)
    assert program(function.compilation) == ["abs", "tanh", "abs"]
    inputs = (np.ones(4, np.float32),)
    calls = {**executions(function.compilation, *inputs), **functions(function, *inputs)}
    assert not least_shares(calls, tmp_path / "trace.json")


def test_a_model_of_a_service(tmp_path: Path) -> None:
    zoo.write_plain(tmp_path, "pair", zoo.addition())
    place, array = tmp_path / "s.sock", np.array([[5, 6, 7, 8]], np.int32)
    with Serving(tmp_path, socket=str(place), grpc="", http="") as serving:
        serving.wait_ready()
        with nd.connect_service(place).model("pair") as model:
            assert not least_shares({"request": lambda: model(array, array)}, tmp_path / "trace.json")


def test_the_interface_of_litert(tmp_path: Path) -> None:
    interpreter = litert.Interpreter(str(MODEL))
    interpreter.allocate_tensors()
    compiled = litert.CompiledModel.from_file(str(MODEL))
    signature = interpreter.get_signature_runner()
    (given,), (result,) = interpreter.get_input_details(), interpreter.get_output_details()
    inputs, outputs = compiled.create_input_buffers(0), compiled.create_output_buffers(0)
    calls: Calls = {
        "interpreter": lambda: litert.Interpreter(str(MODEL)).allocate_tensors(),
        "set_tensor": lambda: interpreter.set_tensor(given["index"], IMAGE),
        "invoke": lambda: interpreter.invoke(),
        "get_tensor": lambda: interpreter.get_tensor(result["index"]),
        "signature": lambda: signature(image=IMAGE),
        "compiled model": lambda: litert.CompiledModel.from_file(str(MODEL)),
        "run_by_index": lambda: compiled.run_by_index(0, inputs, outputs),
    }
    assert not least_shares(calls, tmp_path / "trace.json")
    with nd.trace() as trace:
        calls["interpreter"]()
        interpreter.invoke()
    assert [span.name for span in trace.spans if span.category == "call" and span.name[0] in "Iai"] == [
        "Interpreter",
        "allocate_tensors",
        "invoke",
    ]
    assert 0 not in {span.call for span in trace.spans}


@pytest.mark.timed
@pytest.mark.parametrize("startup", nd.Startup)
def test_preparations_without_a_cache(
    startup: nd.Startup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with nd.trace() as trace:
        for number in range(3):
            monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / str(number)))
            builder = nd.CompilationBuilder(nd.load_tflite(MODEL))
            builder.set_startup(startup)
            compilation = builder.finish()
            assert compilation.wait_until_optimized(120)
    assert max(shares(trace, "load")) > LEAST
    assert max(shares(trace, "compile")) > LEAST
    lookups = [span.details for span in trace.spans if span.name == "look up in the cache"]
    assert lookups
    for details in lookups:
        assert details["hit"] or details["reason"]
    # What a look-up found is stated where the step was prepared, too.
    prepared = [span for span in trace.spans if span.name.startswith("prepare on ")]
    assert prepared or startup is nd.Startup.INSTANT
    assert {span.details["cache"] for span in prepared} <= {"hit", "miss", "off"}


@pytest.mark.timed
def test_calls_of_many_threads(tmp_path: Path) -> None:
    count, runs = 64, 20
    compilation = nd.CompilationBuilder(nd.load_tflite(MODEL), [nd.open_device("cpu")]).finish()
    compilation.run(IMAGE)
    path = tmp_path / "trace.json"
    with nd.trace(path) as trace, ThreadPoolExecutor(count) as pool:
        for each in [pool.submit(compilation.run, IMAGE) for _ in range(count * runs)]:
            each.result()
    calls = [span for span in trace.spans if span.name == "run"]
    assert len({span.call for span in calls}) == len(calls) == count * runs
    assert trace.coverage() > LEAST
    assert_valid(path, trace)
    # Calls of one thread follow each other.
    latest: dict[int, int] = {}
    for call in sorted(calls, key=lambda each: each.start_ns):
        assert latest.get(call.thread, 0) <= call.start_ns
        latest[call.thread] = call.end_ns


def test_points_are_methods_of_their_owners() -> None:
    found = [(owner_of(point), point.method) for point in TRACE_POINTS]
    assert len({(id(owner), method) for owner, method in found}) == len(found)
    values = [getattr(owner, method) for owner, method in found]
    assert all(callable(each) or each is False for each in values)
