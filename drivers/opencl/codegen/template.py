"""Fills templates of OpenCL C, which lie in `.cl` files beside the modules that use them.

A line `//: [name] description` begins the template of that name, which ends before the blank line
that precedes the next one. All lines that begin with `//:` are comments for readers of the file,
and are not part of the generated code.

A placeholder is `$NAME`, or `${NAME}` if letters follow it. There are three kinds:

- `fill` replaces names in upper case. The replacement may contain placeholders, too. A placeholder
  that is alone on its line, without indentation, stands for whole lines, or for none if its
  replacement is empty. `$KERNEL` is the name of the kernel's function, and a prefix for names of
  helper functions.
- Names in lower case are sizes, which differ between kernels of the same kind. They become
  numbers, or parameters of a function that these kernels share, where fetching new code costs more
  than constants save (on GPUs, whose instruction caches are small, in a kernel that runs many
  layers). Or they become parameters of the kernel itself, which is then built once for all layers
  that differ only in these.
- `$FUNCTION` is the head of the kernel's function. Other functions that use sizes declare them at
  `$SIZE_PARAMETERS`, and are called with them at `$SIZE_ARGUMENTS`.

`resolved` or `with_numbers` replace sizes and the last group when the text is complete.
"""

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from neurald.drivers.compiler.ir.extents.extent import has_extents
from neurald.drivers.compiler.ir.extents.text import NAME_PREFIX
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.support.kernel_file import file_content
from neurald.drivers.opencl.codegen.arguments import KernelArguments
from neurald.drivers.opencl.codegen.kernel_source import NAME, WAIT, WAIT_ARGUMENTS, WAIT_PARAMETERS
from neurald.drivers.opencl.codegen.lazy_code import Code

#: Placeholders that `resolved` replaces.
FUNCTION: Final = "$FUNCTION"
SIZE_PARAMETERS: Final = "$SIZE_PARAMETERS"
SIZE_ARGUMENTS: Final = "$SIZE_ARGUMENTS"

_BEGIN = re.compile(r"^//: \[(\w+)\].*\n", re.MULTILINE)
_COMMENT = re.compile(r"^//:.*\n", re.MULTILINE)
_WHOLE_LINE = re.compile(r"^\$([A-Z][A-Z0-9_]*)\n", re.MULTILINE)
_PLACEHOLDER = re.compile(r"\$(?:([A-Z][A-Z0-9_]*)|\{([A-Z][A-Z0-9_]*)\})")
_SIZE = re.compile(r"\$([a-z]\w*)")
_LATER = frozenset((FUNCTION, SIZE_PARAMETERS, SIZE_ARGUMENTS))
#: Limit on the numbers that a kernel takes: every device takes 1,024 bytes of arguments.
_MAX_NUMBERS = 64


def templates(module: str, file: str) -> dict[str, str]:
    """Returns the templates in a file by name.

    Args:
        module: name of a module in the same folder as the file: the caller's `__name__`.
        file: name of the file, such as "tile.cl".

    Raises:
        FileNotFoundError: the file does not exist.
    """
    _, *parts = _BEGIN.split(file_content(module, file))
    return {
        name: _COMMENT.sub("", text).rstrip("\n") + "\n"
        for name, text in zip(parts[::2], parts[1::2], strict=True)
    }


def fill(text: str, **names: object) -> str:
    """Replaces placeholders in upper case, and those in their replacements.

    A replacement inside a line loses its last line end.

    Raises:
        KeyError: a placeholder has no replacement.
    """

    def filled(name: str) -> str:
        replacement = NAME if name == "KERNEL" else str(names[name])
        return fill(replacement, **names) if "$" in replacement else replacement

    def whole_lines(found: re.Match[str]) -> str:
        replacement = filled(found[1])
        return f"{replacement}\n" if replacement and not replacement.endswith("\n") else replacement

    def part_of_line(found: re.Match[str]) -> str:
        return found[0] if found[0] in _LATER else filled(found[1] or found[2]).removesuffix("\n")

    return _PLACEHOLDER.sub(part_of_line, _WHOLE_LINE.sub(whole_lines, text))


