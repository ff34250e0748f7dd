"""Executors of compound plans: temporaries of unknown size, outputs that do not fit, state, time,
and devices with invalid results.
"""

import gc
import itertools
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from support.daemon.processes import running_daemon
from support.devices.fakes import FakePreparedModel
from support.devices.misbehaving import SampleDevice
from support.errors import error_code
from support.models.control_flow import below, counting, loop
from support.models.plans import (
    Array,
    all_but,
    assert_same_as_on_cpu,
    compiled,
    cpu,
    executed,
    only,
    request_for,
)
from support.models.small import FLOAT, add_model
from support.sweeps import sweep

import neurald as nd
from neurald.hal.device import (
    ExecuteOptions,
    ExecutionResult,
    OutputShape,
    PreparedModel,
    PrepareOptions,
    Timing,
)
from neurald.hal.errors import OpFailed
from neurald.hal.memory.pool import HostMemory, SharedMemory
from neurald.hal.model.model import StateVariable
from neurald.hal.model.request import Argument, Request
from neurald.hal.records import replace
from neurald.hal.sync.cancellation import Cancellation
from neurald.runtime.execution.program import compound_executor
from neurald.runtime.execution.program.executor import plan_executor
from neurald.runtime.execution.program.temporaries import Temporaries
from neurald.runtime.execution.recovery.recovery import Recovery
from neurald.runtime.plan.plan import CompoundBody, ExecutionPlan, ExecutionStep
from neurald.runtime.plan.preparer import Preparer

Op = nd.OperationType
INT = nd.OperandType.TENSOR_INT32
Code = nd.ResultCode
VALUE = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


def pads(output: tuple[int, ...] = (), *, relu: bool = False) -> nd.Model:
    """Builds (x, p, q) -> PAD(x, p) + PAD(x, q), whose shapes are unknown before it runs."""
    builder = nd.ModelBuilder()
    source = builder.add_operand(FLOAT, (2, 3))
    paddings = [builder.add_operand(INT, (2, 2)) for _ in range(2)]
    none = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(none, 0)
    padded = [builder.add_operand(FLOAT, ()) for _ in range(2)]
    total = builder.add_operand(FLOAT, output)
    builder.add_operation(Op.PAD, [source, paddings[0]], [padded[0]])
    builder.add_operation(Op.PAD, [source, paddings[1]], [padded[1]])
    if relu:
        rectified = builder.add_operand(FLOAT, (0, 0))
        builder.add_operation(Op.RELU, [padded[0]], [rectified])
        padded[0] = rectified
    builder.add_operation(Op.ADD, [*padded, none], [total])
    builder.identify_inputs_and_outputs([source, *paddings], [total])
    return builder.finish()


def amounts(*values: int) -> Array:
    return np.array(values, np.int32).reshape(2, 2)


def split_pads(model: nd.Model) -> nd.Compilation:
    return compiled(model, only("padder", Op.PAD), all_but("other", Op.PAD))


class Counting(SampleDevice):
    """Records the requests of its models, and lets `answer` change their results."""

    def __init__(
        self,
        name: str,
        types: Sequence[nd.OperationType],
        answer: Callable[[Request, ExecutionResult], ExecutionResult] = lambda _, result: result,
    ) -> None:
        super().__init__(name, performance=0.5, supports=lambda kind: kind in types)
        self.requests: list[Request] = []
        self._answer = answer

    def wrap(self, prepared: PreparedModel) -> PreparedModel:
        device = self

        class Prepared(FakePreparedModel):
            def execute(self, request: Request, options: ExecuteOptions) -> ExecutionResult:
                device.requests.append(request)
                return device._answer(request, prepared.execute(request, options))

        return Prepared()


def test_temporaries_of_unknown_size() -> None:
    for relu in (False, True):
        model = pads(relu=relu)
        compilation = split_pads(model)
        for padding in (amounts(0, 0, 0, 0), amounts(1, 2, 3, 4), amounts(30, 0, 0, 7), amounts(0, 1, 0, 0)):
            assert_same_as_on_cpu(model, compilation, VALUE, padding, padding)


