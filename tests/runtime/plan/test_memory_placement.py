"""Plans of several steps allocate device memory where it is used, also if a driver dies."""

import os
import signal
from typing import Any

import numpy as np
import pytest
from support.daemon.processes import daemon_process
from support.devices.buffers import KeepingDevice
from support.errors import error_code
from support.models.small import FLOAT

import neurald as nd
from neurald.hal.memory.pool import HostMemory
from neurald.hal.rpc.client.device import connect
from neurald.runtime.execution.binding.device_memory import DeviceMemory

SHAPE = (2, 3)
VALUE = np.arange(6, dtype=np.float32).reshape(SHAPE)
ONES = np.ones(SHAPE, np.float32)
Code = nd.ResultCode
Op = nd.OperationType


def operands(builder: nd.ModelBuilder, count: int) -> list[int]:
    return [builder.add_operand(FLOAT, SHAPE) for _ in range(count)]


def activation(builder: nd.ModelBuilder) -> int:
    index = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(index, 0)
    return index


def two_step_model() -> nd.Model:
    """Builds `output = (first + second) * second`."""
    builder = nd.ModelBuilder()
    first, second, between, output = operands(builder, 4)
    none = activation(builder)
    builder.add_operation(Op.ADD, [first, second, none], [between])
    builder.add_operation(Op.MUL, [between, second, none], [output])
    builder.identify_inputs_and_outputs([first, second], [output])
    return builder.finish()


@pytest.fixture
def adder() -> KeepingDevice:
    return KeepingDevice("adder", lambda kind: kind is Op.ADD)


@pytest.fixture
def multiplier() -> KeepingDevice:
    return KeepingDevice("multiplier", lambda kind: kind is Op.MUL)


@pytest.fixture
def compilation(adder: KeepingDevice, multiplier: KeepingDevice) -> nd.Compilation:
    compilation = nd.CompilationBuilder(two_step_model(), [adder, multiplier]).finish()
    assert [step.device for step in compilation.plan.steps] == [adder, multiplier]
    return compilation


def input_memory(compilation: nd.Compilation, index: int) -> DeviceMemory:
    return nd.MemoryDesc().add_input_role(compilation, index).finish().allocate()


def output_memory(compilation: nd.Compilation) -> DeviceMemory:
    return nd.MemoryDesc().add_output_role(compilation, 0).finish().allocate()


def content(memory: DeviceMemory) -> "np.ndarray[Any, Any]":
    result = np.full(SHAPE, np.nan, np.float32)
    nd.Memory.copy(memory, HostMemory(result))
    return result


def test_roles_of_one_step_each(
    compilation: nd.Compilation, adder: KeepingDevice, multiplier: KeepingDevice
) -> None:
    source, target = input_memory(compilation, 0), output_memory(compilation)
    assert source.memory is adder.buffers[0]
    assert target.memory is multiplier.buffers[0]
    ((entry,), (exit_,)) = adder.descriptions[0].input_roles, multiplier.descriptions[0].output_roles
    assert entry.prepared_model is compilation.plan.steps[0].prepared_model
    assert exit_.prepared_model is compilation.plan.steps[1].prepared_model
    nd.Memory.copy(HostMemory(VALUE), source)
    execution = nd.Execution(compilation)
    execution.set_input_from_memory(0, source, 0, 0)
    execution.set_input(1, ONES * 2)
    execution.set_output_from_memory(0, target, 0, 0)
    execution.compute()
    assert np.array_equal(content(target), (VALUE + 2) * 2)


def test_a_role_that_steps_of_two_devices_share(
    compilation: nd.Compilation, adder: KeepingDevice, multiplier: KeepingDevice
) -> None:
    assert input_memory(compilation, 1).is_on_device
    for device in (adder, multiplier):
        (description,) = device.descriptions
        assert [len(description.input_roles), len(description.output_roles)] == [1, 0]


