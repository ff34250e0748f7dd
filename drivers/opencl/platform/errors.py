"""Converts OpenCL's error codes to errors of `neurald.hal.errors`, and tracks lost devices.

A device is lost when its context can no longer be used: the device was unplugged or reset, or a
kernel on an NVIDIA device failed. OpenCL then refuses every call with varying codes. `DeviceState`
remembers the loss, so that all later operations raise `DeadObject` immediately.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final

from neurald.hal.errors import DeadObject, Error, OpFailed, OutOfMemory
from neurald.hal.process.fork import ForkUnsafeLibrary, at_fork

SUCCESS: Final = 0
DEVICE_NOT_FOUND: Final = -1
DEVICE_NOT_AVAILABLE: Final = -2
MEM_OBJECT_ALLOCATION_FAILURE: Final = -4
OUT_OF_RESOURCES: Final = -5
OUT_OF_HOST_MEMORY: Final = -6
BUILD_PROGRAM_FAILURE: Final = -11
INVALID_DEVICE: Final = -33
INVALID_CONTEXT: Final = -34
INVALID_COMMAND_QUEUE: Final = -36
INVALID_BUFFER_SIZE: Final = -61
NVIDIA_ILLEGAL_ACCESS: Final = -9999

#: OpenCL's symbolic names (`cl.h`, `cl_ext.h`), by code.
NAMES: Final[Mapping[int, str]] = MappingProxyType(
    {
        SUCCESS: "CL_SUCCESS",
        DEVICE_NOT_FOUND: "CL_DEVICE_NOT_FOUND",
        DEVICE_NOT_AVAILABLE: "CL_DEVICE_NOT_AVAILABLE",
        -3: "CL_COMPILER_NOT_AVAILABLE",
        MEM_OBJECT_ALLOCATION_FAILURE: "CL_MEM_OBJECT_ALLOCATION_FAILURE",
        OUT_OF_RESOURCES: "CL_OUT_OF_RESOURCES",
        OUT_OF_HOST_MEMORY: "CL_OUT_OF_HOST_MEMORY",
        -7: "CL_PROFILING_INFO_NOT_AVAILABLE",
        -8: "CL_MEM_COPY_OVERLAP",
        -9: "CL_IMAGE_FORMAT_MISMATCH",
        -10: "CL_IMAGE_FORMAT_NOT_SUPPORTED",
        BUILD_PROGRAM_FAILURE: "CL_BUILD_PROGRAM_FAILURE",
        -12: "CL_MAP_FAILURE",
        -13: "CL_MISALIGNED_SUB_BUFFER_OFFSET",
        -14: "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST",
        -15: "CL_COMPILE_PROGRAM_FAILURE",
        -16: "CL_LINKER_NOT_AVAILABLE",
        -17: "CL_LINK_PROGRAM_FAILURE",
        -18: "CL_DEVICE_PARTITION_FAILED",
        -19: "CL_KERNEL_ARG_INFO_NOT_AVAILABLE",
        -30: "CL_INVALID_VALUE",
        -31: "CL_INVALID_DEVICE_TYPE",
        -32: "CL_INVALID_PLATFORM",
        INVALID_DEVICE: "CL_INVALID_DEVICE",
        INVALID_CONTEXT: "CL_INVALID_CONTEXT",
        -35: "CL_INVALID_QUEUE_PROPERTIES",
        INVALID_COMMAND_QUEUE: "CL_INVALID_COMMAND_QUEUE",
        -37: "CL_INVALID_HOST_PTR",
        -38: "CL_INVALID_MEM_OBJECT",
        -39: "CL_INVALID_IMAGE_FORMAT_DESCRIPTOR",
        -40: "CL_INVALID_IMAGE_SIZE",
        -41: "CL_INVALID_SAMPLER",
        -42: "CL_INVALID_BINARY",
        -43: "CL_INVALID_BUILD_OPTIONS",
        -44: "CL_INVALID_PROGRAM",
        -45: "CL_INVALID_PROGRAM_EXECUTABLE",
        -46: "CL_INVALID_KERNEL_NAME",
        -47: "CL_INVALID_KERNEL_DEFINITION",
        -48: "CL_INVALID_KERNEL",
        -49: "CL_INVALID_ARG_INDEX",
        -50: "CL_INVALID_ARG_VALUE",
        -51: "CL_INVALID_ARG_SIZE",
        -52: "CL_INVALID_KERNEL_ARGS",
        -53: "CL_INVALID_WORK_DIMENSION",
        -54: "CL_INVALID_WORK_GROUP_SIZE",
        -55: "CL_INVALID_WORK_ITEM_SIZE",
        -56: "CL_INVALID_GLOBAL_OFFSET",
        -57: "CL_INVALID_EVENT_WAIT_LIST",
        -58: "CL_INVALID_EVENT",
        -59: "CL_INVALID_OPERATION",
        -60: "CL_INVALID_GL_OBJECT",
        INVALID_BUFFER_SIZE: "CL_INVALID_BUFFER_SIZE",
        -62: "CL_INVALID_MIP_LEVEL",
        -63: "CL_INVALID_GLOBAL_WORK_SIZE",
        -64: "CL_INVALID_PROPERTY",
        -65: "CL_INVALID_IMAGE_DESCRIPTOR",
        -66: "CL_INVALID_COMPILER_OPTIONS",
        -67: "CL_INVALID_LINKER_OPTIONS",
        -68: "CL_INVALID_DEVICE_PARTITION_COUNT",
        -69: "CL_INVALID_PIPE_SIZE",
        -70: "CL_INVALID_DEVICE_QUEUE",
        -71: "CL_INVALID_SPEC_ID",
        -72: "CL_MAX_SIZE_RESTRICTION_EXCEEDED",
        -1001: "CL_PLATFORM_NOT_FOUND_KHR",
        NVIDIA_ILLEGAL_ACCESS: "an illegal read or write to a buffer (NVIDIA)",
    }
)

#: OpenCL's threads do not survive a fork.
OPENCL: Final = ForkUnsafeLibrary("OpenCL", "had used OpenCL", "uses it")

_LOST = frozenset(
    {
        DEVICE_NOT_FOUND,
        DEVICE_NOT_AVAILABLE,
        INVALID_DEVICE,
        INVALID_CONTEXT,
        INVALID_COMMAND_QUEUE,
        NVIDIA_ILLEGAL_ACCESS,
    }
)
_NO_MEMORY = frozenset({MEM_OBJECT_ALLOCATION_FAILURE, OUT_OF_HOST_MEMORY, INVALID_BUFFER_SIZE})
_BUILD_FAILURES = frozenset({BUILD_PROGRAM_FAILURE, -15, -17, -42, -43})

#: Number of lines of a build log that an error message contains.
_MAX_LOG_LINES = 12


def name(code: int) -> str:
    """Returns the symbolic name of an error code, followed by the code."""
    return f"{NAMES.get(code, 'unknown error code')} ({code})"


class DeviceState:
    """Tracks whether an open device is usable, and converts its errors. Thread-safe.

    Args:
        device: its name, for messages.
        is_nvidia: whether a failed kernel invalidates the context.
    """

    def __init__(self, device: str, *, is_nvidia: bool = False) -> None:
        self._device = device
        self._is_nvidia = is_nvidia
        self._lost: str | None = None
        at_fork(self)

    def forked(self) -> None:
        """Marks the device as lost in a forked child, which has none of OpenCL's threads."""
        self._lost = self._lost or OPENCL.cause

    @property
    def is_lost(self) -> bool:
        """True if the device was lost; this is permanent."""
        return self._lost is not None

    def check(self) -> None:
        """Raises an error if the device was lost.

        Raises:
            DeadObject: the device was lost earlier.
        """
        if self._lost is not None:
            raise DeadObject(f"{self._device} was lost earlier: {self._lost}")

    def error(
        self, code: int, operation: str, *, kernel: str = "", after_launch: bool = False, detail: str = ""
    ) -> Error:
        """Returns the error to raise for a code, and records the loss of the device.

        Args:
            code: any code but `SUCCESS`.
            operation: the failed operation, for messages, such as "launching" or "clFinish".
            kernel: the kernel concerned, if any.
            after_launch: whether the call waited for kernels, so that the code may report their
                failure.
            detail: further information, such as a build log.
        """
        what = f"{operation}{f' of kernel {kernel}' if kernel else ''}: {name(code)}"
        message = f"{self._device}: {what}"
        if code in _LOST or (code == OUT_OF_RESOURCES and after_launch and self._is_nvidia):
            self._lost = self._lost or what
            return DeadObject(f"{message}; the device is lost")
        if code in _BUILD_FAILURES:
            return OpFailed(f"{message}{_shortened(detail)}")
        if code in _NO_MEMORY or (code == OUT_OF_RESOURCES and not kernel and not after_launch):
            return OutOfMemory(message)
        return OpFailed(message)

    @contextmanager
    def guard(self, operation: str, *, kernel: str = "", after_launch: bool = False) -> Iterator[None]:
        """Converts pyopencl's exceptions into the project's errors.

        See `error` for the arguments.

        Raises:
            DeadObject: the device is lost, or was lost earlier.
            OutOfMemory: the device or the host lacks memory.
            OpFailed: anything else failed.
        """
        import pyopencl as cl

        self.check()
        try:
            yield
        except cl.Error as error:
            code = getattr(error, "code", None)
            if not isinstance(code, int):
                raise OpFailed(f"{self._device}: {operation}: {error}") from error
            raise self.error(
                code, operation, kernel=kernel, after_launch=after_launch, detail=str(error)
            ) from error


def _shortened(log: str) -> str:
    """Returns the most useful lines of a build log.

    These start with the first error, or with the first line if there is no error.
    """
    lines = [line.rstrip() for line in log.splitlines() if line.strip()]
    first = next((index for index, line in enumerate(lines) if "error:" in line.lower()), 0)
    chosen = lines[first : first + _MAX_LOG_LINES]
    if "unknown target CPU" in log:
        chosen.append(
            "this OpenCL runtime is too old for this CPU: install a newer one (Debian: pocl-opencl-icd)"
        )
    return "".join(f"\n  {line}" for line in chosen)
