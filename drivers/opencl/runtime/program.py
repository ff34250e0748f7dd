"""Programs of OpenCL C: built from source or from a binary, with their kernels.

A binary is worth saving only once each kernel was launched: some runtimes compile a kernel when it is first launched.
A program's kernels are made once each and kept: pyopencl's `program.kernel` makes a new one at every look-up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Self

import msgspec

from neurald.drivers.opencl.codegen.program_text import KernelTexts
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.platform.known_programs import source_key
from neurald.hal.errors import OpFailed
from neurald.hal.process.fork import keep_in_children

if TYPE_CHECKING:
    import pyopencl as cl

#: Before the code in a binary.
_CHECKSUM_BYTES: Final = 32


class Program:
    """A program that is built, and its kernels.

    What was built before for the same device from the same source is not built again: programs whole, and steps kernel by kernel.
    A kernel has one set of arguments, so those who set different ones take kernels of their own with `new_kernel`.
    """

    def __init__(
        self, device: DeviceContext, program: cl.Program, others: Mapping[str, cl.Program] | None = None
    ) -> None:
        """See `from_source`, `of_kernels` and `from_binary`.

        Args:
            device: that it is built for.
            program: what OpenCL has built.
            others: kernels that are in other programs, which were built before.
        """
        self._device = device
        self._program = program
        self._others = dict(others or {})
        self._kernels: dict[str, cl.Kernel] = {}
        keep_in_children(self)

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

        options = (*device.facts.build_options, *options)
        key = source_key(source, options)
        built = device.programs.find(key)
        if built is None:
            built = _built(device, cl.Program(device.context, source), options)
            device.programs.add([key], built)
        return cls(device, built)

    @classmethod
    def of_kernels(cls, device: DeviceContext, kernels: KernelTexts) -> Self:
        """Compiles the kernels of a step, but for those that the device has from other steps.

        Args:
            device: what to build them for.
            kernels: their texts.

        Raises:
            OpFailed: they do not compile; the message has the lines of the log that matter.
            Error: the device failed.
        """
        import pyopencl as cl

        options = device.facts.build_options
        keys = {name: source_key(text, options) for name, text in kernels.alone().items()}
        found = {name: device.programs.find(key) for name, key in keys.items()}
        known = {name: program for name, program in found.items() if program is not None}
        missing = keys.keys() - known.keys()
        if known and not missing:
            return cls(device, next(iter(known.values())), known)
        built = _built(device, cl.Program(device.context, kernels.together(missing)), options)
        device.programs.add([keys[name] for name in missing], built)
        return cls(device, built, known)

    @classmethod
    def from_binary(cls, device: DeviceContext, binary: bytes, options: Sequence[str] = ()) -> Self:
        """Loads what `binary` gave for the same device and driver (`DeviceFacts.digest`).

        The bytes become machine code: they must come from somebody who may run code here.

        Raises:
            OpFailed: it is damaged, another device's or another driver's, or the runtime refuses it.
            Error: the device failed.
        """
        import pyopencl as cl

        content = binary[_CHECKSUM_BYTES:]
        if not content or _checksum(device, content) != binary[:_CHECKSUM_BYTES]:
            raise OpFailed(f"OpenCL device {device.facts.name}: the binary is damaged, or another device's")
        programs: list[cl.Program] = []
        others: dict[str, cl.Program] = {}
        for names, code in msgspec.msgpack.decode(content, type=list[tuple[list[str], bytes]]):
            with device.state.guard("loading a binary"):
                program = cl.Program(device.context, [device.facts.handle], [code])
            programs.append(_built(device, program, options))
            others.update(dict.fromkeys(names, programs[-1]))
        return cls(device, programs[0], others)

    @property
    def binary(self) -> bytes:
        """The program as this driver keeps it, for `from_binary`. Ask once every kernel was launched.

        Raises:
            OpFailed: the runtime has none.
        """
        parts: list[tuple[list[str], bytes]] = [([], _code_of(self._device, self._program))]
        for program in dict.fromkeys(self._others.values()):
            names = [name for name, other in self._others.items() if other is program]
            parts.append((names, _code_of(self._device, program)))
        content = msgspec.msgpack.encode(parts)
        return _checksum(self._device, content) + content

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
            return cl.Kernel(self._others.get(name, self._program), name)

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


def _code_of(device: DeviceContext, program: cl.Program) -> bytes:
    import pyopencl as cl

    with device.state.guard("reading a binary"):
        binaries = program.get_info(cl.program_info.BINARIES)
    if not isinstance(binaries, list) or not binaries or not binaries[0]:
        raise OpFailed(f"OpenCL device {device.facts.name} gives no binary of a program")
    return bytes(binaries[0])


def _checksum(device: DeviceContext, code: bytes) -> bytes:
    """Runtimes crash on damaged code. Against forgery it is no help."""
    return hashlib.sha256(device.facts.digest.encode() + b"\0" + code).digest()
