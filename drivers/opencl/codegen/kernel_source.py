"""The text of a kernel, before it is part of a program."""

import hashlib
from dataclasses import dataclass

from neurald.drivers.compiler.ir.value import Value

#: What a text calls its function; the program replaces it by a name that follows from the text.
NAME = "KERNEL_NAME"
#: Bytes at the beginning of a workspace in which kernels count.
WORKSPACE_ZEROS = 16384
#: Where a function of a kernel that runs all phases waits, before it reads what another phase has written: until then it gets what never changes.
#: Its parameters end with `MEETING`, and whoever hands those on to another function ends with `HANDED_ON`.
WAIT, MEETING, HANDED_ON = "NEURALD_WAIT", "NEURALD_MEETING", "NEURALD_HANDED_ON"


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A kernel as a function that computes the share of one work-group.

    The function is `static void KERNEL_NAME(const int group, const int lid, __local uchar *scratch, <arguments>,
    __global int *status)`, with `group` from 0 to `groups` - 1 and `lid` from 0 to `local_size` - 1: it never asks OpenCL
    where it is, so that one kernel can run the groups of many functions. Every work-item calls it, and every work-item
    gets to each of its barriers. An argument is a pointer to `__global` memory of the value's stored type; the
    first is the output, the only one that is written. Those in `images` are an `image1d_buffer_t` instead, and behind it an `int`:
    which texel has the value's first elements. `status` is left alone unless a requirement fails.

    Two kernels that differ only in the memory that they work on have the same text.

    With `workspace_bytes`, the function takes `__global uchar *workspace` before `status`: memory of at least so many bytes,
    the first `WORKSPACE_ZEROS` of which are zero whenever it starts, and again when it is done. Kernels that run one after
    another may share it.

    Attributes:
        text: the function, and before it what only it needs, with `KERNEL_NAME` in every name at file scope.
        arguments: the values, in the order of the function's pointers; the output first.
        images: the positions of the arguments that are images.
        adds: whether it adds to what the output holds, which is zero before.
        workspace_bytes: of global memory, aligned to 16.
        scratch_bytes: of local memory at `scratch`, aligned to 16.
        has_barriers: whether the function has any; its groups then take a whole work-group of exactly `local_size`.
        label: for people: operations, and how they are computed.
        operations: the positions in the model of the operations that it stands for.
    """

    text: str
    arguments: tuple[Value, ...]
    groups: int
    local_size: int
    scratch_bytes: int = 0
    workspace_bytes: int = 0
    has_barriers: bool = False
    label: str = ""
    operations: tuple[int, ...] = ()
    images: tuple[int, ...] = ()
    adds: bool = False

    @property
    def waits(self) -> bool:
        """Whether it waits itself, with `WAIT`, for what other kernels have computed."""
        return WAIT in self.text

    @property
    def name(self) -> str:
        """A C identifier that follows from the text."""
        return f"k{hashlib.blake2s(self.text.encode(), digest_size=8).hexdigest()}"
