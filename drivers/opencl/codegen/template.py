"""Fills C templates, with `$NAME` for what differs between kernels.

Sizes that differ between kernels of the same kind are written as `z_<name>`. They become numbers;
or parameters of a function that all kernels of a kind share, where fetching new code costs more
than constants save (on GPUs, whose instruction caches are small, in a kernel that runs many
layers). Functions that use sizes declare them at `@PARAMETERS` and are called with them at
`@SIZES`.
"""

import hashlib
import re
import string
from collections.abc import Mapping, Sequence

from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.codegen.arguments import Arguments
from neurald.drivers.opencl.codegen.kernel_source import NAME, WAIT, WAIT_ARGUMENTS, WAIT_PARAMETERS

#: The beginning of a function, up to its brace.
FUNCTION = "@FUNCTION\n"


def fill(text: str, **names: object) -> str:
    """Replaces names in a text; `$KERNEL` is the name of the kernel's function.

    KeyError: a name is missing.
    """
    return string.Template(text).substitute(KERNEL=NAME, **{key: str(each) for key, each in names.items()})


def arguments(
    output: Value, operands: Sequence[Value], used: Sequence[Value], images: frozenset[Value] = frozenset()
) -> Arguments:
    """Returns the arguments of a kernel's function.

    The output a0, the operands a1 and a2, then the epilogue's inputs.

    Args:
        output, operands, used: the values.
        images: those of them that are images.
    """
    return Arguments((output, *operands, *(value for value in used if value not in operands)), images)


def resolved(text: str, head: str, sizes: Mapping[str, int], *, is_shared: bool) -> str:
    """Returns a function's text with its sizes resolved.

    Args:
        text: the helpers, and the function itself, which begins with `FUNCTION`.
        head: its parameters, without those for sizes.
        sizes: values by name; may contain others than those in the text.
        is_shared: whether other kernels with the same text call the same function.
    """
    named = set(re.findall(r"\bz_(\w+)", text))
    used = [name for name in sizes if name in named]
    parameters, waits = (f" {WAIT_PARAMETERS}", f" {WAIT_ARGUMENTS}") if WAIT in text else ("", "")
    if not is_shared:
        text = re.sub(r"\bz_(\w+)", lambda found: str(sizes[found[1]]), text)
        text = text.replace("@PARAMETERS", "").replace("@SIZES", "")
        return text.replace(FUNCTION, f"static void {NAME}({head}{parameters}) {{\n")
    taken = "".join(f", const int z_{name}" for name in used)
    size_arguments = "".join(f", z_{name}" for name in used)
    whole = text.replace("@PARAMETERS", taken).replace("@SIZES", size_arguments)
    whole = whole.replace(
        FUNCTION, f"static __attribute__((noinline)) void {NAME}({head}{taken}{parameters}) {{\n"
    )
    name = f"neurald_{hashlib.blake2s(whole.encode(), digest_size=8).hexdigest()}"
    arguments_text = ", ".join(part.rsplit(" ", 1)[1].lstrip("*") for part in head.split(", "))
    numbers = "".join(f", {sizes[each]}" for each in used)
    return (
        f"#ifndef {name}_is_there\n#define {name}_is_there\n{whole.replace(NAME, name)}#endif\n"
        f"static void {NAME}({head}{parameters}) {{\n  {name}({arguments_text}{numbers}{waits});\n}}\n"
    )
