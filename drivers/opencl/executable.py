"""A compiled step as data: everything that it takes to run it on a device, and nothing of how it came about.

All values lie in two buffers, see `neurald.drivers.compiler.placement`.
"""

import msgspec

from neurald.drivers.compiler.placement import Place, Port


class Call(msgspec.Struct, frozen=True, array_like=True):
    """One kernel of the step, to run after those before it.

    Attributes:
        kernel: its name in the program.
        places: its arguments, the one that is written first.
        status: where in the arena it says which of its requirements failed; none where it has no requirements.
        workspace: where in the arena its workspace is (`Source.workspace_bytes`); none where it needs none.
        messages: what a failed requirement means; the first is number 1.
        label: how the kernel computes, for profiles.
        operations: the positions in the model of the operations that it stands for.
    """

    kernel: str
    places: tuple[Place, ...]
    groups: int
    local_size: int
    status: int | None = None
    workspace: int | None = None
    messages: tuple[str, ...] = ()
    label: str = ""
    operations: tuple[int, ...] = ()


class Executable(msgspec.Struct, frozen=True, array_like=True):
    """A step.

    Attributes:
        persistent: a kernel that runs all calls at once, where that is faster; None where it is not.
        arena_bytes, constants_bytes: of the buffers.
        workspace: where in the arena there are `workspace_bytes` that are 0 before the first run.
        unshared_bytes: what the arena would have if no two values shared bytes.
        text: the program; empty in what comes from a cache, where the binary stands for it.
    """

    calls: tuple[Call, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    arena_bytes: int
    constants_bytes: int
    unshared_bytes: int
    workspace: int = 0
    workspace_bytes: int = 0
    text: str = ""
    persistent: Call | None = None
