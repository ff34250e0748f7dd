"""Kernels with bound arguments, without pyopencl's objects.

pyopencl generates Python code for the arguments of a kernel, and converts them one by one: creating
a kernel and setting ten arguments takes 0.2 ms, most of what a model with open dimensions does when
it runs in a new size.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.platform.errors import SUCCESS
from neurald.drivers.opencl.runtime.native_loop import EncodedArgument, native_arguments, opencl_library
from neurald.hal.lazy_numpy import np

if TYPE_CHECKING:
    import pyopencl as cl

    #: A buffer, an image, or a number whose type is that of the parameter.
    KernelArgument: TypeAlias = cl.MemoryObjectHolder | np.uint64 | np.int32

#: Bytes of a handle or a number in the memory from which arguments are copied.
_CELL_BYTES: Final = 8


class NativeKernel:
    """Kernel with bound arguments.

    Its creator must keep the buffers and images that are its arguments.

    Attributes:
        int_ptr: its handle.
    """

    __slots__ = ("__weakref__", "_name", "_state", "int_ptr")

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
        functions = _functions()
        self._name, self._state = name, device.state
        code = ctypes.c_int32(SUCCESS)
        device.state.check()
        self.int_ptr: int = functions.create(program.int_ptr, name.encode(), ctypes.byref(code)) or 0
        if code.value != SUCCESS:
            raise device.state.error(code.value, "creation", kernel=name)
        weakref.finalize(self, functions.release, self.int_ptr).atexit = False
        numbers = [each.int_ptr if hasattr(each, "int_ptr") else int(each) for each in arguments]
        sizes = [each.nbytes if isinstance(each, np.generic) else _CELL_BYTES for each in arguments]
        places = [(self, position, size_bytes) for position, size_bytes in enumerate(sizes)]
        NativeArguments(device, places).set((ctypes.c_uint64 * len(numbers))(*numbers))

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    def enqueue(self, queue: cl.CommandQueue, items: int, local_size: int) -> cl.Event:
        """Launches the kernel; returns the event of this launch.

        Args:
            queue: the queue of the device.
            items: the number of work-items.
            local_size: work-items per group.

        Raises:
            Error: the device failed.
        """
        import pyopencl as cl

        event = ctypes.c_void_p()
        sizes = (ctypes.c_size_t * 2)(items, local_size)
        first = ctypes.addressof(sizes)
        second = first + ctypes.sizeof(ctypes.c_size_t)
        failed = _functions().enqueue(
            queue.int_ptr, self.int_ptr, 1, None, first, second, 0, None, ctypes.byref(event)
        )
        if failed:
            raise self._state.error(failed, "launching", kernel=self._name)
        return cl.Event.from_int_ptr(event.value or 0, retain=False)


class NativeArguments:
    """Arguments of kernels that are set together, again and again.

    Args:
        device: the device of the kernels.
        places: for each argument its kernel, its position, and its size in bytes.
    """

    def __init__(self, device: DeviceContext, places: Sequence[tuple[NativeKernel, int, int]]) -> None:
        self._state = device.state
        self._places = tuple(places)
        self._encoded = (EncodedArgument * len(places))(
            *[
                EncodedArgument(kernel.int_ptr, position, size_bytes)
                for kernel, position, size_bytes in places
            ]
        )
        self._set = native_arguments()

    def set(self, values: Any) -> None:
        """Sets all of them.

        Args:
            values: an object of `ctypes`, or an address, with 8 bytes for each argument. Numbers
                are in the first of these bytes, so the machine is little-endian.

        Raises:
            Error: an argument is not that of its parameter.
        """
        code = ctypes.c_int32(SUCCESS)
        failed = self._set(len(self._places), self._encoded, values, ctypes.byref(code))
        if code.value != SUCCESS:
            kernel, position, _ = self._places[failed]
            raise self._state.error(code.value, f"setting argument {position}", kernel=kernel.name)


class _Functions(NamedTuple):
    """OpenCL's functions that create and release a kernel, and launch one."""

    create: Any
    release: Any
    enqueue: Any


@cache
def _functions() -> _Functions:
    library = opencl_library()
    pointer, number = ctypes.c_void_p, ctypes.c_uint32
    create = library.clCreateKernel
    create.restype, create.argtypes = pointer, [pointer, ctypes.c_char_p, pointer]
    release = library.clReleaseKernel
    release.restype, release.argtypes = ctypes.c_int32, [pointer]
    enqueue = library.clEnqueueNDRangeKernel
    enqueue.restype = ctypes.c_int32
    enqueue.argtypes = [pointer, pointer, number, *[pointer] * 3, number, pointer, pointer]
    return _Functions(create, release, enqueue)
