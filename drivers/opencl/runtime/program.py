"""Programs of OpenCL C, built from source or loaded from a binary, and their kernels.

A binary is complete only after each kernel was launched, because some runtimes compile a kernel at
its first launch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Self

import msgspec

from neurald.drivers.opencl.codegen.program_text import KernelTexts
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.platform.program_cache import source_key
from neurald.drivers.opencl.platform.retargeting import is_retargeted, retargeted
from neurald.drivers.opencl.runtime.native_kernel import NativeKernel
from neurald.drivers.opencl.runtime.program_code import code_of
from neurald.hal.decoding import from_msgpack
from neurald.hal.errors import OpFailed
from neurald.hal.process.fork import keep_in_children

if TYPE_CHECKING:
    import pyopencl as cl

    from neurald.drivers.opencl.runtime.native_kernel import KernelArgument

#: Size of the checksum before the code in a binary.
_CHECKSUM_BYTES: Final = 32


class BuiltProgram:
    """Built program and its kernels.

    Text that was built before for the same device is not built again: `from_source` reuses whole
    programs, and `of_kernels` single kernels.
    """

    def __init__(
        self, device: DeviceContext, program: cl.Program, others: Mapping[str, cl.Program] | None = None
    ) -> None:
        """See `from_source`, `of_kernels` and `from_binary`.

        Args:
            device: the device it is built for.
            program: the program built by OpenCL.
            others: kernels that are in other programs, which were built earlier.
        """
        self._device = device
        self._program = program
        self._others = dict(others or {})
        keep_in_children(self)

    @classmethod
    def from_source(cls, device: DeviceContext, source: str, options: Sequence[str] = ()) -> Self:
        """Compiles OpenCL C.

        Args:
            device: the device to build for.
            source: the text of the program.
            options: compiler options, such as "-cl-fast-relaxed-math", in addition to those of the
                device.

        Raises:
            OpFailed: compilation failed; the message has the relevant lines of the log.
            Error: the device failed.
        """
        options = (*device.facts.build_options, *options)
        key = source_key(source, options)
        built = device.programs.find(key)
        if built is None:
            built = _built_from(device, source, options)
            device.programs.add([key], built)
        return cls(device, built)

    @classmethod
    def of_kernels(cls, device: DeviceContext, kernels: KernelTexts) -> Self:
        """Compiles those kernels of a step that the device has not built for other steps.

        Args:
            device: the device to build for.
            kernels: their texts.

        Raises:
            OpFailed: compilation failed; the message has the relevant lines of the log.
            Error: the device failed.
        """
        known = _built_kernels(device, kernels)
        missing = kernels.alone().keys() - known.keys()
        if known and not missing:
            return cls(device, next(iter(known.values())), known)
        built = cls(device, _built_from(device, kernels.together(missing), device.facts.build_options), known)
        built.share(kernels, missing)
        return built

    def share(self, kernels: KernelTexts, names: Collection[str]) -> None:
        """Makes kernels of this program available to `of_kernels` for the same texts."""
        texts, options = kernels.alone(), self._device.facts.build_options
        self._device.programs.add([source_key(texts[name], options) for name in names], self._program)

    @classmethod
    def from_binary(cls, device: DeviceContext, binary: bytes) -> Self:
        """Loads the value of `binary` from the same device and driver (`DeviceFacts.digest`).

        The bytes become machine code, so they must come from a trusted source.

        Raises:
            OpFailed: the binary is damaged, of another device or driver, or refused by the runtime.
            Error: the device failed.
        """
        content = binary[_CHECKSUM_BYTES:]
        if not content or _checksum(device, content) != binary[:_CHECKSUM_BYTES]:
            raise OpFailed(
                f"OpenCL device {device.facts.name}: the binary is damaged or was built for another device"
            )
        programs: list[cl.Program] = []
        others: dict[str, cl.Program] = {}
        for names, code in from_msgpack(content, list[tuple[list[str], bytes]]):
            programs.append(_loaded(device, code, ()))
            others.update(dict.fromkeys(names, programs[-1]))
        return cls(device, programs[0], others)

    @property
    def binary(self) -> bytes:
        """The built program in a form for `from_binary`.

        It is complete only after every kernel was launched.

        Raises:
            OpFailed: the runtime provides none.
        """
        parts: list[tuple[list[str], bytes]] = [([], code_of(self._device, self._program))]
        for program in dict.fromkeys(self._others.values()):
            names = [name for name, other in self._others.items() if other is program]
            parts.append((names, code_of(self._device, program)))
        content = msgspec.msgpack.encode(parts)
        return _checksum(self._device, content) + content

    def kernel(self, name: str, arguments: Sequence[KernelArgument]) -> NativeKernel:
        """Creates a kernel of that name with its own arguments, which the caller must keep.

        Raises:
            OpFailed: the program has no such kernel, or it has other parameters.
        """
        return NativeKernel(self._device, self._others.get(name, self._program), name, arguments)


def missing_kernels(device: DeviceContext, kernels: KernelTexts) -> set[str]:
    """Returns the names of the kernels that the device has not built for other steps."""
    return kernels.alone().keys() - _built_kernels(device, kernels).keys()


def _built_kernels(device: DeviceContext, kernels: KernelTexts) -> dict[str, cl.Program]:
    options = device.facts.build_options
    found = {name: device.programs.find(source_key(text, options)) for name, text in kernels.alone().items()}
    return {name: program for name, program in found.items() if program is not None}


def _built_from(device: DeviceContext, source: str, options: Sequence[str]) -> cl.Program:
    import pyopencl as cl

    built = _built(device, cl.Program(device.context, source), options)
    if is_retargeted(source):
        built = _loaded(device, retargeted(code_of(device, built)), options)
    return built


def _loaded(device: DeviceContext, code: bytes, options: Sequence[str]) -> cl.Program:
    import pyopencl as cl

    with device.state.guard("loading a binary"):
        program = cl.Program(device.context, [device.facts.handle], [code])
    return _built(device, program, options)


def _built(device: DeviceContext, program: cl.Program, options: Sequence[str]) -> cl.Program:
    with device.state.guard("building a program"):
        program.build(list(options))
    return program


def _checksum(device: DeviceContext, code: bytes) -> bytes:
    """Detects damaged code, on which runtimes crash. It does not protect against forgery."""
    return hashlib.sha256(device.facts.digest.encode() + b"\0" + code).digest()