def test_the_producer_runs_again_with_as_much_as_it_says() -> None:
    padder = Counting("padder", [Op.PAD])
    compilation = compiled(pads(), padder, all_but("other", Op.PAD))
    inputs = [VALUE, amounts(0, 50, 0, 50), amounts(0, 50, 0, 50)]
    executed(compilation, inputs, [np.zeros((52, 53), np.float32)])
    first, second = (request.outputs[0].length for request in padder.requests[:2])
    assert first < 52 * 53 * 4 <= second
    padder.requests.clear()
    executed(compilation, inputs, [np.zeros((52, 53), np.float32)])
    assert len(padder.requests) == 1


def test_without_a_shape_the_room_is_doubled() -> None:
    def silent(request: Request, result: ExecutionResult) -> ExecutionResult:
        if result.is_sufficient:
            return result
        return ExecutionResult(
            output_shapes=tuple(replace(shape, dimensions=None) for shape in result.output_shapes)
        )

    padder = Counting("padder", [Op.PAD], silent)
    compilation = compiled(pads(), padder, all_but("other", Op.PAD))
    result = np.zeros((52, 53), np.float32)
    executed(compilation, [VALUE, amounts(0, 50, 0, 50), amounts(0, 50, 0, 50)], [result])
    np.testing.assert_array_equal(result, np.pad(VALUE, ((0, 50), (0, 50))) * 2)
    lengths = [request.outputs[0].length for request in padder.requests]
    assert len(lengths) > 3
    assert all(after == 2 * before for before, after in itertools.pairwise(lengths))


@sweep("shape", [(2, 3), (1, 1)])
def test_a_device_that_is_never_content_is_stopped(shape: tuple[int, ...]) -> None:
    def greedy(request: Request, result: ExecutionResult) -> ExecutionResult:
        return ExecutionResult(
            output_shapes=tuple(OutputShape(dimensions=shape, sufficient=False) for _ in request.outputs)
        )

    padder = Counting("padder", [Op.PAD], greedy)
    compilation = compiled(pads(), padder, all_but("other", Op.PAD))
    zero = amounts(0, 0, 0, 0)
    assert error_code(compilation.run, VALUE, zero, zero) is Code.OP_FAILED
    assert len(padder.requests) <= 3


def test_a_device_that_always_wants_twice_as_much_is_stopped() -> None:
    def greedy(request: Request, result: ExecutionResult) -> ExecutionResult:
        if request.outputs[0].length > 1 << 20:
            return result
        return ExecutionResult(
            output_shapes=tuple(OutputShape(dimensions=None, sufficient=False) for _ in request.outputs)
        )

    padder = Counting("padder", [Op.PAD], greedy)
    compilation = compiled(pads(), padder, all_but("other", Op.PAD))
    zero = amounts(0, 0, 0, 0)
    assert compilation.run(VALUE, zero, zero)[0].tobytes() == (VALUE * 2).tobytes()
    assert len(padder.requests) < 30


@sweep("output", [(), (0, 0), (3, 0), (3, 5)])
def test_outputs_of_compound_plans(output: tuple[int, ...]) -> None:
    compilation = split_pads(pads(output))
    inputs = [VALUE, amounts(1, 0, 1, 1), amounts(0, 1, 2, 0)]
    (expected,) = compiled(pads(output), cpu()).run(*inputs)
    assert expected.shape == (3, 5)
    result = np.zeros(15, np.float32) if 0 in output or not output else np.zeros(output, np.float32)
    if result.ndim == 1:
        result = result.reshape(3, 5)
    assert executed(compilation, inputs, [result]).output_dimensions(0) == (3, 5)
    np.testing.assert_array_equal(result, expected)
    if output == (3, 5):
        return
    small = nd.Execution(compilation)
    for position, array in enumerate(inputs):
        small.set_input(position, array)
    memory = HostMemory(np.zeros(14, np.float32))
    small.set_output_from_memory(0, memory, 0, 56)
    with pytest.raises(nd.OutputInsufficientSize) as caught:
        small.compute()
    assert caught.value.dimensions == ((3, 5),)
    assert small.output_dimensions(0) == (3, 5)


