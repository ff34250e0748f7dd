"""What routines of fast kernels have in common: parameters, and the text around instructions."""

from collections.abc import Sequence

from neurald.drivers.compiler.ir.expression import Load
from neurald.drivers.compiler.ir.graph import Value
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.traversal import walk
from neurald.drivers.cpu.epilogue import parameters
from neurald.drivers.cpu.instructions import Instructions
from neurald.drivers.cpu.kernels.tile import CYCLES_PER_NS
from neurald.drivers.cpu.routine import NAME, Subroutine

#: What a core reads from the cache that is furthest away, roughly.
_BYTES_PER_NS = 14.0


def arguments_with(kernel: Kernel, operands: Sequence[Value]) -> tuple[Value, ...]:
    """What a function takes: the output, operands in the form in which it reads them, and what the kernel's body reads."""
    loaded = (each.value for each in walk(*kernel.roots) if isinstance(each, Load))
    return tuple(dict.fromkeys((kernel.output, *operands, *loaded)))


def function_text(code: Instructions, arguments: Sequence[Value]) -> str:
    """The function of the instructions, see `Routine`."""
    head = f"define void @{NAME}({parameters(arguments)}) nounwind {{"
    return "\n".join((*code.globals, head, *code.lines, "  ret void", "}", ""))


def subroutine_of(code: Instructions, parameters: Sequence[tuple[str, str]]) -> Subroutine:
    """The subroutine of the instructions.

    Args:
        code: what it does.
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
    """About how long a thread takes.

    Args:
        cycles: what instructions take.
        arguments: what is brought from memory, or at least from the cache that is furthest away.
    """
    return max(cycles / CYCLES_PER_NS, sum(value.size_bytes for value in arguments) / _BYTES_PER_NS)
