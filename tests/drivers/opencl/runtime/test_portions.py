"""Long executions are enqueued in portions: how they are divided, and that they stop between
portions.
"""

import itertools

import numpy as np
import pytest
from support.sweeps import sweep

from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.runtime.launcher import Command, CommandList, HostTransfer, Launch
from neurald.drivers.opencl.runtime.portions import PORTION_S, Portions
from neurald.drivers.opencl.runtime.program import BuiltProgram
from neurald.hal.errors import OpFailed

SOURCE = "kernel void add(global int* a) { a[get_global_id(0)] += 1; }"
COUNT = 64


def test_short_lists_are_not_divided() -> None:
    portions = Portions(PORTION_S)
    assert portions.bounds(30) == (0, 30)
    portions.learn((0, 30), [PORTION_S])
    assert portions.bounds(30) == (0, 30)


def test_long_lists_are_divided_by_measured_times() -> None:
    portions = Portions(3 * PORTION_S)
    assert portions.bounds(30) == (0, 10, 20, 30)
    portions.learn((0, 10, 20, 30), [0.3 * PORTION_S, 0.4 * PORTION_S, 2 * PORTION_S])
    assert portions.bounds(30) == (0, 20, 25, 30)
    # What takes this long alone stays as it is.
    portions.learn((0, 20, 29, 30), [PORTION_S, PORTION_S, 7 * PORTION_S])
    assert portions.bounds(30) == (0, 20, 29, 30)


def test_short_portions_are_joined_again() -> None:
    portions = Portions(1000 * PORTION_S)
    assert len(portions.bounds(16)) == 17
    for _ in range(5):
        bounds = portions.bounds(16)
        portions.learn(bounds, [0.01 * PORTION_S * (b - a) for a, b in itertools.pairwise(bounds)])
    assert portions.bounds(16) == (0, 16)


class Adding:
    """Ten kernels that each add 1 to every element."""

    def __init__(self, opencl: DeviceContext) -> None:
        import pyopencl as cl

        self.values = np.zeros(COUNT, np.int32)
        self.queue = opencl.queue()
        buffer = cl.Buffer(opencl.context, cl.mem_flags.READ_WRITE, self.values.nbytes)
        program = BuiltProgram.from_source(opencl, SOURCE)
        kernel = program.kernel("add", (buffer,))
        self.write, self.read = (
            HostTransfer(buffer, self.values.nbytes, to_device=to_device) for to_device in (True, False)
        )
        self.write.address = self.read.address = self.values.ctypes.data
        launch = Launch(kernel=kernel, name="add", groups=COUNT // 4, local_size=4)
        self.commands: list[Command] = [self.write, *[launch] * 10, self.read]
        self.list = CommandList(opencl, self.commands)


def test_portions_compute_the_same(opencl: DeviceContext) -> None:
    this = Adding(opencl)
    portions = Portions(5 * PORTION_S)
    assert len(portions.bounds(12)) == 6
    assert this.list.run_in_portions(this.queue, portions, lambda: False)
    assert (this.values == 10).all()


@sweep("asked", [0, 1, 3])
def test_nothing_is_enqueued_after_a_stop(opencl: DeviceContext, asked: int) -> None:
    this = Adding(opencl)
    answers = iter([False] * asked + [True])
    assert not this.list.run_in_portions(this.queue, Portions(12 * PORTION_S), lambda: next(answers))
    CommandList(opencl, [this.read]).run(this.queue)
    if asked:
        # The first portion is the transfer.
        assert (this.values == asked - 1).all()
    # And it can be run again.
    this.values[:] = 0
    assert this.list.run_in_portions(this.queue, Portions(12 * PORTION_S), lambda: False)
    assert (this.values == 10).all()


def test_after_a_failure_no_command_is_running(opencl: DeviceContext) -> None:
    this = Adding(opencl)
    this.read.address = 0
    with pytest.raises(OpFailed, match="reading a buffer"):
        this.list.run_in_portions(this.queue, Portions(12 * PORTION_S), lambda: False)
    this.read.address = this.values.ctypes.data
    this.list.run(this.queue)
    assert (this.values == 10).all()
