"""Helpers of specialised routines: arguments and function text."""

from collections.abc import Sequence

from neurald.drivers.compiler.ir.expression import Load
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.traversal import walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.cpu.codegen.epilogue import parameters
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.kernels.common.tile import CYCLES_PER_NS
from neurald.drivers.cpu.target.routine import NAME, Subroutine

#: Approximate bandwidth of a core from the last-level cache.
_BYTES_PER_NS = 14.0


def arguments_with(kernel: Kernel, operands: Sequence[Value]) -> tuple[Value, ...]:
    """Returns the arguments of a function: the output, operands, and other values that it reads.

    Args:
        kernel: the kernel.
        operands: operands of its contraction, as they were packed or converted.
    """
    loaded = (each.value for each in walk(*kernel.roots) if isinstance(each, Load))
    return tuple(dict.fromkeys((kernel.output, *operands, *loaded)))


def function_text(code: Instructions, arguments: Sequence[Value]) -> str:
    """Returns the text of the function, see `Routine`."""
    head = f"define void @{NAME}({parameters(arguments)}) nounwind {{"
    return "\n".join((*code.globals, head, *code.lines, "  ret void", "}", ""))


def subroutine_of(code: Instructions, parameters: Sequence[tuple[str, str]]) -> Subroutine:
    """Returns the instructions as a subroutine.

    Args:
        code: its body.
        parameters: their types and names.
    """
    typed = ", ".join(f"{kind} {name}" for kind, name in parameters)
    head = f"define void @{NAME}({typed}) nounwind {{"
    return Subroutine(
        text="\n".join((*code.globals, head, *code.lines, "  ret void", "}", "")),
        parameters=tuple(kind for kind, _ in parameters),
        declarations=frozenset(code.declarations),
    )


def cost_ns(cycles: float, arguments: Sequence[Value]) -> float:
    """Returns the estimated time on one thread.

    Args:
        cycles: the cycles of the instructions.
        arguments: brought from memory, or at least from the last-level cache.
    """
    return cost_of_bytes_ns(cycles, sum(value.size_bytes for value in arguments))


def cost_of_bytes_ns(cycles: float, size_bytes: float) -> float:
    """Returns the estimated time on one thread of code that reads parts of its arguments.

    Args:
        cycles: the cycles of the instructions.
        size_bytes: number of bytes that are read and written.
    """
    return max(cycles / CYCLES_PER_NS, size_bytes / _BYTES_PER_NS)
