"""The result codes of calls in the wrong state or with wrong data: Android NN's state machines, in
all four modes.

Cases of `test_model`, `test_compilation`, `test_execution`, `test_memory_domains` and `test_burst`
are not repeated here.
"""

import gc
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.daemon.processes import running_daemon
from support.devices.misbehaving import FailingDevice, PausedDevice, SampleDevice
from support.devices.modes import MODES, compute
from support.errors import error_code
from support.models.control_flow import ADD, Graph, arithmetic
from support.models.small import FLOAT, add_model, bound_execution, compiled_add
from support.sweeps import sweep

import neurald as nd
from neurald.hal.errors import Cancelled, OpFailed, ResourceExhaustedTransient
from neurald.hal.process.threads.reused_threads import ReusedThreads
from neurald.hal.sync.fence import Fence

Code = nd.ResultCode
Calls = dict[str, Callable[[], Any]]

GOOD = np.zeros((2, 3), np.float32)
NOTHING: Any = None


def refused(calls: Calls) -> dict[str, nd.ResultCode]:
    return {name: error_code(call) for name, call in calls.items()}


def every(calls: Calls, code: nd.ResultCode) -> dict[str, nd.ResultCode]:
    return dict.fromkeys(calls, code)


def paused_execution(*, reusable: bool = False) -> tuple[PausedDevice, nd.Execution]:
    device = PausedDevice()
    execution, _ = bound_execution(nd.CompilationBuilder(add_model(), [device]).finish(), reusable=reusable)
    return device, execution


# Model


def model_calls(builder: nd.ModelBuilder) -> Calls:
    memory = nd.Memory.allocate(64)
    return {
        "add_operand": lambda: builder.add_operand(FLOAT, (2,)),
        "set_operand_value": lambda: builder.set_operand_value(0, 1),
        "set_operand_value_from_memory": lambda: builder.set_operand_value_from_memory(0, memory, 0, 8),
        "set_operand_value_from_model": lambda: builder.set_operand_value_from_model(0, add_model()),
        "add_operation": lambda: builder.add_operation(ADD, [0, 0, 1], [2]),
        "identify_inputs_and_outputs": lambda: builder.identify_inputs_and_outputs([0], [2]),
        "relax": builder.relax_computation_float32_to_float16,
        "finish": builder.finish,
    }


def test_a_model_that_can_never_be_finished_is_closed() -> None:
    graph = Graph()
    first, second = graph.value(), graph.value()
    graph.binary(ADD, first, first, second)
    graph.binary(ADD, second, second, first)
    assert error_code(graph.finish, [], []) is Code.BAD_DATA
    calls = model_calls(graph.builder)
    assert refused(calls) == every(calls, Code.BAD_STATE)
    builder: Any = graph.builder
    assert error_code(nd.CompilationBuilder, builder) is Code.BAD_STATE
    assert error_code(nd.supported_operations, builder, nd.devices()) is Code.BAD_STATE


def test_a_finished_model_is_closed() -> None:
    graph = Graph()
    source = graph.value()
    graph.finish([source], [graph.binary(ADD, source, source, graph.value())])
    calls = model_calls(graph.builder)
    assert refused(calls) == every(calls, Code.BAD_STATE)


def test_models_that_others_refer_to() -> None:
    graph = Graph()
    operand, tensor = graph.builder.add_operand(nd.OperandType.MODEL), graph.value()
    refer = graph.builder.set_operand_value_from_model
    unfinished: Any = nd.ModelBuilder()
    assert error_code(refer, operand, None) is Code.UNEXPECTED_NULL
    assert error_code(refer, operand, unfinished) is Code.BAD_STATE
    assert error_code(refer, tensor, add_model()) is Code.BAD_DATA
    for index in (-1, 99):
        assert error_code(refer, index, add_model()) is Code.BAD_DATA
    model = add_model()
    refer(operand, model)
    refer(graph.builder.add_operand(nd.OperandType.MODEL), model)


