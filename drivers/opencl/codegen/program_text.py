"""Text of a program: helper functions, the sources' functions, and the kernels that call them."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from neurald.drivers.compiler.memory.buffer_location import Base
from neurald.drivers.opencl.codegen.dialect import functions_for, memory_type
from neurald.drivers.opencl.codegen.kernel_source import NAME, WAIT, WAIT_ARGUMENTS, WAIT_PARAMETERS, Source
from neurald.drivers.opencl.codegen.run_time_extents import extent_names, extent_parameters
from neurald.drivers.opencl.codegen.template import fill, templates
from neurald.drivers.opencl.platform.retargeting import declared_local_memory

_TEMPLATES = templates(__name__, "program.cl")
#: The beginning of every program.
HEAD = _TEMPLATES["head"]
#: Separate kernels start when their inputs are ready, so they do not wait.
NO_WAIT = "".join(f"#define {name}\n" for name in (WAIT, WAIT_PARAMETERS, WAIT_ARGUMENTS))
#: Prevents inlining on NVIDIA devices. Some runtimes cannot call functions that contain barriers.
CALLED = "__attribute__((noinline))"
_POINTERS = {Base.ARENA: "arena", Base.CONSTANTS: "constants"}


def kernel_name(source: Source, bases: Iterable[Base]) -> str:
    """Returns the name of the kernel that runs a source on arguments in these buffers.

    The name does not depend on the buffers of images.
    """
    letters = ("i" if position in source.images else "ac"[base] for position, base in enumerate(bases))
    return f"run_{source.name}_{''.join(letters)}"


def function_text(source: Source) -> str:
    """Returns the source's function under its final name."""
    return source.text.replace(NAME, source.name)


def kernel_text(source: Source, bases: tuple[Base, ...]) -> str:
    """Returns the kernel that calls a source's function.

    The kernel takes both buffers and the offsets of the status, the workspace and the arguments.
    For an image argument it takes the image and the index of the value's first texel. The extents
    follow, then the numbers.
    """
    offsets, pointers = "", ""
    for position, base in enumerate(bases):
        if position in source.images:
            offsets += f", read_only image1d_buffer_t i{position}, const int o{position}"
            pointers += f", i{position}, o{position}"
        else:
            offsets += f", const ulong o{position}"
            pointers += f", {argument_text(source, position, base, f'o{position}')}"
    scratch_bytes = max(16, source.scratch_bytes)
    if source.is_retargeted:
        scratch, declared_bytes = declared_local_memory(scratch_bytes)
    else:
        scratch, declared_bytes = "scratch", scratch_bytes
    if source.workspace_bytes:
        pointers += ", arena + workspace"
    offsets += "".join(f", {parameter}" for parameter in extent_parameters(len(source.extents)))
    numbers = [f"number{position}" for position in range(len(source.numbers))]
    offsets += "".join(f", const int {number}" for number in numbers)
    return fill(
        _TEMPLATES["kernel"],
        NAME=kernel_name(source, bases),
        SOURCE=source.name,
        LOCAL_SIZE=source.local_size,
        SCRATCH=scratch,
        SCRATCH_BYTES=declared_bytes,
        SCRATCH_ALIGNMENT=1024 if source.is_retargeted else 16,
        OFFSETS=offsets,
        EXTENTS="".join(f"{name}, " for name in extent_names(len(source.extents))),
        POINTERS=pointers,
        NUMBERS="".join(f", {number}" for number in numbers),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTexts:
    """Kernels of a step, which can be built separately.

    Attributes:
        uses: sources, and the buffers that their arguments are in.
        has_fp64: whether the device supports double precision.
    """

    uses: tuple[tuple[Source, tuple[Base, ...]], ...]
    has_fp64: bool

    def alone(self) -> dict[str, str]:
        """Returns the separate program of each kernel, by the kernel's name.

        The text determines everything that the kernel does.
        """
        uses = {kernel_name(source, bases): (source, bases) for source, bases in self.uses}
        return {name: program_text([use], has_fp64=self.has_fp64) for name, use in uses.items()}

    def together(self, names: Collection[str]) -> str:
        """Returns one program with the kernels of these names."""
        uses = [use for use in self.uses if kernel_name(*use) in names]
        return program_text(uses, has_fp64=self.has_fp64)


def argument_text(source: Source, position: int, base: Base, offset: str) -> str:
    """Returns the text of the pointer to an argument at this byte offset of its buffer."""
    const = "" if position in source.written else "const "
    kind = memory_type(source.arguments[position].type)
    return f"(__global {const}{kind} *)({_POINTERS[base]} + {offset})"


def program_text(
    uses: Iterable[tuple[Source, tuple[Base, ...]]],
    *,
    has_fp64: bool,
    before: str = "",
    instead: str = "",
    called: Collection[str] = (),
) -> str:
    """Returns a program with one kernel for each combination of source and buffers.

    Args:
        uses: sources, and the buffers that their arguments are in.
        has_fp64: whether the device supports double precision.
        before: the definition of `WAIT` and the functions that it calls; by default it does
            nothing.
        instead: kernels that call the sources' functions and replace the separate ones.
        called: the names of functions that are not inlined.
    """
    functions: dict[str, str] = {}
    kernels: dict[str, str] = {}
    for source, bases in uses:
        text = function_text(source)
        if source.name in called:
            text = text.replace(f"static void {source.name}(", f"static {CALLED} void {source.name}(")
        functions.setdefault(source.name, text)
        if not instead:
            kernels.setdefault(kernel_name(source, bases), kernel_text(source, bases))
    head = "#define NEURALD_FP64 1\n" if has_fp64 else ""
    own = "\n".join((*functions.values(), *kernels.values(), instead))
    if not before and WAIT in own:
        before = NO_WAIT
    return f"{head}{HEAD}{functions_for(own)}{before}{own}"
