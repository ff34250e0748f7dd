"""Programs of OpenCL C: built from source or from a binary, with their kernels.

A binary is worth saving only once each kernel was launched: some runtimes compile a kernel when it is first launched.
A program's kernels are made once each and kept: pyopencl's `program.kernel` makes a new one at every look-up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Self

from neurald.drivers.opencl.platform import DeviceContext
from neurald.hal.errors import OpFailed

if TYPE_CHECKING:
    import pyopencl as cl

#: Before the code in a binary.
_CHECKSUM_BYTES: Final = 32


class Program:
    """A program that is built, and its kernels.

    A kernel has one set of arguments, so those who set different ones take kernels of their own with `new_kernel`.
    """

    def __init__(self, device: DeviceContext, program: cl.Program) -> None:
        """See `from_source` and `from_binary`."""
        self._device = device
        self._program = program
        self._kernels: dict[str, cl.Kernel] = {}

    @classmethod
    def from_source(cls, device: DeviceContext, source: str, options: Sequence[str] = ()) -> Self:
        """Compiles OpenCL C.

        Args:
            device: what to build it for.
            source: the text of the program.
            options: of the compiler, such as "-cl-fast-relaxed-math", besides those of the device.

        Raises:
            OpFailed: it does not compile; the message has the lines of the log that matter.
            Error: the device failed.
        """
        import pyopencl as cl

        program = cl.Program(device.context, source)
        return cls(device, _built(device, program, (*device.facts.build_options, *options)))

    @classmethod
    def from_binary(cls, device: DeviceContext, binary: bytes, options: Sequence[str] = ()) -> Self:
        """Loads what `binary` gave for the same device and driver (`DeviceFacts.digest`).

        The bytes become machine code: they must come from somebody who may run code here.

        Raises:
            OpFailed: it is damaged, another device's or another driver's, or the runtime refuses it.
            Error: the device failed.
        """
        import pyopencl as cl

        code = binary[_CHECKSUM_BYTES:]
        if not code or _checksum(device, code) != binary[:_CHECKSUM_BYTES]:
            raise OpFailed(f"OpenCL device {device.facts.name}: the binary is damaged, or another device's")
        with device.state.guard("loading a binary"):
            program = cl.Program(device.context, [device.facts.handle], [code])
        return cls(device, _built(device, program, options))

    @property
    def binary(self) -> bytes:
        """The program as this driver keeps it, for `from_binary`. Ask once every kernel was launched.

        Raises:
            OpFailed: the runtime has none.
        """
        import pyopencl as cl

        with self._device.state.guard("reading a binary"):
            binaries = self._program.get_info(cl.program_info.BINARIES)
        if not isinstance(binaries, list) or not binaries or not binaries[0]:
            raise OpFailed(f"OpenCL device {self._device.facts.name} gives no binary of a program")
        code = bytes(binaries[0])
        return _checksum(self._device, code) + code

    def kernel(self, name: str) -> cl.Kernel:
        """The kernel of that name, always the same one.

        Raises:
            OpFailed: the program has none of that name.
        """
        if name not in self._kernels:
            self._kernels[name] = self.new_kernel(name)
        return self._kernels[name]

    def new_kernel(self, name: str) -> cl.Kernel:
        """A kernel of that name with arguments of its own.

        Raises:
            OpFailed: the program has none of that name.
        """
        import pyopencl as cl

        with self._device.state.guard("making", kernel=name):
            return cl.Kernel(self._program, name)

    def work_group_limit(self, kernel: cl.Kernel) -> int:
        """How many work-items a group of that kernel may have on this device."""
        import pyopencl as cl

        with self._device.state.guard("asking about", kernel=kernel.function_name):
            return kernel.get_work_group_info(
                cl.kernel_work_group_info.WORK_GROUP_SIZE, self._device.facts.handle
            )


def _built(device: DeviceContext, program: cl.Program, options: Sequence[str]) -> cl.Program:
    with device.state.guard("building a program"):
        program.build(list(options))
    return program


def _checksum(device: DeviceContext, code: bytes) -> bytes:
    """Runtimes crash on damaged code. Against forgery it is no help."""
    return hashlib.sha256(device.facts.digest.encode() + b"\0" + code).digest()
