"""Memory that is larger than its data, and the memory layouts that devices prefer."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from support.devices.misbehaving import SampleDevice
from support.errors import error_code
from support.models.small import add_model, bound_execution, compiled_add
from support.sweeps import sweep

import neurald as nd
from neurald.hal.memory.pool import HostMemory
from neurald.hal.process.address import Address
from neurald.hal.rpc.client.device import connect
from neurald.hal.rpc.server.server import DeviceServer

SHAPE = (2, 3)
BYTES = 24
ONES = np.ones(SHAPE, np.float32)
Code = nd.ResultCode


def execution(*, padding: bool) -> nd.Execution:
    execution = nd.Execution(compiled_add(SHAPE))
    execution.enable_input_and_output_padding(padding)
    return execution


def test_padding_is_enabled_first() -> None:
    binding: tuple[Callable[[nd.Execution], Any], ...] = (
        lambda e: e.set_input(0, ONES),
        lambda e: e.set_input(0, None),
        lambda e: e.set_output(0, ONES.copy()),
        lambda e: e.set_input_from_memory(0, HostMemory(ONES), 0, BYTES),
    )
    for bind in binding:
        started = nd.Execution(compiled_add(SHAPE))
        bind(started)
        for enable in (True, False):
            assert error_code(started.enable_input_and_output_padding, enable) is Code.BAD_STATE
    done, _ = bound_execution(compiled_add(SHAPE))
    done.compute()
    assert error_code(done.enable_input_and_output_padding) is Code.BAD_STATE


@sweep("extra", [1, 4, 40])
@sweep("padding", [False, True])
def test_larger_memory(extra: int, padding: bool) -> None:
    memory = nd.Memory.allocate(BYTES + extra)
    binding: tuple[Callable[[nd.Execution], Any], ...] = (
        lambda e: e.set_input_from_memory(0, memory, 0, memory.size),
        lambda e: e.set_output_from_memory(0, memory, 0, memory.size),
    )
    for bind in binding:
        target = execution(padding=padding)
        if padding:
            bind(target)
        else:
            assert error_code(bind, target) is Code.BAD_DATA
        assert error_code(execution(padding=padding).set_input_from_memory, 0, memory, 0, BYTES - 1) is (
            Code.BAD_DATA
        )


def test_padding_lies_inside_the_memory() -> None:
    memory = nd.Memory.allocate(BYTES + 8)
    for offset, length in ((8, BYTES + 1), (0, BYTES + 9), (12, BYTES)):
        assert (
            error_code(execution(padding=True).set_input_from_memory, 0, memory, offset, length)
            is Code.BAD_DATA
        )
        assert (
            error_code(execution(padding=True).set_output_from_memory, 0, memory, offset, length)
            is Code.BAD_DATA
        )


def run_padded(compilation: nd.Compilation) -> None:
    padding = compilation.preferred_memory_padding_for_input(0)
    memories = [nd.Memory.allocate(padding) for _ in range(2)]
    result = np.zeros(100, np.float32)
    run = nd.Execution(compilation)
    run.enable_input_and_output_padding()
    for index, memory in enumerate(memories):
        memory.view(0, BYTES)[:] = ONES.tobytes()
        memory.view(BYTES)[:] = b"\xff" * (memory.size - BYTES)
        run.set_input_from_memory(index, memory, 0, memory.size)
    run.set_output(0, result)
    run.compute()
    assert run.output_dimensions(0) == SHAPE
    assert np.array_equal(result[:6].reshape(SHAPE), ONES * 2)


def test_padded_arguments_give_the_same() -> None:
    run_padded(compiled_add(SHAPE))


@sweep("local", [True, False])
def test_padded_arguments_behind_a_socket(local: bool, tmp_path: Path) -> None:
    server = DeviceServer(
        nd.devices()[0], Address.parse(f"unix://{tmp_path}/d.sock" if local else "127.0.0.1:0")
    )
    server.start()
    remote = connect(str(server.address))
    run_padded(nd.CompilationBuilder(add_model(SHAPE), [remote]).finish())
    remote.close()
    server.stop()


def test_open_outputs_use_all_of_their_memory() -> None:
    run = nd.Execution(nd.CompilationBuilder(add_model((0, 3)), [nd.devices()[0]]).finish())
    run.enable_input_and_output_padding()
    result = np.zeros(8, np.float32)
    run.set_input(0, ONES)
    run.set_input(1, ONES)
    run.set_output(0, result)
    run.compute()
    assert run.output_dimensions(0) == SHAPE
    assert np.array_equal(result[:6].reshape(SHAPE), ONES * 2)


@sweep(
    ("level", "padding"),
    [(nd.FeatureLevel.LEVEL_8, 64), (nd.FeatureLevel.LEVEL_5, 64), (nd.FeatureLevel.LEVEL_4, 1)],
)
def test_what_devices_like(level: nd.FeatureLevel, padding: int) -> None:
    device = SampleDevice()
    device.feature_level = level
    compilation = nd.CompilationBuilder(add_model(SHAPE), [device]).finish()
    for index in range(2):
        assert compilation.preferred_memory_alignment_for_input(index) == 64
        assert compilation.preferred_memory_padding_for_input(index) == padding
    assert compilation.preferred_memory_alignment_for_output(0) == 64
    assert compilation.preferred_memory_padding_for_output(0) == padding


def test_what_the_cpu_device_likes() -> None:
    compilation = compiled_add(SHAPE)
    assert compilation.preferred_memory_alignment_for_input(0) == 64
    assert compilation.preferred_memory_padding_for_output(0) == 64


@sweep("index", [-1, 2])
def test_there_are_only_so_many_inputs_and_outputs(index: int) -> None:
    compilation = compiled_add(SHAPE)
    for call in (
        compilation.preferred_memory_alignment_for_input,
        compilation.preferred_memory_padding_for_input,
        compilation.preferred_memory_alignment_for_output,
        compilation.preferred_memory_padding_for_output,
    ):
        assert error_code(call, index) is Code.BAD_DATA
