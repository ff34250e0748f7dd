"""Arguments of a kernel's function: pointers, and images of values that it reads as vectors."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.codegen.dialect import (
    load4_text,
    load_text,
    memory_type,
    texel_text,
    texel_vector,
)
from neurald.drivers.opencl.platform.storage import ImageSupport


@dataclass(frozen=True, slots=True)
class KernelArgument:
    """Name and access of a value inside a function.

    Attributes:
        name: the name of the pointer or image.
        type: the type of the elements.
        first: the name of the variable with the index of the value's first texel; "" for a pointer.
        space: the address space of a pointer.
        is_written: whether the function writes it.
    """

    name: str
    type: Scalar
    first: str = ""
    space: str = "__global"
    is_written: bool = False

    @property
    def parameter(self) -> str:
        """Declaration as a parameter."""
        if self.first:
            return f"read_only image1d_buffer_t {self.name}, const int {self.first}"
        const = "" if self.is_written else "const "
        return f"{self.space} {const}{memory_type(self.type)} *{self.name}"

    @property
    def call_arguments(self) -> str:
        """Arguments that pass it to a called function."""
        return f"{self.name}, {self.first}" if self.first else self.name

    def load(self, place: str) -> str:
        """Returns the text that loads one element."""
        if not self.first:
            return load_text(self.name, place, self.type)
        whole = texel_text(self.name, f"{self.first} + (({place}) >> 2)", self.type)
        return f"neurald_part_{texel_vector(self.type)}({whole}, {place})"

    def load4(self, place: str) -> str:
        """Returns the text that loads four elements from an aligned index.

        The result is a `float4`, or a vector of the stored integers.
        """
        if not self.first:
            return load4_text(self.name, place, self.type, self.space)
        return texel_text(self.name, f"{self.first} + (({place}) >> 2)", self.type)


@dataclass(frozen=True, slots=True)
class KernelArguments:
    """Arguments of a function, in order.

    Attributes:
        values: the values; the first of them is the output.
        images: those inputs that are images.
        near: those inputs that a work-group holds in local memory, for functions that it calls.
        written: those that the function writes besides the output.
    """

    values: tuple[Value, ...]
    images: frozenset[Value] = frozenset()
    near: frozenset[Value] = frozenset()
    written: frozenset[Value] = frozenset()

    def __getitem__(self, position: int) -> KernelArgument:
        """Returns the argument at a position.

        Its name is `a` and the position, or `n` and the position if it is in local memory.
        """
        value = self.values[position]
        if value in self.near:
            return KernelArgument(f"n{position}", value.type, space="__local")
        first = f"s{position}" if position and value in self.images else ""
        return KernelArgument(f"a{position}", value.type, first, is_written=value in self.written)

    @property
    def all(self) -> tuple[KernelArgument, ...]:
        """All arguments."""
        return tuple(self[position] for position in range(len(self.values)))

    @property
    def by_value(self) -> dict[Value, KernelArgument]:
        """Arguments by value."""
        return dict(zip(self.values, self.all, strict=True))

    @property
    def image_positions(self) -> tuple[int, ...]:
        """Positions of the arguments that are images."""
        return tuple(position for position, each in enumerate(self.all) if each.first)

    @property
    def pointers(self) -> str:
        """Parameter declarations of all arguments and of the status."""
        written = f"__global {memory_type(self.values[0].type)} *restrict a0"
        read = (each.parameter.replace("*", "*restrict ") for each in self.all[1:])
        return ", ".join((written, *read, "__global int *status"))

    @property
    def parameters(self) -> str:
        """Parameter list of the function."""
        return f"const int group, const int lid, __local uchar *scratch, {self.pointers}"

    @property
    def parameters_with_workspace(self) -> str:
        """Parameter list of a function that takes a workspace; see `Source`."""
        return self.parameters.replace(
            "__global int *status", "__global uchar *workspace, __global int *status"
        )

    @property
    def call_arguments(self) -> str:
        """All arguments and the status, as arguments of a call."""
        return ", ".join((*(each.call_arguments for each in self.all), "status"))


def as_images(values: Iterable[Value], allowed: ImageSupport | None) -> frozenset[Value]:
    """Returns those values that a device can read through images, up to its limit per kernel."""
    if allowed is None:
        return frozenset()
    found = dict.fromkeys(each for each in values if not allowed.unsupported_reason(each))
    return frozenset(islice(found, allowed.max_arguments))
