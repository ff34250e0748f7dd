"""The arguments of a kernel's function: pointers, or images of what it reads four elements at a time."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.codegen.dialect import (
    load4_text,
    load_text,
    stored,
    texel_text,
    texel_vector,
)
from neurald.drivers.opencl.platform.storage import Images


@dataclass(frozen=True, slots=True)
class Argument:
    """How a function calls what it reads or writes, and how it reads it.

    Attributes:
        name: of the pointer or image.
        type: of the elements.
        first: the name of the image's texel with the first elements; "": it is a pointer.
        space: of what it points to.
    """

    name: str
    type: Scalar
    first: str = ""
    space: str = "__global"

    @property
    def parameter(self) -> str:
        """Its declaration as a parameter that is only read."""
        if self.first:
            return f"read_only image1d_buffer_t {self.name}, const int {self.first}"
        return f"{self.space} const {stored(self.type)} *{self.name}"

    @property
    def handed_on(self) -> str:
        """The same as an argument of a call."""
        return f"{self.name}, {self.first}" if self.first else self.name

    def load(self, place: str) -> str:
        """The element at a place."""
        if not self.first:
            return load_text(self.name, place, self.type)
        whole = texel_text(self.name, f"{self.first} + (({place}) >> 2)", self.type)
        return f"neurald_part_{texel_vector(self.type)}({whole}, {place})"

    def load4(self, place: str) -> str:
        """The four elements from a place on, which is a multiple of four: `float4`, or integers as they are stored."""
        if not self.first:
            return load4_text(self.name, place, self.type, self.space)
        return texel_text(self.name, f"{self.first} + (({place}) >> 2)", self.type)


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a function, in order.

    Attributes:
        values: the first of them is written.
        images: those among the others that are images.
        near: those among the others that a work-group has in local memory, for functions that it calls.
    """

    values: tuple[Value, ...]
    images: frozenset[Value] = frozenset()
    near: frozenset[Value] = frozenset()

    def __getitem__(self, position: int) -> Argument:
        """The argument at a position, `a0` and so on; `n` instead of `a` if it is in local memory."""
        value = self.values[position]
        if value in self.near:
            return Argument(f"n{position}", value.type, space="__local")
        first = f"s{position}" if position and value in self.images else ""
        return Argument(f"a{position}", value.type, first)

    @property
    def all(self) -> tuple[Argument, ...]:
        """Each of them."""
        return tuple(self[position] for position in range(len(self.values)))

    @property
    def by_value(self) -> dict[Value, Argument]:
        """How each value is read."""
        return dict(zip(self.values, self.all, strict=True))

    @property
    def image_positions(self) -> tuple[int, ...]:
        """Which of them are images."""
        return tuple(position for position, each in enumerate(self.all) if each.first)

    @property
    def pointers(self) -> str:
        """The parameters for them, and for the status."""
        written = f"__global {stored(self.values[0].type)} *restrict a0"
        read = (each.parameter.replace("*", "*restrict ") for each in self.all[1:])
        return ", ".join((written, *read, "__global int *status"))

    @property
    def parameters(self) -> str:
        """The parameter list of the function."""
        return f"const int group, const int lid, __local uchar *scratch, {self.pointers}"

    @property
    def handed_on(self) -> str:
        """All of them and the status, as arguments of a call."""
        return ", ".join((*(each.handed_on for each in self.all), "status"))


def as_images(values: Iterable[Value], allowed: Images | None) -> frozenset[Value]:
    """Those among values that a device can read through images: the first ones, if there may not be as many."""
    if allowed is None:
        return frozenset()
    found = dict.fromkeys(each for each in values if not allowed.objection(each))
    return frozenset(islice(found, allowed.most_arguments))
