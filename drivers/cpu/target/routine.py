"""The code of a kernel, before it is part of a step's object code."""

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from neurald.drivers.compiler.ir.value import Value

#: What a text calls its function; it is replaced by a name that follows from the text.
NAME = "KERNEL_NAME"
#: Values and scratch memory begin at multiples of so many bytes.
ALIGNMENT = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class Subroutine:
    """A function that routines call: what many of them have in common, compiled once.

    Attributes:
        text: the function, `KERNEL_NAME`, which returns nothing.
        parameters: their types in LLVM's language.
        declarations: as for `Routine`.
    """

    text: str
    parameters: tuple[str, ...]
    declarations: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """A symbol that follows from the text."""
        return f"s{_digest(self.text)}"

    @property
    def declaration(self) -> str:
        """For those who call it."""
        return f"declare void @{self.name}({', '.join(self.parameters)})"


@dataclass(frozen=True, kw_only=True, slots=True)
class Routine:
    """A kernel as a function in LLVM's language, that computes a range of grains: parts that do not depend on each other.

    The function is `define void @KERNEL_NAME(ptr noalias %a0, ..., ptr %scratch, ptr %status, i64 %begin, i64 %end)`: it
    computes the grains `begin` to `end` - 1, where 0 ≤ `begin` ≤ `end` ≤ `grains`. Different threads compute different grains
    at the same time, each with `scratch` memory of its own. `%a0` is the output, the only argument that is written; constants
    begin at multiples of 64 bytes, other arguments at multiples of an element, since they may be parts of a value. `%status` (an i32) is left alone unless a requirement fails.

    Neither reads nor writes a byte outside of its arguments (as long as their values are) and its scratch memory.

    Two kernels that differ only in the memory that they work on have the same text.

    Attributes:
        text: the function, and before it globals that only it needs, with `KERNEL_NAME` in every name at file scope.
        declarations: declarations of functions outside, such as LLVM's intrinsics; each is a line of its own.
        arguments: the values, in the order of the function's pointers; the output first.
        cost_ns: about how long all grains take on one thread, to know what is worth being shared.
        scratch_bytes: what a thread needs, aligned to 64.
        label: for people: how it is computed.
        operations: the positions in the model of the operations that it stands for.
        subroutines: that the function calls; their declarations are among `declarations`.
    """

    text: str
    arguments: "tuple[Value, ...]"
    grains: int
    cost_ns: float
    declarations: frozenset[str] = frozenset()
    scratch_bytes: int = 0
    label: str = ""
    operations: tuple[int, ...] = ()
    subroutines: frozenset[Subroutine] = frozenset()

    @property
    def name(self) -> str:
        """A symbol that follows from the text."""
        return f"k{_digest(self.text)}"


def _digest(text: str) -> str:
    return hashlib.blake2s(text.encode(), digest_size=8).hexdigest()
