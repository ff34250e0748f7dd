"""Device memory: values stay there between executions, and are copied to the host only when they
are read.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.models.small import add_model

import neurald as nd
from neurald.drivers.opencl.device import OpenClDevice
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.runtime.buffer import OpenClBuffer
from neurald.hal.errors import BadData
from neurald.hal.memory.pool import HostMemory
from neurald.hal.process.address import Address
from neurald.hal.rpc.client.device import connect
from neurald.hal.rpc.server.server import DeviceServer

SHAPE = (4, 5)


@pytest.fixture(scope="session")
def device(opencl: DeviceContext) -> OpenClDevice:
    return OpenClDevice(opencl.facts)


def values(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random(SHAPE, np.float32)


def quantised_model() -> nd.Model:
    """Returns x + x in 8 bits."""
    builder = nd.ModelBuilder()
    kind = nd.OperandType.TENSOR_QUANT8_ASYMM_SIGNED
    first, total = (builder.add_operand(kind, SHAPE, scale=0.5, zero_point=-3) for _ in range(2))
    activation = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(activation, 0)
    builder.add_operation(nd.OperationType.ADD, [first, first, activation], [total])
    builder.identify_inputs_and_outputs([first], [total])
    return builder.finish()


def chained(device: nd.Device, dimensions: tuple[int, ...] = SHAPE) -> tuple[nd.Compilation, list[nd.Memory]]:
    """Returns a compilation of x + y, and three memories that can be x and its output."""
    compilation = nd.CompilationBuilder(add_model(dimensions), [device]).finish()
    memories: list[nd.Memory] = [
        nd.MemoryDesc()
        .add_input_role(compilation, 0)
        .add_output_role(compilation, 0)
        .set_dimensions(SHAPE)
        .finish()
        .allocate()
        for _ in range(3)
    ]
    return compilation, memories


def run(compilation: nd.Compilation, source: nd.Memory, added: np.ndarray, target: nd.Memory) -> None:
    execution = nd.Execution(compilation)
    execution.set_input_from_memory(0, source, 0, 0)
    execution.set_input(1, added)
    execution.set_output_from_memory(0, target, 0, 0)
    execution.compute()


def content(memory: nd.Memory) -> np.ndarray:
    found = np.zeros(SHAPE, np.float32)
    nd.Memory.copy(memory, HostMemory(found))
    return found


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Counts the copies of device buffers from and to the host."""
    counts = {"read": 0, "write": 0}

    def counted(name: str, copy: Callable[..., None]) -> Callable[..., None]:
        def method(buffer: OpenClBuffer, *arguments: Any) -> None:
            copy(buffer, *arguments)
            counts[name] += 1

        return method

    for name in counts:
        monkeypatch.setattr(OpenClBuffer, name, counted(name, getattr(OpenClBuffer, name)))
    return counts


def test_values_stay_on_the_device(device: OpenClDevice, copies: dict[str, int]) -> None:
    compilation, (a, b, c) = chained(device)
    x, y = values(0), values(1)
    nd.Memory.copy(HostMemory(x), a)
    before = dict(copies)
    run(compilation, a, y, b)
    run(compilation, b, y, c)
    run(compilation, c, y, a)
    assert dict(copies) == before
    np.testing.assert_allclose(content(a), x + y + y + y, rtol=1e-6)
    assert copies == {**before, "read": before["read"] + 1}


def test_state_stays_on_the_device_between_started_steps(
    device: OpenClDevice, copies: dict[str, int]
) -> None:
    """Each step reads what the one before has written; none is waited for."""
    compilation, (*states, _) = chained(device)
    nd.Memory.copy(HostMemory(values(0)), states[0])
    before = dict(copies)
    events: list[nd.Event] = []
    for number in range(6):
        step = nd.Execution(compilation)
        step.set_input_from_memory(0, states[number % 2], 0, 0)
        step.set_input(1, values(1))
        step.set_output_from_memory(0, states[1 - number % 2], 0, 0)
        events.append(step.start_compute_with_dependencies(events[-1:]))
    events[-1].wait()
    assert dict(copies) == before
    np.testing.assert_allclose(content(states[0]), values(0) + 6 * values(1), rtol=1e-6)


