"""Memory that devices allocate for declared roles: description, allocation, fallback, use and
copies.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.daemon.processes import running_daemon
from support.daemon.traffic import Traffic
from support.devices.buffers import KeepingDevice
from support.devices.misbehaving import SampleDevice
from support.errors import error_code
from support.models.control_flow import below, counting, loop
from support.models.small import FLOAT, add_model
from support.sweeps import sweep

import neurald as nd
from neurald.hal.device import BufferDescription
from neurald.hal.errors import OpFailed
from neurald.hal.memory.pool import HostMemory, Memory, SharedMemory
from neurald.hal.process.address import Address
from neurald.hal.rpc.client.device import RemoteDevice, connect
from neurald.hal.rpc.server.server import DeviceServer
from neurald.runtime.execution.binding.device_memory import DeviceMemory

SHAPE = (2, 3)
BYTES = 24
VALUE = np.arange(6, dtype=np.float32).reshape(SHAPE)
ONES = np.ones(SHAPE, np.float32)
Code = nd.ResultCode


def compiled(device: Any, dimensions: Any = SHAPE) -> nd.Compilation:
    return nd.CompilationBuilder(add_model(dimensions), [device]).finish()


def cpu() -> nd.Device:
    return nd.devices()[0]


def run(compilation: nd.Compilation, first: Any, second: Any, output: Any, dimensions: Any = None) -> None:
    """Computes an addition whose arguments are arrays or device memories."""
    execution = nd.Execution(compilation)
    for index, value in enumerate((first, second)):
        if isinstance(value, Memory):
            execution.set_input_from_memory(index, value, 0, 0, dimensions)
        else:
            execution.set_input(index, value)
    if isinstance(output, Memory):
        execution.set_output_from_memory(0, output, 0, 0)
    else:
        execution.set_output(0, output)
    execution.compute()


def both_ends(compilation: nd.Compilation) -> DeviceMemory:
    return nd.MemoryDesc().add_input_role(compilation, 0).add_output_role(compilation, 0).finish().allocate()


def content(memory: Memory, shape: Any = SHAPE) -> "np.ndarray[Any, Any]":
    result = np.full(shape, np.nan, np.float32)
    nd.Memory.copy(memory, HostMemory(result))
    return result


@pytest.fixture
def keeping() -> KeepingDevice:
    return KeepingDevice()


@pytest.fixture
def compilation(keeping: KeepingDevice) -> nd.Compilation:
    return compiled(keeping)


# Describing


def test_what_a_role_must_be(compilation: nd.Compilation) -> None:
    desc = nd.MemoryDesc()
    for add in (desc.add_input_role, desc.add_output_role):
        assert error_code(add, None, 0, 1.0) is Code.UNEXPECTED_NULL
        assert error_code(add, nd.CompilationBuilder(add_model()), 0, 1.0) is Code.BAD_STATE
        for index in (-1, 2):
            assert error_code(add, compilation, index, 1.0) is Code.BAD_DATA
        for probability in (0.0, -0.5, 1.5, float("nan")):
            assert error_code(add, compilation, 0, probability) is Code.BAD_DATA
    assert error_code(desc.finish) is Code.BAD_DATA
    desc.add_input_role(compilation, 0, 1.0)
    assert error_code(desc.add_input_role, compilation, 0, 0.5) is Code.BAD_DATA
    desc.add_output_role(compilation, 0, 0.5).add_input_role(compilation, 1, 0.5).finish()


def test_a_finished_description_is_closed(compilation: nd.Compilation) -> None:
    desc = nd.MemoryDesc().add_input_role(compilation, 0)
    assert error_code(desc.allocate) is Code.BAD_STATE
    assert desc.finish() is desc
    assert error_code(desc.finish) is Code.BAD_STATE
    assert error_code(desc.add_input_role, compilation, 1, 1.0) is Code.BAD_STATE
    assert error_code(desc.add_output_role, compilation, 0, 1.0) is Code.BAD_STATE
    assert error_code(desc.set_dimensions, SHAPE) is Code.BAD_STATE
    assert desc.allocate() is not desc.allocate()


def test_roles_of_a_memory_agree(compilation: nd.Compilation) -> None:
    def with_quantization(
        scale: float, zero_point: int, kind: Any = nd.OperandType.TENSOR_QUANT8_ASYMM
    ) -> Any:
        builder = nd.ModelBuilder()
        ends = [builder.add_operand(kind, SHAPE, scale=scale, zero_point=zero_point) for _ in range(2)]
        builder.add_operation(nd.OperationType.RELU, ends[:1], ends[1:])
        builder.identify_inputs_and_outputs(ends[:1], ends[1:])
        return nd.CompilationBuilder(builder.finish(), [cpu()]).finish()

    first = with_quantization(0.5, 3)
    desc = nd.MemoryDesc().add_input_role(first, 0)
    others = (
        compilation,
        with_quantization(0.25, 3),
        with_quantization(0.5, 4),
        with_quantization(0.5, 3, nd.OperandType.TENSOR_QUANT8_ASYMM_SIGNED),
    )
    for other in others:
        assert error_code(desc.add_input_role, other, 0, 1.0) is Code.BAD_DATA
    desc.add_input_role(with_quantization(0.5, 3), 0)


def test_dimensions_are_merged(keeping: KeepingDevice) -> None:
    rows, columns = compiled(keeping, (2, 0)), compiled(keeping, (0, 3))
    desc = nd.MemoryDesc().add_input_role(rows, 0).add_output_role(columns, 0)
    for wrong in ((3, 3), (2, 4), (2, 3, 1)):
        assert error_code(desc.set_dimensions, wrong) is Code.BAD_DATA
    assert error_code(desc.add_input_role, compiled(keeping, (2, 4)), 0, 1.0) is Code.BAD_DATA
    desc.set_dimensions((0, 0)).set_dimensions(()).set_dimensions(SHAPE)
    assert error_code(desc.set_dimensions, (2, 4)) is Code.BAD_DATA
    desc.finish().allocate()
    assert keeping.descriptions[0].dimensions == SHAPE
    early = nd.MemoryDesc().set_dimensions((3, 3))
    assert error_code(early.add_input_role, rows, 0, 1.0) is Code.BAD_DATA


def test_a_scalar_has_no_dimensions() -> None:
    builder = nd.ModelBuilder()
    value, output = (builder.add_operand(FLOAT, SHAPE) for _ in range(2))
    activation = builder.add_operand(nd.OperandType.INT32)
    builder.add_operation(nd.OperationType.ADD, [value, value, activation], [output])
    builder.identify_inputs_and_outputs([value, activation], [output])
    compilation = nd.CompilationBuilder(builder.finish(), [cpu()]).finish()
    desc = nd.MemoryDesc().add_input_role(compilation, 1)
    assert error_code(desc.set_dimensions, (1,)) is Code.BAD_DATA
    memory = desc.finish().allocate()
    nd.Memory.copy(HostMemory(np.array([1], np.int32)), memory)
    result = np.ones(SHAPE, np.float32)
    execution = nd.Execution(compilation)
    execution.set_input(0, -VALUE)
    execution.set_input_from_memory(1, memory, 0, 0)
    execution.set_output(0, result)
    execution.compute()
    assert not result.any()


# Allocating


def no_such_memory(description: BufferDescription) -> Any:
    raise OpFailed("the device offers no memory")


def host_memory(description: BufferDescription) -> Any:
    return HostMemory(bytearray(BYTES))


def nothing(description: BufferDescription) -> Any:
    return None


def something_else(description: BufferDescription) -> Any:
    return "memory"


@sweep("explicit", [True, False])
@sweep("answer", [None, host_memory, no_such_memory, nothing, something_else])
def test_allocation(
    explicit: bool, answer: Callable[[BufferDescription], Any] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = KeepingDevice()
    if answer is not None:
        monkeypatch.setattr(device, "allocate", answer)
    monkeypatch.setattr("neurald.runtime.compilation_builder.devices", lambda: (cpu(), device))
    compilation = nd.CompilationBuilder(add_model(SHAPE), [device] if explicit else None).finish()
    assert compilation.plan.steps[0].device is device
    desc = nd.MemoryDesc().add_output_role(compilation, 0).finish()
    if answer in (None, host_memory):
        assert desc.allocate().is_on_device is (answer is None)
    elif explicit:
        assert error_code(desc.allocate) is Code.OP_FAILED
    else:
        memory = desc.allocate()
        assert isinstance(memory.memory, SharedMemory)
        assert memory.memory.size == BYTES


def test_the_host_needs_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("neurald.runtime.compilation_builder.devices", lambda: (cpu(),))
    compilation = nd.CompilationBuilder(add_model((0, 3))).finish()
    desc = nd.MemoryDesc().add_output_role(compilation, 0)
    assert error_code(desc.finish().allocate) is Code.OP_FAILED
    desc = nd.MemoryDesc().add_output_role(compilation, 0).set_dimensions(SHAPE)
    assert desc.finish().allocate().size == BYTES


def test_one_device_is_asked_for_all_roles(keeping: KeepingDevice) -> None:
    first, second = compiled(keeping), compiled(keeping)
    desc = nd.MemoryDesc().add_output_role(first, 0, 0.5).add_input_role(second, 1, 0.25)
    assert desc.finish().allocate().is_on_device
    (description,) = keeping.descriptions
    (output,), (entry,) = description.output_roles, description.input_roles
    assert output.prepared_model is first.plan.steps[0].prepared_model
    assert (output.index, output.probability) == (0, 0.5)
    assert entry.prepared_model is second.plan.steps[0].prepared_model
    assert (entry.index, entry.probability) == (1, 0.25)


def test_each_of_several_devices_is_asked_for_its_roles(keeping: KeepingDevice) -> None:
    other = KeepingDevice("other")
    first, second = compiled(keeping), compiled(other)
    desc = nd.MemoryDesc().add_output_role(first, 0).add_input_role(second, 1)
    assert desc.finish().allocate().is_on_device
    (written,), (read,) = keeping.descriptions, other.descriptions
    assert [each.prepared_model for each in written.output_roles] == [first.plan.steps[0].prepared_model]
    assert [each.prepared_model for each in read.input_roles] == [second.plan.steps[0].prepared_model]
    assert (written.input_roles, read.output_roles) == ((), ())


# Using


def test_an_output_becomes_an_input(compilation: nd.Compilation) -> None:
    memory = both_ends(compilation)
    result = np.zeros_like(VALUE)
    run(compilation, VALUE, ONES, memory)
    run(compilation, memory, ONES, result)
    assert np.array_equal(result, VALUE + 2)


def test_the_cpu_device_has_such_memory_too() -> None:
    compilation = compiled(cpu())
    memory = both_ends(compilation)
    assert not memory.is_on_device
    result = np.zeros_like(VALUE)
    run(compilation, VALUE, ONES, memory)
    run(compilation, memory, ONES, result)
    assert np.array_equal(result, VALUE + 2)
    assert error_code(memory.view) is Code.UNMAPPABLE


@sweep("device", [cpu, KeepingDevice, lambda: SampleDevice("plain")], ids=["cpu", "keeping", "sample"])
def test_only_declared_roles(device: Callable[[], Any]) -> None:
    compilation = compiled(device())
    memory = nd.MemoryDesc().add_input_role(compilation, 0).finish().allocate()
    execution = nd.Execution(compilation)
    assert error_code(execution.set_input_from_memory, 1, memory, 0, 0) is Code.BAD_DATA
    assert error_code(execution.set_output_from_memory, 0, memory, 0, 0) is Code.BAD_DATA
    for offset, length in ((0, BYTES), (4, 0), (4, BYTES - 4)):
        assert error_code(execution.set_input_from_memory, 0, memory, offset, length) is Code.BAD_DATA
    for dimensions in ((3, 2), (2, 3, 1), (0, 3)):
        assert error_code(execution.set_input_from_memory, 0, memory, 0, 0, dimensions) is Code.BAD_DATA
    other = nd.Execution(compiled(cpu()))
    assert error_code(other.set_input_from_memory, 0, memory, 0, 0) is Code.BAD_DATA
    execution.set_input_from_memory(0, memory, 0, 0, SHAPE)


def test_what_was_not_written_is_not_read(compilation: nd.Compilation) -> None:
    memory = both_ends(compilation)
    result = np.zeros_like(VALUE)
    assert error_code(run, compilation, memory, ONES, result) is Code.OP_FAILED
    assert error_code(content, memory) is Code.BAD_DATA
    nd.Memory.copy(HostMemory(VALUE), memory)
    run(compilation, memory, ONES, result)
    assert np.array_equal(result, VALUE + 1)


def test_a_failed_execution_leaves_no_value(keeping: KeepingDevice, compilation: nd.Compilation) -> None:
    memory = both_ends(compilation)
    run(compilation, VALUE, ONES, memory)
    keeping.fails = OpFailed("broken")
    assert error_code(run, compilation, VALUE, ONES, memory) is Code.OP_FAILED
    keeping.fails = None
    assert error_code(run, compilation, memory, ONES, np.zeros_like(VALUE)) is Code.OP_FAILED
    run(compilation, VALUE, ONES, memory)
    assert np.array_equal(content(memory), VALUE + 1)


def test_input_and_output_of_one_execution(compilation: nd.Compilation) -> None:
    memory = both_ends(compilation)
    run(compilation, VALUE, ONES, memory)
    assert error_code(run, compilation, memory, ONES, memory) is Code.BAD_DATA
    assert np.array_equal(content(memory), VALUE + 1)


def test_dimensions_are_remembered(keeping: KeepingDevice) -> None:
    compilation = compiled(keeping, (0, 0))
    memory = both_ends(compilation)
    run(compilation, VALUE, ONES, memory)
    assert memory.dimensions == SHAPE
    result = np.zeros_like(VALUE)
    wrong = np.ones((3, 2), np.float32)
    assert error_code(run, compilation, memory, wrong, np.zeros_like(wrong), (3, 2)) is Code.OP_FAILED
    run(compilation, memory, ONES, result, SHAPE)
    run(compilation, memory, ONES, result)
    assert np.array_equal(result, VALUE + 2)
    run(compilation, wrong, wrong, memory)
    assert memory.dimensions == (3, 2)
    assert error_code(run, compilation, memory, ONES, result, SHAPE) is Code.OP_FAILED


def test_reusable_executions_look_at_the_value_each_time(compilation: nd.Compilation) -> None:
    memory = both_ends(compilation)
    result = np.zeros_like(VALUE)
    execution = nd.Execution(compilation, reusable=True)
    execution.set_input_from_memory(0, memory, 0, 0)
    execution.set_input(1, ONES)
    execution.set_output(0, result)
    assert error_code(execution.compute) is Code.OP_FAILED
    for step in range(3):
        nd.Memory.copy(HostMemory(VALUE + step), memory)
        execution.compute()
        assert np.array_equal(result, VALUE + step + 1)


@pytest.mark.parametrize("mode", ["async", "fenced", "burst"])
def test_other_ways_to_compute(compilation: nd.Compilation, mode: str) -> None:
    memory = both_ends(compilation)
    result = np.zeros_like(VALUE)
    first, second = nd.Execution(compilation), nd.Execution(compilation)
    first.set_input(0, VALUE)
    first.set_output_from_memory(0, memory, 0, 0)
    second.set_input_from_memory(0, memory, 0, 0)
    second.set_output(0, result)
    for execution in (first, second):
        execution.set_input(1, ONES)
    if mode == "async":
        first.start_compute().wait()
        second.start_compute().wait()
    elif mode == "fenced":
        event = first.start_compute_with_dependencies([])
        second.start_compute_with_dependencies([event]).wait()
    else:
        with compilation.create_burst() as burst:
            first.compute(burst=burst)
            second.compute(burst=burst)
    assert np.array_equal(result, VALUE + 2)


def test_no_constant_lies_in_device_memory(compilation: nd.Compilation) -> None:
    builder = nd.ModelBuilder()
    constant = builder.add_operand(FLOAT, SHAPE)
    memory = both_ends(compilation)
    assert error_code(builder.set_operand_value_from_memory, constant, memory, 0, BYTES) is Code.BAD_DATA


# Falling back


def test_the_cpu_stands_in_for_a_failing_device(
    keeping: KeepingDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("neurald.runtime.compilation_builder.devices", lambda: (cpu(), keeping))
    compilation = nd.CompilationBuilder(add_model(SHAPE)).finish()
    memory = both_ends(compilation)
    assert memory.is_on_device
    keeping.fails = OpFailed("broken")
    run(compilation, VALUE, ONES, memory)
    result = np.zeros_like(VALUE)
    run(compilation, memory, ONES, result)
    assert np.array_equal(result, VALUE + 2)
    assert np.array_equal(content(memory), VALUE + 1)


def test_no_standing_in_for_outputs_of_unknown_size(
    keeping: KeepingDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("neurald.runtime.compilation_builder.devices", lambda: (cpu(), keeping))
    compilation = nd.CompilationBuilder(add_model((0, 3))).finish()
    memory = both_ends(compilation)
    keeping.fails = OpFailed("broken")
    assert error_code(run, compilation, VALUE, ONES, memory) is Code.OP_FAILED


# Copying


@sweep("source", [HostMemory, "shared"])
def test_host_to_device_to_device_to_host(source: Any) -> None:
    first, second = (both_ends(compiled(KeepingDevice(name))) for name in ("first", "second"))
    host = nd.Memory.allocate(BYTES) if source == "shared" else HostMemory(VALUE)
    host.view()[:] = VALUE.tobytes()
    nd.Memory.copy(host, first)
    nd.Memory.copy(first, second)
    assert np.array_equal(content(second), VALUE)
    nd.Memory.copy(first, first)
    assert np.array_equal(content(first), VALUE)


def test_copies_keep_dimensions() -> None:
    first, second = (compiled(KeepingDevice(name), (0, 3)) for name in ("first", "second"))
    source, target = both_ends(first), both_ends(second)
    run(first, VALUE, ONES, source)
    nd.Memory.copy(source, target)
    assert target.dimensions == SHAPE
    assert error_code(nd.Memory.copy, HostMemory(VALUE), target) is Code.BAD_DATA
    assert target.dimensions == SHAPE
    wider = both_ends(compiled(KeepingDevice("wider"), (0, 4)))
    assert error_code(nd.Memory.copy, source, wider) is Code.BAD_DATA


def test_refused_copies(compilation: nd.Compilation) -> None:
    memory = both_ends(compilation)
    for source, target in ((None, memory), (memory, None)):
        assert error_code(nd.Memory.copy, source, target) is Code.UNEXPECTED_NULL
    assert error_code(nd.Memory.copy, memory, HostMemory(bytearray(BYTES))) is Code.BAD_DATA
    assert error_code(nd.Memory.copy, memory, both_ends(compilation)) is Code.BAD_DATA
    for size in (BYTES - 1, BYTES + 1):
        assert error_code(nd.Memory.copy, HostMemory(bytes(size)), memory) is Code.BAD_DATA
    nd.Memory.copy(HostMemory(VALUE), memory)
    for host in (HostMemory(bytearray(BYTES + 1)), HostMemory(bytes(BYTES))):
        assert error_code(nd.Memory.copy, memory, host) is Code.BAD_DATA
    builder = nd.ModelBuilder()
    ends = [builder.add_operand(nd.OperandType.TENSOR_INT32, SHAPE) for _ in range(2)]
    builder.add_operation(nd.OperationType.ABS, ends[:1], ends[1:])
    builder.identify_inputs_and_outputs(ends[:1], ends[1:])
    integers = both_ends(nd.CompilationBuilder(builder.finish(), [KeepingDevice()]).finish())
    assert error_code(nd.Memory.copy, memory, integers) is Code.BAD_DATA
    assert np.array_equal(content(memory), VALUE)


def test_a_failed_copy_leaves_no_value(keeping: KeepingDevice, compilation: nd.Compilation) -> None:
    memory = both_ends(compilation)
    nd.Memory.copy(HostMemory(VALUE), memory)
    keeping.buffers[-1].fails = OpFailed("broken")
    assert error_code(nd.Memory.copy, HostMemory(VALUE), memory) is Code.OP_FAILED
    assert error_code(content, memory) is Code.BAD_DATA


# Behind a socket


@pytest.fixture(params=["unix", "tcp"])
def remote(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RemoteDevice]:
    place = f"unix://{tmp_path}/d.sock" if request.param == "unix" else "127.0.0.1:0"
    server = DeviceServer(KeepingDevice(), Address.parse(place))
    server.start()
    device = connect(str(server.address))
    yield device
    device.close()
    server.stop()


def test_nothing_passes_through_the_client(remote: RemoteDevice, traffic: Traffic) -> None:
    shape = (30, 30)
    first, second = compiled(remote, shape), compiled(remote, shape)
    a, b = (
        nd.MemoryDesc()
        .add_output_role(first, 0)
        .add_input_role(second, 0)
        .add_input_role(second, 1)
        .add_input_role(first, 0)
        .finish()
        .allocate()
        for _ in range(2)
    )
    c = nd.MemoryDesc().add_output_role(second, 0).finish().allocate()
    value = np.ones(shape, np.float32)
    nd.Memory.copy(HostMemory(value), a)
    small = np.ones(shape, np.float32)
    run(first, a, small, b)
    before = traffic.bytes_sent + traffic.bytes_received
    for _ in range(4):
        run(second, a, b, c)
    assert traffic.bytes_sent + traffic.bytes_received - before < 1600 < value.nbytes
    assert np.array_equal(content(c, shape), value * 3)


def test_between_two_daemons_and_the_host(remote: RemoteDevice, tmp_path: Path) -> None:
    server = DeviceServer(KeepingDevice("other"), Address.parse(f"unix://{tmp_path}/other.sock"))
    server.start()
    other = connect(str(server.address))
    source, target = both_ends(compiled(remote)), both_ends(compiled(other))
    nd.Memory.copy(HostMemory(VALUE), source)
    nd.Memory.copy(source, target)
    assert np.array_equal(content(target), VALUE)
    other.close()
    server.stop()


def test_memory_of_a_cancelled_execution_can_be_used_at_once() -> None:
    """A daemon may still be stopping an execution when the application already knows its end."""
    model = loop(below(400_000, extra=1), counting(1, 2))
    given = (np.zeros(1, np.float32), np.ones(2, np.float32))
    with running_daemon() as address, contextlib.closing(nd.connect(address)) as device:
        compilation = nd.CompilationBuilder(model, [device]).finish()
        description = nd.MemoryDesc().add_input_role(compilation, 1).add_output_role(compilation, 1).finish()
        source, target = description.allocate(), description.allocate()

        def bound() -> nd.Execution:
            made = nd.Execution(compilation)
            made.set_loop_timeout(15)
            made.set_input(0, given[0])
            made.set_input_from_memory(1, source, 0, 0)
            made.set_output(0, np.zeros(1, np.float32))
            made.set_output_from_memory(1, target, 0, 0)
            return made

        nd.Memory.copy(HostMemory(given[1]), source)
        for _ in range(40):
            stopped = bound()
            event = stopped.start_compute()
            time.sleep(0.002)
            stopped.cancel()
            with contextlib.suppress(nd.Cancelled):
                event.wait()
        bound().compute()
