"""The text of a program: what kernels need, their functions, and for each the kernel that calls its function."""

from collections.abc import Iterable

from neurald.drivers.compiler.placement import Base
from neurald.drivers.opencl.dialect import HEAD, functions_for, stored
from neurald.drivers.opencl.source import NAME, Source

#: Local memory of a work-group that stays on the device for a whole step, as most steps need it.
RESIDENT_BYTES = 48_000

_POINTERS = {Base.ARENA: "arena", Base.CONSTANTS: "constants"}


def kernel_name(source: Source, bases: Iterable[Base]) -> str:
    """The kernel that runs a source on arguments in those buffers."""
    return f"run_{source.name}_{''.join('ac'[base] for base in bases)}"


def function_text(source: Source) -> str:
    """The source's function under its own name."""
    return source.text.replace(NAME, source.name)


def kernel_text(source: Source, bases: tuple[Base, ...], *, is_resident: bool = False) -> str:
    """The kernel that calls a source's function; it takes both buffers, and where its status, workspace and arguments are.

    Args:
        source: what it runs.
        bases: the buffers that the arguments are in.
        is_resident: whether it can be launched with any number of work-groups, which share out the source's, and takes as
            much local memory as a kernel that runs a whole step may.
    """
    offsets = "".join(f", const ulong o{position}" for position in range(len(bases)))
    pointers = "".join(
        f", {argument_text(source, position, base, f'o{position}')}" for position, base in enumerate(bases)
    )
    scratch = max(RESIDENT_BYTES if is_resident else 16, source.scratch_bytes)
    if source.workspace_bytes:
        pointers += ", arena + workspace"
    call = f"{source.name}(group, (int)get_local_id(0), scratch{pointers}, (__global int *)(arena + status));"
    if is_resident:
        barrier = " barrier(CLK_LOCAL_MEM_FENCE);" if source.has_barriers else ""
        step = f"group < {source.groups}; group += (int)get_num_groups(0)"
        call = f"for (int group = (int)get_group_id(0); {step}) {{ {call}{barrier} }}"
    else:
        call = f"const int group = (int)get_group_id(0);\n  {call}"
    return (
        f"__kernel __attribute__((reqd_work_group_size({source.local_size}, 1, 1)))\n"
        f"void {kernel_name(source, bases)}(__global uchar *arena, __global const uchar *constants, "
        f"const ulong status, const ulong workspace{offsets}) {{\n"
        f"  __local uchar scratch[{scratch}] __attribute__((aligned(16)));\n"
        f"  {call}\n"
        "}\n"
    )


def argument_text(source: Source, position: int, base: Base, offset: str) -> str:
    """The pointer to an argument that begins at `offset` bytes of its buffer."""
    const = "const " if position else ""
    kind = stored(source.arguments[position].type)
    return f"(__global {const}{kind} *)({_POINTERS[base]} + {offset})"


def program_text(
    uses: Iterable[tuple[Source, tuple[Base, ...]]],
    *,
    has_fp64: bool,
    instead: str = "",
    is_resident: bool = False,
) -> str:
    """A program with a kernel for each source with each combination of buffers that it is used with.

    Args:
        uses: sources, and the buffers that their arguments are in.
        has_fp64: whether the device computes in double precision.
        instead: the text of a kernel that calls the sources' functions, in place of theirs.
        is_resident: see `kernel_text`.
    """
    functions: dict[str, str] = {}
    kernels: dict[str, str] = {}
    for source, bases in uses:
        functions.setdefault(source.name, function_text(source))
        if not instead:
            text = kernel_text(source, bases, is_resident=is_resident)
            kernels.setdefault(kernel_name(source, bases), text)
    head = "#define NEURALD_FP64 1\n" if has_fp64 else ""
    own = "\n".join((*functions.values(), *kernels.values(), instead))
    return f"{head}{HEAD}{functions_for(own)}{own}"