def test_what_must_not_be_missing() -> None:
    builder = nd.ModelBuilder()
    tensor = builder.add_operand(FLOAT, (2,))
    compilation = compiled_add()
    execution = nd.Execution(compilation)
    event_of = execution.start_compute_with_dependencies
    calls: Calls = {
        "constant": lambda: builder.set_operand_value_from_memory(tensor, NOTHING, 0, 8),
        "supported_operations": lambda: nd.supported_operations(NOTHING, nd.devices()),
        "compilation": lambda: nd.CompilationBuilder(NOTHING),
        "share_state": lambda: nd.CompilationBuilder(add_model()).share_state(NOTHING),
        "execution": lambda: nd.Execution(NOTHING),
        "burst": lambda: nd.Burst(NOTHING),
        "input": lambda: execution.set_input_from_memory(0, NOTHING, 0, 24),
        "output": lambda: execution.set_output(0, NOTHING),
        "output from memory": lambda: execution.set_output_from_memory(0, NOTHING, 0, 24),
        "role": lambda: nd.MemoryDesc().add_input_role(NOTHING, 0),
        "dependency": lambda: event_of([NOTHING]),
    }
    assert refused(calls) == every(calls, Code.UNEXPECTED_NULL)


# Compilation


def test_what_else_a_finished_compilation_refuses(tmp_path: Path) -> None:
    builder = nd.CompilationBuilder(add_model(), nd.devices()[:1])
    other = builder.finish()
    calls: Calls = {
        "set_partitioning": lambda: builder.set_partitioning(nd.PartitioningMode.WITHOUT_FALLBACK),
        "share_state": lambda: builder.share_state(other),
        "set_caching": lambda: builder.set_caching(None),
        "set_preference": lambda: builder.set_preference(7),  # type: ignore[arg-type]
    }
    assert refused(calls) == every(calls, Code.BAD_STATE)


def test_a_compilation_that_failed_stays_open() -> None:
    device = SampleDevice("picky", supports=lambda _: False)
    builder = nd.CompilationBuilder(add_model(), [device])
    for _ in range(2):
        assert error_code(builder.finish) is Code.BAD_DATA
        builder.set_priority(nd.Priority.HIGH)


def test_preferred_memory_of_a_missing_input_or_output() -> None:
    compilation = compiled_add()
    for index in (-1, 2):
        assert error_code(compilation.preferred_memory_alignment_for_input, index) is Code.BAD_DATA
        assert error_code(compilation.preferred_memory_padding_for_input, index) is Code.BAD_DATA
    for index in (-1, 1):
        assert error_code(compilation.preferred_memory_alignment_for_output, index) is Code.BAD_DATA
        assert error_code(compilation.preferred_memory_padding_for_output, index) is Code.BAD_DATA


@sweep("listed", [None, 1, 2])
def test_strict_mode_needs_one_explicit_device(listed: int | None) -> None:
    devices = None if listed is None else [nd.devices()[0], SampleDevice()][:listed]
    builder = nd.CompilationBuilder(add_model(), devices, strict=True)
    if listed != 1:
        assert error_code(builder.set_timeout, 1) is Code.BAD_DATA
    else:
        builder.set_timeout(1)
    execution, output = bound_execution(builder.finish())
    calls: Calls = {
        "set_timeout": lambda: execution.set_timeout(60),
        "set_measure_timing": execution.set_measure_timing,
        "fenced duration": lambda: execution.start_compute_with_dependencies([], 60).wait(),
    }
    if listed != 1:
        assert refused(calls) == every(calls, Code.BAD_DATA)
        execution.compute()
    else:
        for call in calls.values():
            call()
    np.testing.assert_array_equal(output, np.full((2, 3), 3))


# Execution


def test_an_execution_needs_a_finished_compilation() -> None:
    builder: Any = nd.CompilationBuilder(add_model())
    assert error_code(nd.Execution, builder) is Code.BAD_STATE


def settings(execution: nd.Execution) -> Calls:
    memory = nd.Memory.allocate(64)
    return {
        "set_input": lambda: execution.set_input(0, GOOD),
        "set_output": lambda: execution.set_output(0, GOOD.copy()),
        "set_input_from_memory": lambda: execution.set_input_from_memory(0, memory, 0, 24),
        "set_output_from_memory": lambda: execution.set_output_from_memory(0, memory, 0, 24),
        "set_reusable": execution.set_reusable,
        "set_measure_timing": execution.set_measure_timing,
        "set_timeout": lambda: execution.set_timeout(1),
        "set_loop_timeout": lambda: execution.set_loop_timeout(1),
        "padding": execution.enable_input_and_output_padding,
    }


