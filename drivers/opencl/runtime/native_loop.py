"""Enqueues commands, sets arguments of kernels, and copies memory in machine code.

An enqueue costs 4 to 5 µs in the driver, and Python adds half as much again. Therefore a loop,
compiled once per process with LLVM, calls OpenCL for all commands of a step, and another one for
all arguments that depend on the lengths of open dimensions.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import llvmlite.binding as llvm

from neurald.drivers.opencl.runtime.native_loop_module import loop_module
from neurald.hal.errors import UnavailableDevice
from neurald.hal.process.fork import hold_over_fork


class EncodedCommand(ctypes.Structure):
    """Command as the native loop reads it.

    `first` and `second` are the global and local size of a kernel, or the offset and size of a
    transfer. A command whose `second` is 0 does nothing.
    """

    _fields_ = [
        ("kind", ctypes.c_int64),
        ("handle", ctypes.c_void_p),
        ("first", ctypes.c_size_t),
        ("second", ctypes.c_size_t),
        ("cell", ctypes.c_void_p),
    ]


class EncodedArgument(ctypes.Structure):
    """Argument of a kernel as native code reads it: its position, and its size in bytes."""

    _fields_ = [
        ("kernel", ctypes.c_void_p),
        ("position", ctypes.c_uint32),
        ("size_bytes", ctypes.c_uint32),
    ]


_LOOP = ctypes.CFUNCTYPE(
    ctypes.c_int64,  # Position of the failed command; the number of commands if finishing failed.
    ctypes.c_void_p,  # The queue.
    ctypes.c_int64,  # Number of commands.
    ctypes.c_void_p,  # The commands.
    ctypes.c_int64,  # The value of `flush_every`.
    ctypes.c_int64,  # Whether to finish.
    ctypes.c_void_p,  # Address of the error code.
)
_PIECES = ctypes.CFUNCTYPE(
    ctypes.c_int32,  # The error code.
    ctypes.c_void_p,  # The queue.
    ctypes.c_void_p,  # The buffer.
    ctypes.c_int64,  # Offset in the buffer.
    ctypes.c_void_p,  # The pinned memory.
    ctypes.c_void_p,  # The other memory of the host.
    ctypes.c_int64,  # Bytes in total.
    ctypes.c_int64,  # Bytes of a piece.
    ctypes.c_void_p,  # Address of the number of bytes that are taken, which all threads advance.
)
_ARGUMENTS = ctypes.CFUNCTYPE(
    ctypes.c_int64,  # Position of the argument that failed, or the number of arguments.
    ctypes.c_int64,  # Number of arguments.
    ctypes.c_void_p,  # The arguments.
    ctypes.c_void_p,  # Their values, in 8 bytes each.
    ctypes.c_void_p,  # Address of the error code.
)
# Target, source, bytes.
_COPY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
_FUNCTIONS = (
    "clEnqueueNDRangeKernel",
    "clEnqueueWriteBuffer",
    "clEnqueueReadBuffer",
    "clFlush",
    "clFinish",
    "clSetKernelArg",
)
#: What kernels need besides, see `native_kernel`.
_OTHER_FUNCTIONS = ("clCreateKernel", "clReleaseKernel", "clGetProgramInfo")

#: Held during a fork, because LLVM's own locks would stay locked in the child.
_lock = threading.Lock()
hold_over_fork(_lock)
#: Result of `_compile`, once it has run.
_compiled: list[tuple[Any, ...]] = []


def native_loop() -> Any:
    """Returns the loop, compiled on first use.

    Raises:
        UnavailableDevice: pyopencl's OpenCL library does not export its functions.
    """
    return _functions()[0]


def native_copy() -> Any:
    """Returns a native function `copy(target, source, bytes)`.

    For a few hundred kilobytes it takes three quarters of the time of `ctypes.memmove`.

    Raises:
        UnavailableDevice: see `native_loop`.
    """
    return _functions()[1]


def native_write() -> Any:
    """Returns a function like `native_copy` whose stores go past the caches.

    A device reads what a processor's cache holds more slowly than what is in memory. Targets that
    are not multiples of `WRITTEN_ALIGNMENT` are written by `native_copy`.

    Raises:
        UnavailableDevice: see `native_loop`.
    """
    return _functions()[2]


def native_pieces(*, to_device: bool) -> Any:
    """Returns a native function that copies pieces of an input or output until all are taken.

    Pieces of an input are copied to pinned memory as `native_write` does, and transferred as soon
    as they are there; those of an output are copied from it. Several threads may call it for the
    same input or output: a thread that starts late takes fewer pieces.

    Raises:
        UnavailableDevice: see `native_loop`.
    """
    return _functions()[3 if to_device else 4]


def native_arguments() -> Any:
    """Returns a native function that sets arguments of kernels.

    Raises:
        UnavailableDevice: see `native_loop`.
    """
    return _functions()[5]


def _functions() -> tuple[Any, ...]:
    with _lock:
        if not _compiled:
            _compiled.append(_compile(_addresses()))
        return _compiled[0]


def _compile(addresses: dict[str, int]) -> tuple[Any, ...]:
    """Compiles the module.

    Returns the loop, the functions that copy, write, write pieces, copy pieces and set arguments,
    and the engine that owns their code.
    """
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(str(loop_module(addresses)))
    module.verify()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return (
        _LOOP(engine.get_function_address("run")),
        _COPY(engine.get_function_address("copy")),
        _COPY(engine.get_function_address("write")),
        _PIECES(engine.get_function_address("write_pieces")),
        _PIECES(engine.get_function_address("copy_pieces")),
        _ARGUMENTS(engine.get_function_address("set_arguments")),
        engine,
    )


def opencl_library() -> ctypes.CDLL:
    """Returns the library with OpenCL's functions that pyopencl uses.

    Handles are not valid in another library.

    Raises:
        UnavailableDevice: pyopencl's OpenCL library does not export its functions.
    """
    import pyopencl

    # A look-up through the extension module also searches the libraries that it is linked to.
    library = ctypes.CDLL(pyopencl._cl.__file__)
    missing = [name for name in (*_FUNCTIONS, *_OTHER_FUNCTIONS) if not hasattr(library, name)]
    if missing:
        raise UnavailableDevice(
            f"this build of pyopencl does not export {missing[0]} of OpenCL: install pyopencl with pip"
        )
    return library


def _addresses() -> dict[str, int]:
    """Returns the addresses of the functions that the loop calls."""
    library = opencl_library()
    return {name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in _FUNCTIONS}
