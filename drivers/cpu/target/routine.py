"""Routines: the LLVM IR of a kernel, and the properties that are needed to run it."""

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from neurald.hal.digests import name_of

if TYPE_CHECKING:
    from neurald.drivers.compiler.ir.extents.extent import Extent
    from neurald.drivers.compiler.ir.value import Value

#: Placeholder for the function's name, which is derived from a digest of the text.
NAME = "KERNEL_NAME"
#: Alignment of values and scratch memory, in bytes.
ALIGNMENT = 64
#: Alignment of NumPy's arrays, in bytes. Kernels only require that of elements, but are faster with
#: `ALIGNMENT`.
ARRAY_ALIGNMENT = 16


class Subroutine(Struct, frozen=True, kw_only=True):
    """A function shared by many routines, compiled once.

    Attributes:
        text: the IR of the function `KERNEL_NAME`, which returns nothing.
        parameters: their LLVM types.
        declarations: see `Routine`.
    """

    text: str
    parameters: tuple[str, ...]
    declarations: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """Symbol derived from a digest of the text."""
        return f"s{_digest(self.text)}"

    @property
    def declaration(self) -> str:
        """Declaration for callers."""
        return f"declare void @{self.name}({', '.join(self.parameters)})"


#: Kernels of more units do not say in which order they compute them: preparing models of large
#: tensors would take long, and much memory.
MAX_ORDERED_UNITS: Final = 1 << 14


class OrderedUnits(Struct, frozen=True, kw_only=True):
    """The positions of the output that ranges of work items compute, if they compute them in order.

    A position is the index of a row of the last dimension.

    Attributes:
        begins, ends: the first position that each unit computes, and the end of its positions.
            Neither decreases from unit to unit; units may compute some positions again.
        items: number of work items of a unit. They follow each other, and so do those of the next
            unit.
    """

    begins: tuple[int, ...]
    ends: tuple[int, ...]
    items: int


class Routine(Struct, frozen=True, kw_only=True):
    """An LLVM function that computes a range of a kernel's work items.

    A work item is an independent part of the output. The function is `define void @KERNEL_NAME(ptr
    noalias %a0, ..., ptr %scratch, ptr %status, i64 %begin, i64 %end)`. It computes the work items
    `begin` to `end` - 1, where 0 ≤ `begin` ≤ `end` ≤ `work_items`. Threads compute different work
    items concurrently, each with its own `scratch` memory. `%a0` is the output, the only argument
    that is written. Constants are aligned to 64 bytes, other arguments only to their elements,
    since they may be parts of a value. `%status` (an i32) is only written if a requirement fails.

    The function accesses no byte outside its arguments (as long as their values are) and its
    scratch memory. Kernels that only differ in the memory they work on have the same text.

    Attributes:
        text: the IR of the function and of globals that only it uses; every name at file scope
            contains `KERNEL_NAME`.
        declarations: external functions such as LLVM intrinsics, one line each.
        arguments: the values, in the order of the function's pointers; the output first.
        work_items: number of work items.
        cost_ns: estimated time for all work items on one thread, which decides about parallel
            execution.
        scratch_bytes: scratch memory per thread, aligned to 64.
        label: describes the algorithm, for profiles.
        operations: positions in the model of the operations that it implements.
        subroutines: functions that it calls; their declarations are among `declarations`.
        extents: lengths that the function reads from memory, one word of 64 bits each; a pointer to
            them follows those of the arguments.
        reads_program: True if a pointer to the memory of the step follows those of the arguments,
            which it writes like all arguments.
        reads_strings: True if a pointer to the sources of strings follows these pointers.
        may_reduce_nothing: True if a reduction over no elements yields its identity, although
            lengths that are not known are taken to be at least 1.
        may_read_nothing: True if it computes its result although values that it reads have no
            elements.
        units: the positions of work items, if they are known to be in order. They are for ranges
            that are not all work items, too.
    """

    text: str
    arguments: "tuple[Value, ...]"
    work_items: int
    cost_ns: float
    declarations: frozenset[str] = frozenset()
    scratch_bytes: int = 0
    label: str = ""
    operations: tuple[int, ...] = ()
    subroutines: frozenset[Subroutine] = frozenset()
    extents: "tuple[Extent, ...]" = ()
    reads_program: bool = False
    reads_strings: bool = False
    may_reduce_nothing: bool = False
    may_read_nothing: bool = False
    units: OrderedUnits | None = None

    @property
    def pointers(self) -> int:
        """Number of the function's pointers to arguments, extents, the step and strings."""
        return len(self.arguments) + bool(self.extents) + self.reads_program + self.reads_strings

    @property
    def name(self) -> str:
        """Symbol derived from a digest of the text."""
        return f"k{_digest(self.text)}"


def _digest(text: str) -> str:
    return name_of(text, 8)