def results(execution: nd.Execution) -> Calls:
    return {
        "output_dimensions": lambda: execution.output_dimensions(0),
        "output_rank": lambda: execution.output_rank(0),
        "output_shapes": execution.output_shapes,
        "duration": lambda: execution.duration(nd.Duration.ON_HARDWARE),
        "fenced duration": lambda: execution.duration(nd.Duration.FENCED_IN_DRIVER),
    }


@sweep("mode", MODES)
def test_settings_are_too_late(mode: str) -> None:
    device, execution = paused_execution(reusable=True)
    assert refused(results(execution)) == every(results(execution), Code.BAD_STATE)
    calls = settings(execution)
    with ThreadPoolExecutor(1) as pool:
        under_way = pool.submit(compute, execution, mode)
        assert device.started.wait(30)
        during = refused(calls), refused(results(execution))
        device.proceed.set()
        under_way.result(30)
    assert during == (every(calls, Code.BAD_STATE), every(results(execution), Code.BAD_STATE))
    assert refused(calls) == every(calls, Code.BAD_STATE)
    assert execution.output_dimensions(0) == (2, 3)
    compute(execution, mode)


@sweep("second", MODES)
@sweep("first", MODES)
def test_no_second_computation(first: str, second: str) -> None:
    device, execution = paused_execution()
    with ThreadPoolExecutor(1) as pool:
        under_way = pool.submit(compute, execution, first)
        assert device.started.wait(30)
        assert error_code(compute, execution, second) is Code.BAD_STATE
        device.proceed.set()
        under_way.result(30)
    assert error_code(compute, execution, second) is Code.BAD_STATE
    assert execution.output_dimensions(0) == (2, 3)


@sweep("mode", MODES)
def test_missing_arguments_can_be_mended(mode: str) -> None:
    execution = nd.Execution(compiled_add())
    output = np.zeros((2, 3), np.float32)
    calls: Calls = {
        "input 0": lambda: execution.set_input(0, GOOD),
        "output": lambda: execution.set_output(0, output),
        "input 1": lambda: execution.set_input(1, GOOD + 1),
    }
    for bind in calls.values():
        assert error_code(compute, execution, mode) is Code.BAD_DATA
        bind()
    compute(execution, mode)
    np.testing.assert_array_equal(output, GOOD + 1)


@sweep("mode", MODES)
def test_results_after_success_and_failure(mode: str) -> None:
    device = FailingDevice()
    compilation = nd.CompilationBuilder(add_model(), [device]).finish()
    execution, _ = bound_execution(compilation, reusable=True)
    execution.set_measure_timing()
    compute(execution, mode)
    for index in (-1, 1):
        assert error_code(execution.output_dimensions, index) is Code.BAD_DATA
        assert error_code(execution.output_rank, index) is Code.BAD_DATA
    for duration in (-1, 4):
        assert error_code(execution.duration, duration) is Code.BAD_DATA
    assert execution.duration(nd.Duration.IN_DRIVER) is not None
    device.error = OpFailed("as told")
    assert error_code(compute, execution, mode) is Code.OP_FAILED
    assert refused(results(execution)) == every(results(execution), Code.BAD_STATE)
    device.error = None
    compute(execution, mode)
    assert execution.output_shapes() == [(2, 3)]


@sweep("mode", MODES)
def test_scalars_have_no_dimensions(mode: str) -> None:
    builder = nd.ModelBuilder()
    source, rank = builder.add_operand(FLOAT, (2, 3)), builder.add_operand(nd.OperandType.INT32)
    builder.add_operation(nd.OperationType.RANK, [source], [rank])
    builder.identify_inputs_and_outputs([source], [rank])
    execution = nd.Execution(nd.CompilationBuilder(builder.finish(), nd.devices()[:1]).finish())
    output = np.zeros((), np.int32)
    execution.set_input(0, GOOD)
    execution.set_output(0, output)
    compute(execution, mode)
    assert output == 2
    assert error_code(execution.output_dimensions, 0) is Code.BAD_DATA
    assert execution.output_shapes() == [()]


@sweep("mode", MODES)
def test_dimensions_that_an_output_does_not_have(mode: str) -> None:
    compilation = compiled_add((0, 3))
    for rows in (1, 4):
        execution = nd.Execution(compilation)
        memory = nd.Memory.allocate(64)
        for index in range(2):
            execution.set_input(index, np.ones((rows, 3), np.float32))
        execution.set_output_from_memory(0, memory, 0, 24, (2, 3))
        assert error_code(compute, execution, mode) is Code.OP_FAILED
        assert refused(results(execution)) == every(results(execution), Code.BAD_STATE)


