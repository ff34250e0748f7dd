"""Native code runs commands in order, for several threads; errors name the kernel."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.platform.errors import DeviceState
from neurald.drivers.opencl.runtime.launcher import Command, CommandList, HostTransfer, Launch
from neurald.drivers.opencl.runtime.program import BuiltProgram
from neurald.hal.errors import DeadObject, OpFailed
from neurald.hal.records import replace

SOURCE = """
kernel void twice(global int* a) { a[get_global_id(0)] *= 2; }
kernel void add(global int* a) { a[get_global_id(0)] += get_local_size(0); }
"""
COUNT = 64


class Fixture:
    """Buffer of integers, kernels that work on it, and transfers of all of it."""

    def __init__(self, opencl: DeviceContext, program: BuiltProgram | None = None) -> None:
        import pyopencl as cl

        self.program = program or BuiltProgram.from_source(opencl, SOURCE)
        self.queue = opencl.queue()
        self.values = np.arange(COUNT, dtype=np.int32)
        self.buffer = cl.Buffer(opencl.context, cl.mem_flags.READ_WRITE, self.values.nbytes)
        self.write, self.read = (
            HostTransfer(self.buffer, self.values.nbytes, to_device=to_device) for to_device in (True, False)
        )
        self.write.address = self.read.address = self.values.ctypes.data

    def launch(self, name: str, local_size: int = 4, groups: int | None = None) -> Launch:
        kernel = self.program.kernel(name, (self.buffer,))
        groups = COUNT // local_size if groups is None else groups
        return Launch(kernel=kernel, name=name, groups=groups, local_size=local_size)


def test_commands_run_in_order(opencl: DeviceContext) -> None:
    this = Fixture(opencl)
    commands: list[Command] = [
        this.write,
        this.launch("add", 4),
        this.launch("twice"),
        this.launch("add", 8),
        this.read,
    ]
    run = CommandList(opencl, commands)
    run.run(this.queue)
    expected = (np.arange(COUNT) + 4) * 2 + 8
    np.testing.assert_array_equal(this.values, expected)
    run.run(this.queue)
    np.testing.assert_array_equal(this.values, (expected + 4) * 2 + 8)


def test_waiting_later(opencl: DeviceContext) -> None:
    this = Fixture(opencl)
    CommandList(opencl, [this.write, this.launch("twice"), this.read]).run(this.queue, finish=False)
    CommandList(opencl, []).run(this.queue)
    np.testing.assert_array_equal(this.values, 2 * np.arange(COUNT))


def test_host_memory_may_change_between_executions(opencl: DeviceContext) -> None:
    this = Fixture(opencl)
    run = CommandList(opencl, [this.write, this.launch("twice"), this.read])
    other = np.full(COUNT, 7, np.int32)
    this.write.address = other.ctypes.data
    run.run(this.queue)
    np.testing.assert_array_equal(this.values, np.full(COUNT, 14))


def test_a_range_of_a_buffer(opencl: DeviceContext) -> None:
    this = Fixture(opencl)
    part = np.zeros(3, np.int32)
    read = HostTransfer(this.buffer, part.nbytes, offset_bytes=8, to_device=False)
    read.address = part.ctypes.data
    CommandList(opencl, [this.write, read]).run(this.queue)
    np.testing.assert_array_equal(part, [2, 3, 4])


def test_empty_lists(opencl: DeviceContext) -> None:
    this = Fixture(opencl)
    empty = HostTransfer(this.buffer, 0, to_device=True)
    for finish in (True, False):
        CommandList(opencl, []).run(this.queue, finish=finish)
        CommandList(opencl, [empty, this.launch("twice", groups=0)]).run(this.queue, finish=finish)


def test_threads_run_at_the_same_time(opencl: DeviceContext) -> None:
    if opencl.facts.platform_name == "Oclgrind":
        pytest.skip("Oclgrind is for one thread")
    program = BuiltProgram.from_source(opencl, SOURCE)
    fixtures = [Fixture(opencl, program) for _ in range(4)]

    def many(this: Fixture) -> None:
        run = CommandList(opencl, [this.write, *[this.launch("add")] * 10, this.read])
        for _ in range(20):
            run.run(this.queue)

    with ThreadPoolExecutor(len(fixtures)) as threads:
        list(threads.map(many, fixtures))
    for this in fixtures:
        np.testing.assert_array_equal(this.values, np.arange(COUNT) + 20 * 10 * 4)


def test_a_kernel_that_cannot_be_launched_is_named(opencl: DeviceContext) -> None:
    this = Fixture(opencl)
    too_large = 2 * opencl.facts.max_work_group_size
    commands: list[Command] = [
        this.write,
        this.launch("twice"),
        this.launch("add", too_large, groups=1),
        this.read,
    ]
    with pytest.raises(OpFailed, match=r"launching of kernel add: CL_INVALID_WORK_(GROUP|ITEM)_SIZE"):
        CommandList(opencl, commands).run(this.queue)
    assert not opencl.state.is_lost
    CommandList(opencl, [this.read]).run(this.queue)
    np.testing.assert_array_equal(this.values, 2 * np.arange(COUNT))


def test_a_transfer_without_host_memory_fails(opencl: DeviceContext) -> None:
    this = Fixture(opencl)
    this.read.address = 0
    with pytest.raises(OpFailed, match="reading a buffer: CL_INVALID_VALUE"):
        CommandList(opencl, [this.write, this.read]).run(this.queue)


def test_times_of_kernels(opencl: DeviceContext) -> None:
    this = Fixture(opencl)
    run = CommandList(opencl, [this.write, this.launch("twice"), this.launch("add"), this.read])
    times = run.profile(opencl.queue(profiling=True))
    assert [one.name for one in times] == ["twice", "add"]
    assert all(one.duration_ns > 0 for one in times)
    np.testing.assert_array_equal(this.values, 2 * np.arange(COUNT) + 4)
    too_large = this.launch("add", 2 * opencl.facts.max_work_group_size, groups=1)
    with pytest.raises(OpFailed, match="kernel add"):
        CommandList(opencl, [too_large]).profile(opencl.queue(profiling=True))


def test_a_lost_device_launches_nothing(opencl: DeviceContext, monkeypatch: pytest.MonkeyPatch) -> None:
    this = Fixture(opencl)
    state = DeviceState("Test")
    state.error(-2, "testing")
    monkeypatch.setattr(opencl, "state", state)
    with pytest.raises(DeadObject):
        CommandList(opencl, [this.write]).run(this.queue)


def test_a_failure_while_kernels_run_loses_an_nvidia_device(
    opencl: DeviceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvidia = DeviceContext(replace(opencl.facts, is_nvidia=True))
    this = Fixture(nvidia)
    commands = CommandList(nvidia, [this.launch("twice")])

    def failing(*arguments: Any) -> int:
        arguments[-1]._obj.value = -5
        return int(arguments[1])

    monkeypatch.setattr(commands, "_loop", failing)
    with pytest.raises(DeadObject, match="CL_OUT_OF_RESOURCES"):
        commands.run(this.queue)
    with pytest.raises(DeadObject, match="lost earlier"):
        commands.run(this.queue)