def chain(*types: nd.OperationType, shape: tuple[int, ...] = (2, 3), between: bool = False) -> nd.Model:
    """Builds a chain of operations on x; with `between`, all intermediate results are outputs."""
    builder = nd.ModelBuilder()
    values = [builder.add_operand(FLOAT, shape) for _ in range(len(types) + 1)]
    for position, kind in enumerate(types):
        builder.add_operation(kind, [values[position]], [values[position + 1]])
    builder.identify_inputs_and_outputs(values[:1], values[1:] if between else values[-1:])
    return builder.finish()


def test_outputs_that_later_steps_read() -> None:
    model = chain(Op.TANH, Op.RELU, Op.ABS, Op.LOGISTIC, between=True)
    compilation = compiled(model, only("a", Op.TANH, Op.ABS), only("b", Op.RELU, Op.LOGISTIC))
    assert len(compilation.plan.steps) == 4
    assert_same_as_on_cpu(model, compilation, VALUE)
    assert [(s.device.name, i) for s, i in compilation.plan.reading_roles_of_output(0)] == [("b", 0)]
    assert compilation.plan.reading_roles_of_output(3) == ()


def test_all_shapes_are_reported_if_an_early_output_is_too_small() -> None:
    model = chain(Op.TANH, Op.RELU, Op.ABS, shape=(0, 3), between=True)
    compilation = compiled(model, only("a", Op.TANH, Op.ABS), only("b", Op.RELU))
    execution = nd.Execution(compilation)
    execution.set_input(0, VALUE)
    outputs = [np.zeros((1, 3), np.float32), np.zeros((2, 3), np.float32), np.zeros((1, 3), np.float32)]
    for position, output in enumerate(outputs):
        execution.set_output(position, output)
    with pytest.raises(nd.OutputInsufficientSize) as caught:
        execution.compute()
    assert caught.value.dimensions == ((2, 3),) * 3
    assert_same_as_on_cpu(model, compilation, VALUE)


def test_zero_sized_operands_between_steps() -> None:
    for shape in ((0, 3), (0, 0), ()):
        model = chain(Op.TANH, Op.RELU, Op.ABS, shape=shape)
        compilation = compiled(model, only("a", Op.TANH, Op.ABS), only("b", Op.RELU))
        (result,) = assert_same_as_on_cpu(model, compilation, np.zeros((0, 3), np.float32))
        assert result.shape == (0, 3)
        assert_same_as_on_cpu(model, compilation, VALUE)


def test_a_shape_that_contradicts_the_model_is_refused() -> None:
    """Each step alone allows the shape: the contradicting declaration is outside of the step's
    graph.
    """

    def wrong(request: Request, result: ExecutionResult) -> ExecutionResult:
        return ExecutionResult(output_shapes=(OutputShape(dimensions=(3, 2)),))

    device = Counting("a", [Op.TANH, Op.ABS], wrong)
    compilation = compiled(chain(Op.TANH, Op.RELU), device, only("b", Op.RELU))
    assert error_code(compilation.run, VALUE) is Code.OP_FAILED


def accumulator() -> nd.Model:
    """Builds x -> x + total, where the sum is the next total."""
    model = add_model()
    graph = model.main
    copy = len(graph.operands)
    operands = (*graph.operands, graph.operands[graph.outputs[0]])
    doubled = replace(graph.operations[0], type=Op.MUL, outputs=(copy,))
    return replace(
        model,
        main=replace(
            graph,
            operands=operands,
            operations=(*graph.operations, doubled),
            outputs=(*graph.outputs, copy),
        ),
        state=(StateVariable(name="product", initial=np.full((2, 3), 2, np.float32)),),
    )