def test_unspecified_dimensions(device: OpenClDevice) -> None:
    compilation, (a, b, _) = chained(device, (0, 5))
    nd.Memory.copy(HostMemory(values(0)), a)
    run(compilation, a, values(1), b)
    np.testing.assert_allclose(content(b), values(0) + values(1), rtol=1e-6)


def test_outputs_of_8_bits_are_not_read_back(device: OpenClDevice, copies: dict[str, int]) -> None:
    compilation = nd.CompilationBuilder(quantised_model(), [device]).finish()
    memory = nd.MemoryDesc().add_output_role(compilation, 0).finish().allocate()
    x = np.arange(20, dtype=np.int8).reshape(SHAPE)
    execution = nd.Execution(compilation, reusable=True)
    execution.set_input(0, x)
    execution.set_output_from_memory(0, memory, 0, 0)
    before = copies["read"]
    for _ in range(3):
        execution.compute()
    assert copies["read"] == before
    found = np.zeros(SHAPE, np.int8)
    nd.Memory.copy(memory, HostMemory(found))
    np.testing.assert_array_equal(found, compilation.run(x)[0])


def test_reusable_executions_see_new_values(device: OpenClDevice) -> None:
    compilation, (a, b, _) = chained(device)
    execution = nd.Execution(compilation, reusable=True)
    execution.set_input_from_memory(0, a, 0, 0)
    execution.set_input(1, values(1))
    execution.set_output_from_memory(0, b, 0, 0)
    for seed in range(4):
        nd.Memory.copy(HostMemory(values(seed)), a)
        execution.compute()
        np.testing.assert_allclose(content(b), values(seed) + values(1), rtol=1e-6)


def test_time_limits_and_mixed_memories(device: OpenClDevice) -> None:
    compilation, (a, _, _) = chained(device)
    nd.Memory.copy(HostMemory(values(0)), a)
    result = np.zeros(SHAPE, np.float32)
    execution = nd.Execution(compilation)
    execution.set_timeout(60)
    execution.set_input_from_memory(0, a, 0, 0)
    execution.set_input(1, values(1))
    execution.set_output(0, result)
    execution.compute()
    np.testing.assert_allclose(result, values(0) + values(1), rtol=1e-6)


def test_through_a_daemon(device: OpenClDevice, tmp_path: Path, copies: dict[str, int]) -> None:
    server = DeviceServer(device, Address.parse(f"unix://{tmp_path}/d.sock"))
    server.start()
    try:
        remote = connect(str(server.address))
        compilation, (a, b, c) = chained(remote)
        nd.Memory.copy(HostMemory(values(0)), a)
        before = dict(copies)
        run(compilation, a, values(1), b)
        run(compilation, b, values(1), c)
        assert dict(copies) == before
        np.testing.assert_allclose(content(c), values(0) + 2 * values(1), rtol=1e-6)
        remote.close()
    finally:
        server.stop()


def test_values_that_are_too_large_are_refused(device: OpenClDevice) -> None:
    buffer = OpenClBuffer(device.context, 16)
    for size in (17, 64):
        with pytest.raises(BadData, match="device memory of 16 bytes"):
            buffer.write(HostMemory(bytearray(size)))
        with pytest.raises(BadData, match="device memory of 16 bytes"):
            buffer.read(HostMemory(bytearray(size)))
    with pytest.raises(BadData, match="read-only"):
        buffer.read(HostMemory(bytes(16)))
    buffer.write(HostMemory(bytes(range(8))))
    target = bytearray(8)
    buffer.read(HostMemory(target))
    assert target == bytes(range(8))