def kernel_arguments(
    output: Value, operands: Sequence[Value], used: Sequence[Value], images: frozenset[Value] = frozenset()
) -> KernelArguments:
    """Returns the arguments of a kernel's function.

    They are the output a0, the operands a1 and a2, then the epilogue's inputs.

    Args:
        output, operands, used: the values.
        images: those of them that are images.
    """
    return KernelArguments((output, *operands, *(value for value in used if value not in operands)), images)


def resolved(text: str, parameters: str, sizes: Mapping[str, int], *, is_shared: bool) -> str:
    """Returns a function's text with its sizes resolved.

    Args:
        text: the helpers, and the function itself, which begins with `FUNCTION`.
        parameters: its parameters, without those for sizes.
        sizes: values by name; may contain others than those in the text.
        is_shared: whether other kernels with the same text call the same function, which functions
            of extents do not.
    """
    is_shared = is_shared and NAME_PREFIX not in text and not has_extents(sizes.values())
    if not is_shared:
        return _with_parameters(text, parameters, sizes, ())
    wait_parameters, wait_arguments = (
        (f" {WAIT_PARAMETERS}", f" {WAIT_ARGUMENTS}") if WAIT in text else ("", "")
    )
    used = _used(text, sizes)
    text = _with_parameters(text, parameters, sizes, used, "__attribute__((noinline)) ")
    shared = f"neurald_{hashlib.blake2s(text.encode(), digest_size=8).hexdigest()}"
    arguments = ", ".join(part.rsplit(" ", 1)[1].lstrip("*") for part in parameters.split(", "))
    numbers = "".join(f", {sizes[each]}" for each in used)
    return fill(
        _TEMPLATES["shared_function"],
        SHARED=shared,
        TEXT=text.replace(NAME, shared),
        PARAMETERS=f"{parameters}{wait_parameters}",
        ARGUMENTS=f"{arguments}{numbers}{wait_arguments}",
    )


def with_numbers(text: str, parameters: str, sizes: Mapping[str, int], names: Collection[str]) -> Code:
    """Returns the code of a function that takes some of its sizes as numbers.

    Args:
        text, parameters, sizes: see `resolved`.
        names: those sizes, as far as the text contains them.
    """
    used = [name for name in _used(text, sizes) if name in names][:_MAX_NUMBERS]
    return Code(_with_parameters(text, parameters, sizes, used), tuple(sizes[name] for name in used))


def _used(text: str, sizes: Mapping[str, int]) -> list[str]:
    """Returns the names of the sizes that a text contains, in the order of the sizes."""
    named = set(_SIZE.findall(text))
    return [name for name in sizes if name in named]


def _with_parameters(
    text: str, parameters: str, sizes: Mapping[str, int], named: Collection[str], attribute: str = ""
) -> str:
    """Returns the text of a function that has some of its sizes as parameters.

    Args:
        text, parameters, sizes: see `resolved`.
        named: the names of these sizes; the others become numbers in the text.
        attribute: that of the function.
    """
    size_parameters = "".join(f", const int z_{name}" for name in named)
    size_arguments = "".join(f", z_{name}" for name in named)
    text = _SIZE.sub(lambda found: f"z_{found[1]}" if found[1] in named else str(sizes[found[1]]), text)
    text = text.replace(SIZE_PARAMETERS, size_parameters).replace(SIZE_ARGUMENTS, size_arguments)
    wait_parameters = f" {WAIT_PARAMETERS}" if WAIT in text else ""
    return text.replace(
        FUNCTION, f"static {attribute}void {NAME}({parameters}{size_parameters}{wait_parameters})"
    )


_TEMPLATES = templates(__name__, "program.cl")