def test_state_in_a_compound_plan() -> None:
    compilation = compiled(accumulator(), only("adder", Op.ADD), only("multiplier", Op.MUL))
    assert not compilation.plan.is_simple
    product = np.full((2, 3), 2, np.float32)
    factor = np.full((2, 3), 3, np.float32)
    for _ in range(3):
        (total,) = compilation.run(factor)
        np.testing.assert_array_equal(total, product + 3)
        product = product * 3
        np.testing.assert_array_equal(compilation.state.value("product"), product)


def two_devices(model: nd.Model) -> nd.Compilation:
    return compiled(model, only("a", Op.TANH, Op.ABS), only("b", Op.RELU))


def test_where_the_time_went() -> None:
    compilation = two_devices(chain(Op.TANH, Op.RELU, Op.ABS))
    request = request_for([VALUE], [np.zeros((2, 3), np.float32)])
    executor = plan_executor(compilation.plan)
    assert executor.execute(request, ExecuteOptions()).step_durations == ()
    result = executor.execute(request, ExecuteOptions(measure=True))
    assert [(d.step, d.device, d.runs) for d in result.step_durations] == [
        (0, "a", 1),
        (1, "b", 1),
        (2, "a", 1),
    ]
    for duration in result.step_durations:
        assert duration.compute_ns is not None
        assert duration.overhead_ns is not None
        assert duration.total_ns >= duration.compute_ns + duration.overhead_ns
    assert result.timing.on_device_ns == sum(d.compute_ns or 0 for d in result.step_durations)
    assert (result.timing.on_device_ns or 0) <= (result.timing.in_driver_ns or 0)
    simple = compiled(chain(Op.TANH), cpu())
    result = plan_executor(simple.plan).execute(request, ExecuteOptions(measure=True))
    assert [(d.step, d.device, d.runs) for d in result.step_durations] == [(0, "cpu", 1)]


def test_a_device_without_a_clock() -> None:
    def mute(request: Request, result: ExecutionResult) -> ExecutionResult:
        return replace(result, timing=Timing())

    compilation = compiled(chain(Op.TANH, Op.RELU), Counting("a", [Op.TANH], mute), only("b", Op.RELU))
    request = request_for([VALUE], [np.zeros((2, 3), np.float32)])
    result = plan_executor(compilation.plan).execute(request, ExecuteOptions(measure=True))
    assert result.timing == Timing()
    first, second = result.step_durations
    assert (first.compute_ns, first.overhead_ns) == (None, None)
    assert first.total_ns > 0
    assert second.compute_ns is not None


def test_a_deadline_that_passes_between_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    compilation = two_devices(chain(Op.TANH, Op.RELU, Op.ABS))
    request = request_for([VALUE], [np.zeros((2, 3), np.float32)])
    now = 1000.0
    ran: list[str] = []

    def runner(step: ExecutionStep, request: Request, options: ExecuteOptions) -> ExecutionResult:
        nonlocal now
        assert options.deadline_s == 1000.5
        ran.append(step.device.name)
        now += 0.3
        return step.prepared_model.execute(request, replace(options, deadline_s=None))

    monkeypatch.setattr("neurald.runtime.execution.program.compound_executor.time.monotonic", lambda: now)
    with pytest.raises(
        nd.Error, match=r"before step 2 on [ab], at position 2 of the plan.*step [01] on [ab]"
    ) as caught:
        plan_executor(compilation.plan).execute(request, ExecuteOptions(deadline_s=1000.5), runner=runner)
    assert caught.value.code is Code.MISSED_DEADLINE_TRANSIENT
    assert ran == ["a", "b"]


def test_a_cancelled_execution_stops_before_the_next_step() -> None:
    compilation = two_devices(chain(Op.TANH, Op.RELU, Op.ABS))
    request = request_for([VALUE], [np.zeros((2, 3), np.float32)])
    cancellation = Cancellation()
    ran: list[str] = []

    def runner(step: ExecutionStep, request: Request, options: ExecuteOptions) -> ExecutionResult:
        ran.append(step.device.name)
        cancellation.cancel()
        return step.prepared_model.execute(request, replace(options, cancellation=None))

    options = ExecuteOptions(cancellation=cancellation)
    with pytest.raises(nd.Error, match="cancelled"):
        plan_executor(compilation.plan).execute(request, options, runner=runner)
    assert ran == ["a"]


