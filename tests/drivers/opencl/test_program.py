"""Programs are built, saved and loaded, and damage is noticed before a runtime sees it."""

import dataclasses

import numpy as np
import pytest

from neurald.drivers.opencl.errors import DeviceState
from neurald.drivers.opencl.launcher import CommandList, Launch
from neurald.drivers.opencl.platform import DeviceContext
from neurald.drivers.opencl.program import Program
from neurald.drivers.opencl.staging import Region, Staging
from neurald.hal.errors import DeadObject, OpFailed

SOURCE = """
kernel void twice(global float* a) { a[get_global_id(0)] *= 2; }
kernel void add(global float* a) { a[get_global_id(0)] += AMOUNT; }
"""


def results(opencl: DeviceContext, program: Program) -> list[float]:
    """What both kernels make of 0, 1, 2 and 3."""
    import pyopencl as cl

    values = np.arange(4, dtype=np.float32)
    buffer = cl.Buffer(opencl.context, cl.mem_flags.READ_WRITE, values.nbytes)
    launches = []
    for name in ("twice", "add"):
        program.kernel(name).set_arg(0, buffer)
        launches.append(Launch(kernel=program.kernel(name), name=name, groups=2, local_size=2))
    region = [Region(buffer=buffer, size_bytes=values.nbytes)]
    queue = opencl.queue()
    with Staging(opencl, queue, region, region) as staging:
        staging.put(0, values.ctypes.data)
        staging.expect(0, values.ctypes.data)
        CommandList(opencl, [*staging.writes, *launches, *staging.reads]).run(queue)
        staging.collect()
    return [float(value) for value in values]


def test_a_program_is_built_saved_and_loaded(opencl: DeviceContext) -> None:
    program = Program.from_source(opencl, SOURCE, ["-DAMOUNT=3"])
    assert results(opencl, program) == [3, 5, 7, 9]
    assert results(opencl, Program.from_binary(opencl, program.binary)) == [3, 5, 7, 9]


def test_a_kernel_is_made_once(opencl: DeviceContext) -> None:
    program = Program.from_source(opencl, SOURCE, ["-DAMOUNT=3"])
    kernel = program.kernel("twice")
    assert program.kernel("twice") is kernel
    assert program.new_kernel("twice").int_ptr != kernel.int_ptr
    assert 0 < program.work_group_limit(kernel) <= opencl.facts.max_work_group_size
    with pytest.raises(OpFailed, match="thrice"):
        program.kernel("thrice")


def test_what_does_not_compile_is_told(opencl: DeviceContext) -> None:
    with pytest.raises(OpFailed, match=r"CL_BUILD_PROGRAM_FAILURE(.|\n)*AMOUNT"):
        Program.from_source(opencl, SOURCE)


@pytest.mark.parametrize("damage", ["empty", "short", "cut", "flipped", "longer"])
def test_k05_a_damaged_binary_is_refused(opencl: DeviceContext, damage: str) -> None:
    program = Program.from_source(opencl, SOURCE, ["-DAMOUNT=3"])
    results(opencl, program)
    binary = program.binary
    flipped = bytearray(binary)
    flipped[len(binary) // 2] ^= 1
    damaged = {
        "empty": b"",
        "short": binary[:32],
        "cut": binary[:-1],
        "flipped": bytes(flipped),
        "longer": binary + b"\0",
    }[damage]
    with pytest.raises(OpFailed, match="damaged"):
        Program.from_binary(opencl, damaged)


def test_g04_a_binary_of_another_driver_is_refused(opencl: DeviceContext) -> None:
    program = Program.from_source(opencl, SOURCE, ["-DAMOUNT=3"])
    results(opencl, program)
    newer = DeviceContext(dataclasses.replace(opencl.facts, driver_version="another one"))
    with pytest.raises(OpFailed, match="another device's"):
        Program.from_binary(newer, program.binary)


def test_a_lost_device_builds_nothing(opencl: DeviceContext, monkeypatch: pytest.MonkeyPatch) -> None:
    state = DeviceState("Test")
    state.error(-2, "testing")
    monkeypatch.setattr(opencl, "state", state)
    with pytest.raises(DeadObject):
        Program.from_source(opencl, SOURCE)
