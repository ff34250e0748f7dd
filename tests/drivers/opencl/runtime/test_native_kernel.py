"""Kernels whose arguments are set in native code get all of them."""

import ctypes
import gc
from types import SimpleNamespace

import numpy as np
import pyopencl as cl
import pytest

from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.runtime.launcher import CommandList, Launch
from neurald.drivers.opencl.runtime.native_loop import opencl_library
from neurald.drivers.opencl.runtime.program import BuiltProgram
from neurald.hal.errors import OpFailed, UnavailableDevice

SOURCE = """
__kernel void write(__global long *to, __global const int *from, const ulong large, const int small) {
  to[0] = from[0];
  to[1] = large;
  to[2] = small;
}
"""
LARGE, SMALL = (1 << 40) + 3, -7


def buffers(opencl: DeviceContext) -> tuple[cl.Buffer, cl.Buffer]:
    source = np.array([5, 6], np.int32)
    flags = cl.mem_flags.READ_WRITE
    return (
        cl.Buffer(opencl.context, flags, 24),
        cl.Buffer(opencl.context, flags | cl.mem_flags.COPY_HOST_PTR, hostbuf=source),
    )


def test_arguments_of_every_kind(opencl: DeviceContext) -> None:
    """Handles and numbers of both sizes; the kernel does not need the program's object."""
    target, source = buffers(opencl)
    program = BuiltProgram.from_source(opencl, SOURCE)
    kernel = program.kernel("write", (target, source, np.uint64(LARGE), np.int32(SMALL)))
    del program
    gc.collect()
    launch = Launch(kernel=kernel, name="write", groups=1, local_size=1)
    queue = opencl.queue(profiling=True)
    for run in (
        lambda: CommandList(opencl, [launch]).run(queue),
        lambda: CommandList(opencl, [launch]).profile(queue),
    ):
        found = np.zeros(3, np.int64)
        cl.enqueue_copy(queue, target, found)
        run()
        cl.enqueue_copy(queue, found, target)
        assert found.tolist() == [5, LARGE, SMALL]


def test_kernels_of_a_program_have_their_own_arguments(opencl: DeviceContext) -> None:
    target, source = buffers(opencl)
    program = BuiltProgram.from_source(opencl, SOURCE)
    kernels = [
        program.kernel("write", (target, source, np.uint64(number), np.int32(number))) for number in (1, 2)
    ]
    queue, found = opencl.queue(), np.zeros(3, np.int64)
    for kernel, number in zip(kernels, (1, 2), strict=True):
        CommandList(opencl, [Launch(kernel=kernel, name="write", groups=1, local_size=1)]).run(queue)
        cl.enqueue_copy(queue, found, target)
        assert found.tolist() == [5, number, number]


def test_wrong_names_and_arguments_are_errors(opencl: DeviceContext) -> None:
    target, source = buffers(opencl)
    program = BuiltProgram.from_source(opencl, SOURCE)
    with pytest.raises(OpFailed, match="kernel read: CL_INVALID_KERNEL_NAME"):
        program.kernel("read", ())
    with pytest.raises(OpFailed, match="setting argument 2 of kernel write: CL_INVALID_ARG_SIZE"):
        program.kernel("write", (target, source, np.int32(1), np.int32(2)))
    with pytest.raises(OpFailed, match="setting argument 4 of kernel write: CL_INVALID_ARG_INDEX"):
        program.kernel("write", (target, source, np.uint64(1), np.int32(2), np.int32(3)))


def test_a_build_of_pyopencl_without_the_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace())
    with pytest.raises(UnavailableDevice, match="does not export clEnqueueNDRangeKernel of OpenCL"):
        opencl_library()