def test_memory_is_used_again_by_the_next_execution_only() -> None:
    device = Counting("a", [Op.TANH, Op.ABS])
    compilation = compiled(chain(Op.TANH, Op.RELU, Op.ABS), device, only("b", Op.RELU))

    def arena(request: Request, argument: Argument) -> Any:
        assert argument.pool is not None
        return request.pools[argument.pool]

    for _ in range(2):
        compilation.run(VALUE)
    first, last, again, _ = device.requests
    assert arena(first, first.outputs[0]) is arena(again, again.outputs[0])
    assert arena(first, first.outputs[0]) is arena(last, last.inputs[0])


def test_executions_at_the_same_time_do_not_meet() -> None:
    compilation = split_pads(pads())
    wrong: list[int] = []

    def work(number: int) -> None:
        value = VALUE * number
        padding = amounts(number, 0, 0, number)
        for _ in range(20):
            (result,) = compilation.run(value, padding, padding)
            expected = np.pad(value, ((number, 0), (0, number))) * 2
            if result.tobytes() != expected.tobytes():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_steps_of_a_daemon_share_memory_with_those_here() -> None:
    with running_daemon(driver="cpu") as address:
        remote = nd.connect(address)
        model = chain(Op.TANH, Op.RELU, Op.ABS)
        builder = nd.CompilationBuilder(model, [remote, only("b", Op.RELU, performance=0.1)])
        builder.set_caching(None)
        compilation = builder.finish()
        assert [step.device.name for step in compilation.plan.steps] == [remote.name, "b", remote.name]
        body = compilation.plan.body
        assert isinstance(body, CompoundBody)
        assert body.shares_memory
        assert_same_as_on_cpu(model, compilation, VALUE)
        model = pads()
        compilation = compiled(model, remote, only("padder", Op.PAD, performance=0.1))
        for padding in (amounts(1, 2, 3, 4), amounts(300, 2, 3, 400)):
            assert_same_as_on_cpu(model, compilation, VALUE, padding, padding)


class Remote(Counting):
    """A device that reports to be remote."""

    is_remote = True


def test_what_a_remote_device_reads_more_than_once_is_shared_once() -> None:
    """In x -> TANH(x), RELU(TANH(x)), ABS(x) the input is read twice, and the first output is read
    again.
    """
    builder = nd.ModelBuilder()
    source, first, second, third, between = (builder.add_operand(FLOAT, (0, 3)) for _ in range(5))
    builder.add_operation(Op.TANH, [source], [first])
    builder.add_operation(Op.RELU, [first], [between])
    builder.add_operation(Op.LOGISTIC, [between], [second])
    builder.add_operation(Op.ABS, [source], [third])
    builder.identify_inputs_and_outputs([source], [first, second, third])
    model = builder.finish()
    device = Remote("remote", [Op.TANH, Op.LOGISTIC])
    other = Remote("other", [Op.RELU, Op.ABS])
    compilation = compiled(model, device, other)
    assert_same_as_on_cpu(model, compilation, VALUE)
    remote = {step.operations: step for step in compilation.plan.steps}
    assert len(remote) >= 3
    for request in (*device.requests, *other.requests):
        for argument in request.inputs:
            assert argument.pool is not None
            assert isinstance(request.pools[argument.pool], SharedMemory)
    outputs = [np.zeros((2, 3), np.float32), np.zeros((2, 3), np.float32), np.zeros((2, 3), np.float32)]
    outputs[0] = outputs[0][:1]
    execution = nd.Execution(compilation)
    execution.set_input(0, VALUE)
    for position, output in enumerate(outputs):
        execution.set_output(position, output)
    with pytest.raises(nd.OutputInsufficientSize) as caught:
        execution.compute()
    assert caught.value.dimensions == ((2, 3),) * 3


