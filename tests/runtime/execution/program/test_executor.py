"""Executors of compound plans: outputs, state, time, limits, and devices with invalid results."""

import numpy as np
import pytest
from support.devices.recording import RecordingDevice
from support.errors import error_code
from support.models.chains import unary_chain
from support.models.plans import assert_same_as_on_cpu, compiled, cpu, only, request_for
from support.models.small import add_model

import neurald as nd
from neurald.hal.device import ExecuteOptions, ExecutionResult, OutputShape, Timing
from neurald.hal.model.model import StateVariable
from neurald.hal.model.request import Request
from neurald.hal.records import replace
from neurald.hal.sync.cancellation import Cancellation
from neurald.runtime.execution.program.executor import plan_executor
from neurald.runtime.plan.plan import ExecutionStep

Op = nd.OperationType
INT = nd.OperandType.TENSOR_INT32
Code = nd.ResultCode
VALUE = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


def test_outputs_that_later_steps_read() -> None:
    model = unary_chain(Op.TANH, Op.RELU, Op.ABS, Op.LOGISTIC, between=True)
    compilation = compiled(model, only("a", Op.TANH, Op.ABS), only("b", Op.RELU, Op.LOGISTIC))
    assert len(compilation.plan.steps) == 4
    assert_same_as_on_cpu(model, compilation, VALUE)
    assert [(s.device.name, i) for s, i in compilation.plan.reading_roles_of_output(0)] == [("b", 0)]
    assert compilation.plan.reading_roles_of_output(3) == ()


def test_all_shapes_are_reported_if_an_early_output_is_too_small() -> None:
    model = unary_chain(Op.TANH, Op.RELU, Op.ABS, shape=(0, 3), between=True)
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
        model = unary_chain(Op.TANH, Op.RELU, Op.ABS, shape=shape)
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

    device = RecordingDevice("a", [Op.TANH, Op.ABS], wrong)
    compilation = compiled(unary_chain(Op.TANH, Op.RELU), device, only("b", Op.RELU))
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
    compilation = two_devices(unary_chain(Op.TANH, Op.RELU, Op.ABS))
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
    simple = compiled(unary_chain(Op.TANH), cpu())
    result = plan_executor(simple.plan).execute(request, ExecuteOptions(measure=True))
    assert [(d.step, d.device, d.runs) for d in result.step_durations] == [(0, "cpu", 1)]


def test_a_device_without_a_clock() -> None:
    def mute(request: Request, result: ExecutionResult) -> ExecutionResult:
        return replace(result, timing=Timing())

    compilation = compiled(
        unary_chain(Op.TANH, Op.RELU), RecordingDevice("a", [Op.TANH], mute), only("b", Op.RELU)
    )
    request = request_for([VALUE], [np.zeros((2, 3), np.float32)])
    result = plan_executor(compilation.plan).execute(request, ExecuteOptions(measure=True))
    assert result.timing == Timing()
    first, second = result.step_durations
    assert (first.compute_ns, first.overhead_ns) == (None, None)
    assert first.total_ns > 0
    assert second.compute_ns is not None


def test_a_deadline_that_passes_between_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    compilation = two_devices(unary_chain(Op.TANH, Op.RELU, Op.ABS))
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
    compilation = two_devices(unary_chain(Op.TANH, Op.RELU, Op.ABS))
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