def test_outputs_of_open_shape_in_every_mode() -> None:
    compilation = compiled_add((0, 3))
    for mode in MODES:
        execution = nd.Execution(compilation)
        for index in range(2):
            execution.set_input(index, np.ones((4, 3), np.float32))
        execution.set_output(0, GOOD.copy())
        assert error_code(compute, execution, mode) is Code.OUTPUT_INSUFFICIENT_SIZE
        assert execution.output_shapes() == [(4, 3)]
        assert error_code(execution.duration, nd.Duration.IN_DRIVER) is Code.BAD_STATE


@sweep("mode", MODES)
@sweep("reusable", [False, True])
def test_many_threads(mode: str, reusable: bool) -> None:
    execution, output = bound_execution(compiled_add(), reusable=reusable)
    codes: list[nd.ResultCode] = []
    barrier = threading.Barrier(4)

    def work() -> None:
        barrier.wait(30)
        try:
            compute(execution, mode)
            codes.append(Code.NO_ERROR)
        except nd.Error as error:
            codes.append(error.code)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(codes) <= {Code.NO_ERROR, Code.BAD_STATE}
    assert codes.count(Code.NO_ERROR) >= 1
    assert reusable or codes.count(Code.NO_ERROR) == 1
    np.testing.assert_array_equal(output, np.full((2, 3), 3))


# Time limits


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with running_daemon() as address:
        yield address


@sweep("mode", MODES)
@sweep("where", ["in process", "behind a socket"])
@sweep("seconds", [1e7, 2.0**64 / 1e9, float("inf")])
def test_the_longest_time_limits(seconds: float, where: str, mode: str, address: str) -> None:
    device = nd.devices()[0] if where == "in process" else nd.connect(address)
    builder = nd.CompilationBuilder(add_model(), [device])
    builder.set_timeout(seconds)
    execution, output = bound_execution(builder.finish())
    execution.set_timeout(seconds)
    execution.set_loop_timeout(seconds)
    compute(execution, mode)
    np.testing.assert_array_equal(output, np.full((2, 3), 3))


@sweep("where", ["in process", "behind a socket"])
@sweep("seconds", [1e7, 2.0**64 / 1e9, float("inf")])
def test_the_longest_waits(seconds: float, where: str, address: str) -> None:
    device = nd.devices()[0] if where == "in process" else nd.connect(address)
    execution, _ = bound_execution(nd.CompilationBuilder(add_model(), [device]).finish())
    execution.set_timeout(seconds)
    gate = Fence()
    event = execution.start_compute_with_dependencies([nd.Event.from_fence_fd(gate.fd)], seconds)
    threading.Timer(0.1, gate.signal).start()
    nd.Event.from_fence_fd(gate.fd).wait(seconds)
    event.wait(seconds)


def test_times_that_are_none() -> None:
    execution, _ = bound_execution(compiled_add())
    for wrong in (-1.0, -1e-9, float("nan")):
        assert error_code(execution.set_timeout, wrong) is Code.BAD_DATA
        assert error_code(execution.set_loop_timeout, wrong) is Code.BAD_DATA
        assert error_code(execution.start_compute_with_dependencies, [], wrong) is Code.BAD_DATA
    execution.compute()


# Burst


def test_a_burst_in_use_in_this_process() -> None:
    device, first = paused_execution()
    second, _ = bound_execution(first.compilation)
    with nd.Burst(first.compilation) as burst, ThreadPoolExecutor(1) as pool:
        under_way = pool.submit(lambda: first.compute(burst=burst))
        assert device.started.wait(30)
        assert error_code(lambda: second.compute(burst=burst)) is Code.BAD_STATE
        device.proceed.set()
        under_way.result(30)
        second.compute(burst=burst)


