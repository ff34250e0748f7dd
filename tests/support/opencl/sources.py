"""Runs the source of one kernel on an OpenCL device."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyopencl as cl

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.codegen.dialect import functions_for, memory_type
from neurald.drivers.opencl.codegen.kernel_source import NAME, WORKSPACE_ZEROS, Source
from neurald.drivers.opencl.codegen.program_text import NO_WAIT
from neurald.drivers.opencl.platform.device_facts import DeviceFacts
from neurald.drivers.opencl.platform.discovery import choose, discover
from neurald.drivers.opencl.platform.images import image_over
from neurald.drivers.opencl.platform.retargeting import declared_local_memory, is_retargeted, retargeted
from neurald.drivers.opencl.platform.storage import TEXEL, ImageRange
from neurald.hal.errors import UnavailableDevice

Array = np.ndarray[Any, np.dtype[Any]]
#: Number of texels of an image before those of its value.
_TEXELS_BEFORE = 3


def program_of(source: Source) -> str:
    """Returns a program with the kernel `run`."""
    pointers = []
    for position, value in enumerate(source.arguments):
        if position in source.images:
            pointers += [f"read_only image1d_buffer_t a{position}", f"const int s{position}"]
        else:
            const = "const " if position else ""
            pointers.append(f"__global {const}{memory_type(value.type)} *a{position}")
    if source.workspace_bytes:
        pointers.append("__global uchar *workspace")
    names = [each.rsplit(" ", 1)[1].lstrip("*") for each in pointers]
    passed = (*names, "status", *map(str, source.numbers))
    scratch, scratch_bytes = "scratch", max(16, source.scratch_bytes)
    if source.is_retargeted:
        scratch, scratch_bytes = declared_local_memory(scratch_bytes)
    return "\n".join(
        (
            functions_for(source.text),
            NO_WAIT,
            source.text.replace(NAME, source.name),
            f"__kernel __attribute__((reqd_work_group_size({source.local_size}, 1, 1)))",
            f"void run({', '.join((*pointers, '__global int *status'))}) {{",
            f"  __local uchar {scratch}[{scratch_bytes}] __attribute__((aligned(1024)));",
            f"  {source.name}(get_group_id(0), get_local_id(0), {scratch}, {', '.join(passed)});",
            "}",
        )
    )


class Bench:
    """Runs sources on a device.

    Args:
        device: of pyopencl.
    """

    def __init__(self, device: cl.Device) -> None:
        self.context = cl.Context([device])
        self.queue = cl.CommandQueue(self.context, properties=cl.command_queue_properties.PROFILING_ENABLE)

    def buffer(self, array: Array) -> cl.Buffer:
        """Creates a buffer with the elements of an array."""
        content = np.ascontiguousarray(array)
        buffer = cl.Buffer(self.context, cl.mem_flags.READ_WRITE, max(16, content.nbytes))
        if content.nbytes:
            cl.enqueue_copy(self.queue, buffer, content)
        return buffer

    def image(self, array: Array, kind: Scalar) -> cl.Image:
        """Creates an image with the elements of an array, after some other texels."""
        texel_bytes = TEXEL * kind.size_bytes
        content = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        texels = _TEXELS_BEFORE + -(-content.size // texel_bytes)
        whole = np.full(texels * texel_bytes, 0xC1, np.uint8)
        whole[_TEXELS_BEFORE * texel_bytes :][: content.size] = content
        part = ImageRange(start=0, texels=texels, first=_TEXELS_BEFORE)
        return image_over(self.context, self.buffer(whole), part, kind, supports_sub_buffers=False)

    def run(self, source: Source, arrays: Mapping[Value, Array]) -> tuple[Array, int]:
        """Runs a source; returns its output and status.

        Args:
            source: the source.
            arrays: contents of its arguments that are not constants. Those that the source also
                writes are written.
        """
        text = program_of(source)
        program = cl.Program(self.context, text).build()
        if is_retargeted(text):
            (code,) = program.get_info(cl.program_info.BINARIES)
            program = cl.Program(self.context, self.context.devices, [retargeted(code)]).build()
        output = source.arguments[0]
        dtype = np.dtype(np.uint8) if output.type is Scalar.BOOL else output.type.dtype
        result = np.empty(output.shape, dtype)
        # Elements that are not written are NaN, or unlikely to be correct.
        result.view(np.uint8).fill(0xC1)
        buffers: list[Any] = [self.buffer(result)]
        for position, value in enumerate(source.arguments[1:], start=1):
            array = arrays[value] if value.constant is None else value.constant
            if position in source.images:
                buffers += [self.image(array, value.type), np.int32(_TEXELS_BEFORE)]
            else:
                buffers.append(self.buffer(array))
        if source.workspace_bytes:
            workspace = np.full(source.workspace_bytes, 0xC1, np.uint8)
            workspace[:WORKSPACE_ZEROS] = 0
            buffers.append(self.buffer(workspace))
        status = np.zeros(1, np.int32)
        buffers.append(self.buffer(status))
        kernel = cl.Kernel(program, "run")
        kernel.set_args(*buffers)
        size = (source.groups * source.local_size,)
        cl.enqueue_nd_range_kernel(self.queue, kernel, size, (source.local_size,)).wait()
        cl.enqueue_copy(self.queue, result, buffers[0])
        for position in source.also_written:
            cl.enqueue_copy(self.queue, arrays[source.arguments[position]], buffers[position])
        cl.enqueue_copy(self.queue, status, buffers[-1])
        return result, int(status[0])


def opencl_facts() -> DeviceFacts | None:
    """Returns the device for tests of OpenCL; None if there is none."""
    try:
        return choose(discover())
    except UnavailableDevice:
        return None
