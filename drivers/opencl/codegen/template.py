"""C with `$NAME` for what differs between kernels.

Sizes that differ between kernels of the same kind are written as `z_<name>`. In the end they become numbers; or, where code that
is run for the first time costs more than numbers that are not known to the compiler (on GPUs, whose caches of instructions are
small, in a kernel that runs many layers), parameters of a function that all kernels of a kind call. Functions that use
sizes take them, and are called with them, at `@PARAMETERS` and `@SIZES`.
"""

import hashlib
import re
import string
from collections.abc import Mapping, Sequence

from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.codegen.arguments import Arguments
from neurald.drivers.opencl.codegen.kernel_source import HANDED_ON, MEETING, NAME, WAIT

#: The beginning of a function, up to its brace.
FUNCTION = "@FUNCTION\n"


def fill(text: str, **names: object) -> str:
    """The text with names replaced; `$KERNEL` is that of the kernel's function. KeyError: one is not given."""
    return string.Template(text).substitute(KERNEL=NAME, **{key: str(each) for key, each in names.items()})


def arguments(
    output: Value, operands: Sequence[Value], used: Sequence[Value], images: frozenset[Value] = frozenset()
) -> Arguments:
    """The arguments of a kernel's function: a0 is the output, a1 and a2 the operands, then what the epilogue reads.

    Args:
        output, operands, used: what they are.
        images: those among them that are images.
    """
    return Arguments((output, *operands, *(value for value in used if value not in operands)), images)


def resolved(text: str, head: str, sizes: Mapping[str, int], *, is_shared: bool) -> str:
    """A function's text with its sizes.

    Args:
        text: what the function needs, and the function itself, which begins with `FUNCTION`.
        head: its parameters, without those for sizes.
        sizes: by name, those that the text has and any others.
        is_shared: whether the function is one that others with the same text call too.
    """
    named = set(re.findall(r"\bz_(\w+)", text))
    used = [name for name in sizes if name in named]
    meeting, waiting = (f" {MEETING}", f" {HANDED_ON}") if WAIT in text else ("", "")
    if not is_shared:
        text = re.sub(r"\bz_(\w+)", lambda found: str(sizes[found[1]]), text)
        text = text.replace("@PARAMETERS", "").replace("@SIZES", "")
        return text.replace(FUNCTION, f"static void {NAME}({head}{meeting}) {{\n")
    taken = "".join(f", const int z_{name}" for name in used)
    handed_on = "".join(f", z_{name}" for name in used)
    whole = text.replace("@PARAMETERS", taken).replace("@SIZES", handed_on)
    whole = whole.replace(
        FUNCTION, f"static __attribute__((noinline)) void {NAME}({head}{taken}{meeting}) {{\n"
    )
    name = f"neurald_{hashlib.blake2s(whole.encode(), digest_size=8).hexdigest()}"
    arguments_text = ", ".join(part.rsplit(" ", 1)[1].lstrip("*") for part in head.split(", "))
    numbers = "".join(f", {sizes[each]}" for each in used)
    return (
        f"#ifndef {name}_is_there\n#define {name}_is_there\n{whole.replace(NAME, name)}#endif\n"
        f"static void {NAME}({head}{meeting}) {{\n  {name}({arguments_text}{numbers}{waiting});\n}}\n"
    )