def test_several_steps_of_one_device() -> None:
    device = KeepingDevice("device", lambda kind: kind is Op.ADD)
    builder = nd.ModelBuilder()
    value, first, second, output = operands(builder, 4)
    none = activation(builder)
    builder.add_operation(Op.ADD, [value, value, none], [first])
    builder.add_operation(Op.RELU, [first], [second])
    builder.add_operation(Op.ADD, [second, value, none], [output])
    builder.identify_inputs_and_outputs([value], [output])
    compilation = nd.CompilationBuilder(
        builder.finish(), [device, KeepingDevice("relu", lambda k: k is Op.RELU)]
    )
    finished = compilation.finish()
    memory = input_memory(finished, 0)
    assert memory.memory is device.buffers[0]
    assert len(device.descriptions[0].input_roles) == 2
    nd.Memory.copy(HostMemory(VALUE), memory)
    result = np.zeros_like(VALUE)
    execution = nd.Execution(finished)
    execution.set_input_from_memory(0, memory, 0, 0)
    execution.set_output(0, result)
    execution.compute()
    assert np.array_equal(result, VALUE * 3)


def test_values_that_the_plan_reads_stay_on_the_host(adder: KeepingDevice) -> None:
    def branch(operation: nd.OperationType) -> nd.Model:
        builder = nd.ModelBuilder()
        value, output = operands(builder, 2)
        builder.add_operation(operation, [value, value, activation(builder)], [output])
        builder.identify_inputs_and_outputs([value], [output])
        return builder.finish()

    builder = nd.ModelBuilder()
    condition = builder.add_operand(nd.OperandType.TENSOR_BOOL8, (1,))
    value, output = operands(builder, 2)
    graphs = [builder.add_operand(nd.OperandType.MODEL) for _ in range(2)]
    for graph, model in zip(graphs, (branch(Op.ADD), branch(Op.ADD)), strict=True):
        builder.set_operand_value_from_model(graph, model)
    builder.add_operation(Op.IF, [condition, *graphs, value], [output])
    builder.identify_inputs_and_outputs([condition, value], [output])
    compilation = nd.CompilationBuilder(builder.finish(), [adder, nd.devices()[0]]).finish()
    assert error_code(input_memory, compilation, 0) is Code.OP_FAILED
    source, target = input_memory(compilation, 1), output_memory(compilation)
    assert source.is_on_device
    assert target.is_on_device
    assert len(adder.descriptions[0].input_roles) == 2
    nd.Memory.copy(HostMemory(VALUE), source)
    for holds in (True, False):
        execution = nd.Execution(compilation)
        execution.set_input(0, np.array([holds]))
        execution.set_input_from_memory(1, source, 0, 0)
        execution.set_output_from_memory(0, target, 0, 0)
        execution.compute()
        assert np.array_equal(content(target), VALUE * 2)


# A driver that dies


@pytest.mark.parametrize("explicit", [False, True])
def test_other_memory_in_place_of_what_died_with_its_driver(
    explicit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with daemon_process("support.devices.buffers:create") as (process, address):
        remote = connect(address)
        monkeypatch.setattr("neurald.runtime.compilation_builder.devices", lambda: (nd.devices()[0], remote))
        model = two_step_model()
        compilation = nd.CompilationBuilder(model, [remote] if explicit else None).finish()
        assert [step.device for step in compilation.plan.steps] == [remote]
        source, target = input_memory(compilation, 0), output_memory(compilation)
        assert source.is_on_device
        assert target.is_on_device

        def run(*, from_array: bool = False) -> None:
            execution = nd.Execution(compilation)
            if from_array:
                execution.set_input(0, VALUE)
            else:
                execution.set_input_from_memory(0, source, 0, 0)
            execution.set_input(1, ONES)
            execution.set_output_from_memory(0, target, 0, 0)
            execution.compute()

        nd.Memory.copy(HostMemory(VALUE), source)
        run()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        if not explicit:
            run(from_array=True)
            assert np.array_equal(content(target), VALUE + 1)
        # The value of the input was lost with the daemon.
        assert error_code(run) in (Code.OP_FAILED, Code.DEAD_OBJECT)
        nd.Memory.copy(HostMemory(VALUE), source)
        assert not source.is_on_device
        if explicit:
            assert error_code(run) is Code.DEAD_OBJECT
        else:
            run()
            assert np.array_equal(content(target), VALUE + 1)
        remote.close()