def test_a_burst_after_a_failed_run_and_a_refused_one() -> None:
    device = FailingDevice()
    compilation = nd.CompilationBuilder(add_model(), [device]).finish()
    execution, output = bound_execution(compilation, reusable=True)
    with compilation.create_burst() as burst:
        device.error = OpFailed("as told")
        assert error_code(lambda: execution.compute(burst=burst)) is Code.OP_FAILED
        assert error_code(lambda: nd.Execution(compilation).compute(burst=burst)) is Code.BAD_DATA
        device.error = None
        execution.compute(burst=burst)
    np.testing.assert_array_equal(output, np.full((2, 3), 3))
    assert error_code(lambda: execution.compute(burst=burst)) is Code.BAD_STATE
    execution.compute()


# Event


@sweep("fd", [None, "3", 2.5])
def test_an_invalid_descriptor_is_refused(fd: Any) -> None:
    assert error_code(nd.Event.from_fence_fd, fd) is Code.BAD_DATA


@pytest.mark.parametrize("mode", ["async", "fenced"])
def test_an_unreferenced_execution_is_completed(mode: str) -> None:
    device = PausedDevice()
    execution, output = bound_execution(nd.CompilationBuilder(add_model(), [device]).finish())
    event = execution.start_compute() if mode == "async" else execution.start_compute_with_dependencies([])
    with ThreadPoolExecutor(1) as pool:
        wait = pool.submit(event.wait)
        assert device.started.wait(30)
        del execution, event
        gc.collect()
        device.proceed.set()
        wait.result(30)
    np.testing.assert_array_equal(output, np.full((2, 3), 3))


def test_errors_do_not_grow_with_every_wait() -> None:
    device = FailingDevice()
    execution, _ = bound_execution(nd.CompilationBuilder(add_model(), [device]).finish())
    device.error = OpFailed("as told")
    event = execution.start_compute()
    depths = set()
    for _ in range(10):
        with pytest.raises(OpFailed) as caught:
            event.wait()
        depths.add(len(caught.traceback))
    assert len(depths) == 1


@sweep("operations", ["simple", "compound"])
def test_a_wait_for_a_fence_that_never_signals_can_be_given_up(operations: str) -> None:
    devices = [
        SampleDevice("adder", supports=lambda kind: kind is ADD),
        SampleDevice("other", supports=lambda kind: kind is not ADD),
    ]
    model = add_model() if operations == "simple" else add_then_multiply()
    compilation = nd.CompilationBuilder(model, devices).finish()
    assert compilation.plan.is_simple is (operations == "simple")
    execution = nd.Execution(compilation, reusable=True)
    for index in range(len(model.inputs)):
        execution.set_input(index, np.ones((2, 3), np.float32))
    execution.set_output(0, np.zeros((2, 3), np.float32))
    fence = Fence()
    never = nd.Event.from_fence_fd(fence.fd)
    for _ in range(2):
        event = execution.start_compute_with_dependencies([never])
        execution.cancel()
        with pytest.raises(Cancelled):
            event.wait(30)
    execution.compute()


def add_then_multiply() -> nd.Model:
    graph = Graph()
    first, second = graph.value(shape=(2, 3)), graph.value(shape=(2, 3))
    total = graph.binary(ADD, first, second, graph.value(shape=(2, 3)))
    product = graph.binary(nd.OperationType.MUL, total, second, graph.value(shape=(2, 3)))
    return graph.finish([first, second], [product])


@sweep("mode", ["async", "fenced"])
def test_no_thread_can_be_started(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    execution, output = bound_execution(compiled_add(), reusable=True)

    def start(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(ReusedThreads, "start", start)
        with pytest.raises(ResourceExhaustedTransient, match="no thread can be started"):
            compute(execution, mode)
    compute(execution, mode)
    np.testing.assert_array_equal(output, np.full((2, 3), 3))


def test_a_model_that_another_refers_to_can_be_compiled_itself() -> None:
    inner = arithmetic(ADD, 1)
    graph = Graph()
    condition, source = graph.value(nd.OperandType.TENSOR_BOOL8, (1,)), graph.value()
    output = graph.value()
    branches = [graph.model(inner), graph.model(inner)]
    graph.builder.add_operation(nd.OperationType.IF, [condition, *branches, source], [output])
    model = graph.finish([condition, source], [output])
    for each, arrays in (
        (model, [np.array([True]), np.zeros(2, np.float32)]),
        (inner, [np.zeros(2, np.float32)]),
    ):
        (result,) = nd.CompilationBuilder(each, nd.devices()[:1]).finish().run(*arrays)
        assert result.tolist() == [1, 1]