def test_what_comes_again_is_the_same_request() -> None:
    """This applies to iterations of a loop and to executions that compute again, as long as these
    live.
    """
    device = Counting("counting", [Op.ADD, Op.MUL, Op.LESS])
    compilation = compiled(loop(below(9.0, extra=1), counting(1.0, 2.0)), cpu(), device)
    execution = nd.Execution(compilation, reusable=True)
    counter, value = np.zeros(1, np.float32), np.ones(2, np.float32)
    results = np.empty(1, np.float32), np.empty(2, np.float32)
    for number, array in enumerate((counter, value)):
        execution.set_input(number, array)
        execution.set_output(number, results[number])
    for turn in range(3):
        counter[:], value[:] = turn, 3
        execution.compute()
        assert results[0] == 9
        np.testing.assert_array_equal(results[1], np.full(2, 3 * 2.0 ** (9 - turn)))
    assert len(device.requests) == sum(2 * turns + 1 for turns in (9, 8, 7))
    distinct = list({id(request): weakref.ref(request) for request in device.requests}.values())
    assert len(distinct) <= 8
    device.requests.clear()
    del execution
    gc.collect()
    assert [each() for each in distinct] == [None] * len(distinct)


def test_a_loop_on_a_remote_device_shares_what_never_changes() -> None:
    model = loop(below(5, extra=1), counting(1, 2))
    device = Remote("remote", [Op.ADD, Op.MUL, Op.LESS])
    compilation = compiled(model, cpu(), device)
    floats = [np.zeros(1, np.float32), np.ones(2, np.float32)]
    assert_same_as_on_cpu(model, compilation, *floats)
    assert len(device.requests) == 2 * 5 + 1


def test_strings_between_steps() -> None:
    builder = nd.ModelBuilder()
    text = nd.OperandType.TENSOR_STRING
    source, multiples = builder.add_operand(text, (2, 2)), builder.add_operand(INT, (2,))
    begin, size = builder.add_operand(INT, (2,)), builder.add_operand(INT, (2,))
    tiled, result = builder.add_operand(text, (0, 0)), builder.add_operand(text, (0, 0))
    builder.add_operation(Op.TFLITE_TILE, [source, multiples], [tiled])
    builder.add_operation(Op.TFLITE_SLICE, [tiled, begin, size], [result])
    builder.identify_inputs_and_outputs([source, multiples, begin, size], [result])
    model = builder.finish()
    compilation = compiled(model, only("tiler", Op.TFLITE_TILE), only("slicer", Op.TFLITE_SLICE))
    assert len(compilation.plan.steps) == 2
    words = np.array([[b"ab", b"\xff\0"], [b"", b"x" * 1000]], object)
    for times in ((1, 1), (3, 20), (1, 2)):
        arrays = [words, np.array(times, np.int32), np.array([1, 0], np.int32), np.array([1, 2], np.int32)]
        (found,) = compilation.run(*arrays)
        assert found.tolist() == np.tile(words, times)[1:2, :2].tolist()


def test_late_writes_of_a_failed_driver_have_no_effect() -> None:
    """Its memory is no longer used once another device has taken over, in this execution and in
    later ones.
    """
    late: list[memoryview] = []
    failed = True

    def fail(request: Request, result: ExecutionResult) -> ExecutionResult:
        if not failed:
            return result
        late.extend(pool.view() for pool in request.pools if isinstance(pool, SharedMemory))
        raise OpFailed("no answer in time")

    def write_late(request: Request, result: ExecutionResult) -> ExecutionResult:
        for view in late:
            np.asarray(view)[...] = 0xFF
        return result

    model = chain(Op.TANH, Op.RELU, Op.ABS, Op.LOGISTIC)
    slow = Remote("slow", [Op.RELU], fail)
    writing = Remote("writing", [Op.TANH, Op.ABS, Op.LOGISTIC], write_late)
    compilation = compiled(model, slow, writing)
    recovery = Recovery(model, compilation.plan.steps, Preparer(PrepareOptions()), may_fall_back=True)
    (expected,) = compiled(model, cpu()).run(VALUE)
    executor = plan_executor(compilation.plan)
    for _ in range(3):
        result = np.zeros((2, 3), np.float32)
        outcome = executor.execute(request_for([VALUE], [result]), ExecuteOptions(), runner=recovery.run)
        assert outcome.is_sufficient
        assert late
        np.testing.assert_array_equal(result, expected)
        failed = False


