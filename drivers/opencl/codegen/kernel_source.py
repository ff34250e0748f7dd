"""Text of a kernel, independent of the program that it becomes part of."""

import hashlib
from dataclasses import dataclass

from neurald.drivers.compiler.ir.extents.extent import Extent
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.codegen.lazy_code import LazyCode

#: Placeholder for the name of a text's function; the program replaces it by a name derived from the
#: text.
NAME = "KERNEL_NAME"
#: Bytes at the start of a workspace that hold the kernels' counters.
WORKSPACE_ZEROS = 16384
#: Marks the point in a phase of the persistent kernel that must wait for earlier phases. Code
#: before it may only load constants. The function's parameters end with `WAIT_PARAMETERS`, and
#: calls that pass these on end with `WAIT_ARGUMENTS`.
WAIT, WAIT_PARAMETERS, WAIT_ARGUMENTS = "NEURALD_WAIT", "NEURALD_MEETING", "NEURALD_HANDED_ON"


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Kernel as a function that does the work of one work-group.

    The function is `static void KERNEL_NAME(const int group, const int lid, __local uchar *scratch,
    <arguments>, __global int *status)`, with `group` from 0 to `groups` - 1 and `lid` from 0 to
    `local_size` - 1. It never queries OpenCL's indices, so that one kernel can run the groups of
    many functions. Every work-item calls it and reaches each of its barriers. An argument is a
    pointer to `__global` memory of the value's stored type; the first is the output, and only that
    and those in `also_written` are written. Those in `images` are an `image1d_buffer_t` instead,
    followed by an `int`: the index of the value's first texel. `status` is only written if a
    requirement fails.

    Two kernels that differ only in the memory that they access have the same text.

    With `workspace_bytes`, the function takes `__global uchar *workspace` before `status`: memory
    of at least that size, whose first `WORKSPACE_ZEROS` bytes are zero whenever the function
    starts, and again when it ends. Kernels that run one after another may share it.

    Attributes:
        code: the function and the helpers that only it needs, with `KERNEL_NAME` in every name at
            file scope, and the numbers that the function takes, as `int` parameters behind all
            others.
        arguments: the values, in the order of the function's pointers; the output first.
        images: the positions of the arguments that are images.
        also_written: the positions of the arguments that are written besides the output.
        adds: whether the function adds to the output, which must be zero before.
        is_retargeted: whether the function needs `platform.retargeting`; then it runs only as a
            separate kernel, and local memory is aligned to 1,024 bytes.
        workspace_bytes: size of the global workspace, aligned to 16.
        scratch_bytes: size of the local memory at `scratch`, aligned to 16.
        has_barriers: whether the function contains barriers; its groups then take a whole
            work-group of exactly `local_size`.
        label: the operations and the method, for display.
        operations: the positions in the model of the operations that it implements.
        extents: lengths that are known at run time, as `int` parameters before all others, see
            `run_time_extents`. Then `groups` and the sizes of arguments may be extents, too.
    """

    code: LazyCode
    arguments: tuple[Value, ...]
    groups: int
    local_size: int
    scratch_bytes: int = 0
    workspace_bytes: int = 0
    has_barriers: bool = False
    label: str = ""
    operations: tuple[int, ...] = ()
    images: tuple[int, ...] = ()
    also_written: tuple[int, ...] = ()
    adds: bool = False
    is_retargeted: bool = False
    extents: tuple[Extent, ...] = ()

    @property
    def text(self) -> str:
        """The text of `code`."""
        return self.code.text

    @property
    def numbers(self) -> tuple[int, ...]:
        """The values of the last parameters, which differ between layers of equal shape."""
        return self.code.numbers

    @property
    def written(self) -> tuple[int, ...]:
        """Positions of the arguments that the function writes."""
        return (0, *self.also_written)

    @property
    def waits(self) -> bool:
        """True if the function contains `WAIT`."""
        return WAIT in self.text

    @property
    def name(self) -> str:
        """C identifier derived from the text."""
        return f"k{hashlib.blake2s(self.text.encode(), digest_size=8).hexdigest()}"
