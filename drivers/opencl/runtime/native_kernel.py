"""Kernels with bound arguments, without pyopencl's objects.

pyopencl generates Python code for the arguments of a kernel, and converts them one by one: creating a
kernel and setting ten arguments takes 0.2 ms, most of what a model with open dimensions does when it
runs in a new size.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.platform.errors import SUCCESS
from neurald.drivers.opencl.runtime.native_loop import opencl_library
from neurald.hal.lazy_numpy import np

if TYPE_CHECKING:
    import pyopencl as cl

    #: A buffer, an image, or a number whose type is that of the parameter.
    KernelArgument: TypeAlias = cl.MemoryObjectHolder | np.uint64 | np.int32

#: Bytes of a handle or a number in the memory from which arguments are copied.
_CELL_BYTES: Final = 8


class NativeKernel:
    """Kernel with bound arguments. Its creator must keep the buffers and images that are its arguments.

    Attributes:
        int_ptr: its handle.
    """

    __slots__ = ("__weakref__", "int_ptr")

    def __init__(
        self, device: DeviceContext, program: cl.Program, name: str, arguments: Sequence[KernelArgument]
    ) -> None:
        """Creates the kernel.

        Args:
            device: the device that the program is built for.
            program: the program.
            name: the name of the kernel.
            arguments: all of its arguments.

        Raises:
            Error: there is no such kernel, or the arguments are not those of its parameters.
        """
        create, release, set_argument = _functions()
        code = ctypes.c_int32(SUCCESS)
        device.state.check()
        self.int_ptr: int = create(program.int_ptr, name.encode(), ctypes.byref(code)) or 0
        if code.value != SUCCESS:
            raise device.state.error(code.value, "creation", kernel=name)
        weakref.finalize(self, release, self.int_ptr).atexit = False
        numbers = [each.int_ptr if hasattr(each, "int_ptr") else int(each) for each in arguments]
        cells = (ctypes.c_uint64 * len(numbers))(*numbers)
        first = ctypes.addressof(cells)
        for position, each in enumerate(arguments):
            size_bytes = each.nbytes if isinstance(each, np.generic) else _CELL_BYTES
            # Numbers are in the first bytes of their cells on little-endian machines only.
            failed = set_argument(self.int_ptr, position, size_bytes, first + _CELL_BYTES * position)
            if failed:
                raise device.state.error(failed, f"setting argument {position}", kernel=name)

    def of_pyopencl(self) -> cl.Kernel:
        """Returns pyopencl's object for the same kernel."""
        import pyopencl as cl

        return cl.Kernel.from_int_ptr(self.int_ptr, retain=True)


@cache
def _functions() -> tuple[Any, Any, Any]:
    """Returns OpenCL's functions that create and release a kernel, and set an argument."""
    library = opencl_library()
    create = library.clCreateKernel
    create.restype, create.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    release = library.clReleaseKernel
    release.restype, release.argtypes = ctypes.c_int32, [ctypes.c_void_p]
    set_argument = library.clSetKernelArg
    set_argument.restype = ctypes.c_int32
    set_argument.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_size_t, ctypes.c_void_p]
    return create, release, set_argument
