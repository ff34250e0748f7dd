"""A compiled step as data: everything that it takes to run it on a device, and nothing of how it came about.

All values lie in two buffers, see `neurald.drivers.compiler.memory.buffer_assignment`.
"""

import msgspec

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.memory.buffer_assignment import BufferLocation, Port
from neurald.drivers.opencl.codegen.kernel_source import Source
from neurald.drivers.opencl.runtime.persistent_kernel import GAVE_UP

#: Where in the zeros a persistent kernel says that a work-group gave up. What calls say of their requirements comes behind.
FLAGS = 4 * GAVE_UP


class ImageUse(msgspec.Struct, frozen=True, array_like=True):
    """An argument that is read through an image.

    Attributes:
        argument: its position.
        type: of its elements.
        size_bytes: of the value.
    """

    argument: int
    type: Scalar
    size_bytes: int


def image_uses(source: Source) -> tuple[ImageUse, ...]:
    """The arguments of a source that are images."""
    return tuple(
        ImageUse(position, source.arguments[position].type, source.arguments[position].size_bytes)
        for position in source.images
    )


class Call(msgspec.Struct, frozen=True, array_like=True):
    """One kernel of the step, to run after those before it.

    Attributes:
        kernel: its name in the program.
        places: its arguments, the one that is written first.
        status: which of the step's statuses is its own, from 1 on; 0 where it has no requirements.
        workspace: where in the arena its workspace is (`Source.workspace_bytes`); none where it needs none.
        messages: what a failed requirement means; the first is number 1.
        label: how the kernel computes, for profiles.
        operations: the positions in the model of the operations that it stands for.
        images: the arguments that are images.
        where: how messages name the operations.
    """

    kernel: str
    places: tuple[BufferLocation, ...]
    groups: int
    local_size: int
    status: int = 0
    workspace: int | None = None
    messages: tuple[str, ...] = ()
    label: str = ""
    operations: tuple[int, ...] = ()
    images: tuple[ImageUse, ...] = ()
    where: str = ""


class Executable(msgspec.Struct, frozen=True, array_like=True):
    """A step.

    Attributes:
        arena_bytes, constants_bytes: of the buffers.
        zeros, zeros_bytes: a part of the arena that is 0 before the first run, and after each that succeeds. It begins with
            what work-groups meet with (see `persistent_kernel`), and what calls say of their requirements follows.
        persistent: a kernel that runs all calls at once, where that is faster; None where it is not.
        unshared_bytes: what the arena would have if no two values shared bytes.
        text: the program with the kernels of `calls`; empty in what comes from a cache, where a binary stands for it. A
            persistent kernel has a program of its own, which that binary is then of.
    """

    calls: tuple[Call, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    arena_bytes: int
    constants_bytes: int
    unshared_bytes: int
    zeros: int
    zeros_bytes: int
    text: str = ""
    persistent: Call | None = None

    @property
    def flags_bytes(self) -> int:
        """Of what is to be looked at after a run: whether a work-group gave up, and the statuses. 0: nothing is."""
        statuses = sum(1 for call in self.calls if call.status)
        return 4 * (1 + statuses) if statuses or self.persistent is not None else 0
