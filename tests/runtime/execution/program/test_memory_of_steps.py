"""Memory that steps share, also with devices in other processes."""

from typing import Any

import numpy as np
import pytest
from support.daemon.processes import running_daemon
from support.devices.recording import RecordingDevice, RemoteRecordingDevice
from support.models.chains import unary_chain
from support.models.control_flow import below, counting, loop
from support.models.pads import amounts, pads
from support.models.plans import assert_same_as_on_cpu, compiled, cpu, only, request_for
from support.models.small import FLOAT

import neurald as nd
from neurald.hal.device import ExecuteOptions, ExecutionResult, PrepareOptions
from neurald.hal.errors import OpFailed
from neurald.hal.memory.pool import SharedMemory
from neurald.hal.model.request import Argument, Request
from neurald.runtime.execution.program.executor import plan_executor
from neurald.runtime.execution.recovery.recovery import Recovery
from neurald.runtime.plan.plan import CompoundBody
from neurald.runtime.plan.preparer import Preparer

Op = nd.OperationType
VALUE = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


def test_memory_is_used_again_by_the_next_execution_only() -> None:
    device = RecordingDevice("a", [Op.TANH, Op.ABS])
    compilation = compiled(unary_chain(Op.TANH, Op.RELU, Op.ABS), device, only("b", Op.RELU))

    def arena(request: Request, argument: Argument) -> Any:
        assert argument.pool is not None
        return request.pools[argument.pool]

    for _ in range(2):
        compilation.run(VALUE)
    first, last, again, _ = device.requests
    assert arena(first, first.outputs[0]) is arena(again, again.outputs[0])
    assert arena(first, first.outputs[0]) is arena(last, last.inputs[0])


def test_steps_of_a_daemon_share_memory_with_those_here() -> None:
    with running_daemon(driver="cpu") as address:
        remote = nd.connect(address)
        model = unary_chain(Op.TANH, Op.RELU, Op.ABS)
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
    device = RemoteRecordingDevice("remote", [Op.TANH, Op.LOGISTIC])
    other = RemoteRecordingDevice("other", [Op.RELU, Op.ABS])
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


def test_a_loop_on_a_remote_device_shares_what_never_changes() -> None:
    model = loop(below(5, extra=1), counting(1, 2))
    device = RemoteRecordingDevice("remote", [Op.ADD, Op.MUL, Op.LESS])
    compilation = compiled(model, cpu(), device)
    floats = [np.zeros(1, np.float32), np.ones(2, np.float32)]
    assert_same_as_on_cpu(model, compilation, *floats)
    assert len(device.requests) == 2 * 5 + 1


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

    model = unary_chain(Op.TANH, Op.RELU, Op.ABS, Op.LOGISTIC)
    slow = RemoteRecordingDevice("slow", [Op.RELU], fail)
    writing = RemoteRecordingDevice("writing", [Op.TANH, Op.ABS, Op.LOGISTIC], write_late)
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