def branches() -> nd.Model:
    """Builds x -> TANH(x) + LOGISTIC(x), of known sizes."""
    builder = nd.ModelBuilder()
    x, a, b, y = (builder.add_operand(FLOAT, (2, 3)) for _ in range(4))
    activation = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(activation, 0)
    builder.add_operation(Op.TANH, [x], [a])
    builder.add_operation(Op.LOGISTIC, [x], [b])
    builder.add_operation(Op.ADD, [a, b, activation], [y])
    builder.identify_inputs_and_outputs([x], [y])
    return builder.finish()


@pytest.mark.parametrize("is_overlapping", [True, False])
def test_a_request_that_comes_again_needs_no_search_for_values(
    is_overlapping: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [0]

    class Counted(Temporaries):
        def __init__(self, *arguments: Any) -> None:
            made[0] += 1
            super().__init__(*arguments)

    monkeypatch.setattr(compound_executor, "Temporaries", Counted)
    tanh, logistic = Counting("tanh", [Op.TANH]), Counting("logistic", [Op.LOGISTIC])
    compilation = compiled(branches(), tanh, logistic, cpu())
    body = compilation.plan.body
    assert isinstance(body, CompoundBody)
    assert body.waits_for
    body = body if is_overlapping else replace(body, waits_for=())
    executor = plan_executor(ExecutionPlan(compilation.model, body))
    source, result = VALUE.copy(), np.empty_like(VALUE)
    request = request_for([source], [result])
    for number in range(4):
        source[...] = VALUE * number
        found = executor.execute(request, ExecuteOptions(measure=True))
        np.testing.assert_allclose(result, np.tanh(source) + 1 / (1 + np.exp(-source)), rtol=1e-5)
        assert found.output_shapes == (OutputShape(dimensions=(2, 3)),)
        assert [each.runs for each in found.step_durations] == [1, 1, 1]
    assert made == [1]
    assert len({id(each) for each in tanh.requests}) == 1
    other = np.empty_like(VALUE)
    executor.execute(request_for([source], [other]), ExecuteOptions())
    assert np.array_equal(other, result)
    assert made == [2]


def test_a_request_that_comes_again_keeps_its_limits() -> None:
    compilation = compiled(branches(), only("tanh", Op.TANH), only("logistic", Op.LOGISTIC), cpu())
    executor = plan_executor(compilation.plan)
    request = request_for([VALUE], [np.empty_like(VALUE)])
    for _ in range(2):
        executor.execute(request, ExecuteOptions())
    cancellation = Cancellation()
    cancellation.cancel()
    with pytest.raises(nd.Error, match="the execution was cancelled before step 0 on"):
        executor.execute(request, ExecuteOptions(cancellation=cancellation))


def test_memory_of_the_declared_size_cannot_be_too_small() -> None:
    lies = [False]

    def lie(_: Request, result: ExecutionResult) -> ExecutionResult:
        return (
            ExecutionResult(output_shapes=(OutputShape(dimensions=None, sufficient=False),))
            if lies[0]
            else result
        )

    compilation = compiled(branches(), Counting("tanh", [Op.TANH], lie), only("logistic", Op.LOGISTIC), cpu())
    executor = plan_executor(compilation.plan)
    request = request_for([VALUE], [np.empty_like(VALUE)])
    executor.execute(request, ExecuteOptions())
    lies[0] = True
    with pytest.raises(OpFailed, match="memory of the declared size is too small"):
        executor.execute(request, ExecuteOptions())
