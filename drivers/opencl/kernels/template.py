"""C with `$NAME` for what differs between kernels."""

import string
from collections.abc import Sequence

from neurald.drivers.compiler.graph import Value
from neurald.drivers.opencl.source import NAME


def fill(text: str, **names: object) -> str:
    """The text with names replaced; `$KERNEL` is that of the kernel's function. KeyError: one is not given."""
    return string.Template(text).substitute(KERNEL=NAME, **{key: str(each) for key, each in names.items()})


def arguments(output: Value, operands: Sequence[Value], used: Sequence[Value]) -> tuple[Value, ...]:
    """The arguments of a kernel's function: a0 is the output, a1 and a2 the operands, then what the epilogue reads."""
    return (output, *operands, *(value for value in used if value not in operands))
