"""Reads the machine code of built programs without the lock of Python's interpreter.

Some runtimes (PoCL) compile what was not compiled yet when a program's code is asked for. pyopencl
holds the interpreter's lock meanwhile, for many seconds, in which no thread of a driver's process
could answer that it lives.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.runtime.native_loop import opencl_library
from neurald.hal.errors import OpFailed

if TYPE_CHECKING:
    import pyopencl as cl

_BINARY_SIZES: Final = 0x1165
_BINARIES: Final = 0x1166


def code_of(device: DeviceContext, program: cl.Program) -> bytes:
    """Returns the code of a program that is built for one device.

    Raises:
        OpFailed: the runtime provides none.
        Error: the device failed.
    """
    device.state.check()
    size = ctypes.c_size_t()
    _read(device, program, _BINARY_SIZES, size)
    if not size.value:
        raise OpFailed(f"OpenCL device {device.facts.name} provides no binary of the program")
    code = ctypes.create_string_buffer(size.value)
    # The runtime is given an array with one pointer for each device.
    _read(device, program, _BINARIES, ctypes.c_void_p(ctypes.addressof(code)))
    return code.raw


def _read(
    device: DeviceContext, program: cl.Program, kind: int, value: ctypes.c_size_t | ctypes.c_void_p
) -> None:
    failed = _get_program_info()(program.int_ptr, kind, ctypes.sizeof(value), ctypes.byref(value), None)
    if failed:
        raise device.state.error(failed, "reading a binary")


@cache
def _get_program_info() -> Any:
    function = opencl_library().clGetProgramInfo
    pointer = ctypes.c_void_p
    function.restype = ctypes.c_int32
    function.argtypes = [pointer, ctypes.c_uint32, ctypes.c_size_t, pointer, pointer]
    return function
