"""A compiled step as data: everything needed to run it on a device.

All values lie in two buffers, see `neurald.drivers.compiler.memory.buffer_assignment`.
"""

import msgspec

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.memory.buffer_location import BufferLocation, Port
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.runtime.persistent_kernel import ABORTED

#: Offset in the zeroed range of the abort flag of a persistent kernel. The status words of calls
#: follow it.
FLAGS = 4 * ABORTED


class ImageUse(msgspec.Struct, frozen=True, array_like=True):
    """Argument that is read through an image.

    Attributes:
        argument: its position.
        type: the type of its elements.
        size_bytes: the size of the value.
    """

    argument: int
    type: Scalar
    size_bytes: int


def image_uses(source: Source) -> tuple[ImageUse, ...]:
    """Lists the arguments of a source that are images."""
    return tuple(
        ImageUse(position, source.arguments[position].type, source.arguments[position].size_bytes)
        for position in source.images
    )


class KernelCall(msgspec.Struct, frozen=True, array_like=True):
    """One kernel of the step, which runs after its predecessors.

    Attributes:
        kernel: its name in the program.
        locations: the locations of its arguments, the written one first.
        status: the index of its status word, from 1 on; 0 if it has no requirements.
        workspace: the offset of its workspace in the arena (`Source.workspace_bytes`); None if it
            needs none.
        messages: the meanings of failed requirements; the first has number 1.
        label: how the kernel computes, for profiles.
        operations: the positions in the model of the operations that it implements.
        images: the arguments that are images.
        where: how messages name the operations.
        extents: the values of `Source.extents`.
        numbers: those of `Source.numbers`.
    """

    kernel: str
    locations: tuple[BufferLocation, ...]
    groups: int
    local_size: int
    status: int = 0
    workspace: int | None = None
    messages: tuple[str, ...] = ()
    label: str = ""
    operations: tuple[int, ...] = ()
    images: tuple[ImageUse, ...] = ()
    where: str = ""
    extents: tuple[int, ...] = ()
    numbers: tuple[int, ...] = ()


class Executable(msgspec.Struct, frozen=True, array_like=True):
    """Compiled step.

    Attributes:
        arena_bytes, constants_bytes: the sizes of the buffers.
        zeros, zeros_bytes: the range of the arena that is 0 before the first run and after each
            successful one. It starts with the memory of the grid barrier (see `persistent_kernel`),
            followed by the status words of the calls.
        persistent: a kernel that runs all calls at once, where that is faster; else None.
        fetches: whether its phases fetch what later ones read.
        unshared_bytes: the size that the arena would have if no two values shared memory.
        text: the program with the kernels of `calls`; empty if the step comes from a cache, where a
            binary replaces it. A persistent kernel has its own program, and the binary is then of
            that one.
    """

    calls: tuple[KernelCall, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    arena_bytes: int
    constants_bytes: int
    unshared_bytes: int
    zeros: int
    zeros_bytes: int
    text: str = ""
    persistent: KernelCall | None = None
    fetches: bool = False

    @property
    def flags_bytes(self) -> int:
        """Size of what is read back after a run: the abort flag and the status words.

        The size is 0 if there are none.
        """
        statuses = sum(1 for call in self.calls if call.status)
        return 4 * (1 + statuses) if statuses or self.persistent is not None else 0


class Improvement(msgspec.Struct, frozen=True, array_like=True):
    """A faster way to run a step, whose program takes long to build.

    Attributes:
        executable: the step with a persistent kernel.
        text: the text of its program.
    """

    executable: Executable
    text: str
