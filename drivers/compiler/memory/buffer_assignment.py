"""Where the values of a step lie: two buffers, the arena and the constants, with a place for each value.

In the arena are inputs, outputs and everything between them; what is never needed at the same time shares bytes. All of the
constants that kernels read are in the other buffer. A compiled step is kept and run with these places alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from neurald.drivers.compiler.ir.complex_numbers import operand_shape
from neurald.hal.accounting.account import charge
from neurald.hal.errors import BadData
from neurald.hal.memory.arena_planner import Lifespan, plan_memory
from neurald.hal.memory.pool import aligned_zeros
from neurald.hal.model.types import Model, Operand, OperandType, byte_size

if TYPE_CHECKING:
    # Who runs what was compiled before needs places, and no graphs.
    from neurald.drivers.compiler.ir.kernel import FusedGraph
    from neurald.drivers.compiler.ir.value import Value


class Base(IntEnum):
    """Which buffer a place is in."""

    ARENA = 0
    CONSTANTS = 1


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Where a value begins, in bytes from the start of its buffer."""

    base: Base
    offset: int


class Port(msgspec.Struct, frozen=True, array_like=True):
    """An input or output of the model, in the arena. An input that no operation reads has no place."""

    offset: int | None
    size_bytes: int
    dimensions: tuple[int, ...]
    type: int
    scale: float
    zero_point: int

    @property
    def operand(self) -> Operand:
        """What the model says of it."""
        return Operand(
            type=OperandType(self.type),
            dimensions=self.dimensions,
            scale=self.scale,
            zero_point=self.zero_point,
        )

    def check(self, arena_bytes: int) -> None:
        """Raises BadData unless it is an operand that lies in an arena of that size."""
        try:
            kind = OperandType(self.type)
        except ValueError:
            raise BadData(f"there is no operand type {self.type}") from None
        if any(d < 0 for d in self.dimensions) or self.size_bytes != byte_size(kind, self.dimensions):
            raise BadData(f"an operand of {list(self.dimensions)} has {self.size_bytes} bytes")
        if self.offset is not None and not 0 <= self.offset <= arena_bytes - self.size_bytes:
            raise BadData(f"an operand lies at {self.offset}, outside of the arena")


@dataclass(frozen=True, kw_only=True, slots=True)
class Placement:
    """The places of a step's values.

    Attributes:
        places: of every value that a kernel reads or writes, and of the graph's outputs; aliases apart.
        constants: the contents of the buffer of constants, aligned as its values are.
        arena_bytes: of the arena.
        unshared_bytes: what the arena would have if no two values shared bytes.
    """

    graph: "FusedGraph"
    places: "Mapping[Value, Place]"
    constants: np.ndarray
    arena_bytes: int
    unshared_bytes: int

    def of(self, values: "Sequence[Value]") -> tuple[Place, ...]:
        """Where values lie; an alias where its value does."""
        return tuple(self._of(value) for value in values)

    def _of(self, value: "Value") -> Place:
        place = self.places[self.graph.aliases.get(value, value)]
        start = self.graph.starts.get(value, 0)
        return Place(place.base, place.offset + start * value.type.size_bytes) if start else place

    def ports(self, model: Model) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
        """The inputs and outputs of the model that the graph is of."""
        main = model.main
        inputs, outputs = (
            tuple(
                self._port(main.operands[index], value) for index, value in zip(indexes, values, strict=True)
            )
            for indexes, values in ((main.inputs, self.graph.inputs), (main.outputs, self.graph.outputs))
        )
        return inputs, outputs

    def _port(self, operand: Operand, value: "Value") -> Port:
        place = self.places.get(value)
        return Port(
            offset=None if place is None else place.offset,
            size_bytes=value.size_bytes,
            dimensions=operand_shape(operand.type, value.shape),
            type=int(operand.type),
            scale=operand.scale,
            zero_point=operand.zero_point,
        )


def place(graph: "FusedGraph", uses: "Sequence[Sequence[Value]]", *, alignment: int) -> Placement:
    """Places for all values of a step.

    Args:
        graph: whose inputs are in the arena from the beginning, and whose outputs are to the end.
        uses: for each kernel, in order, the values that it reads and writes. What is neither a constant nor written by an
            earlier kernel is needed while the kernel runs only, and holds anything before.
        alignment: every value begins at a multiple of so many bytes.
    """
    constants, contents = _constants(graph, uses, alignment)
    values, spans = _lifespans(graph, uses)
    plan = plan_memory(spans, alignment=alignment)
    arena = {value: Place(Base.ARENA, plan.offsets[number]) for number, value in enumerate(values)}
    return Placement(
        graph=graph,
        places={**constants, **arena},
        constants=contents,
        arena_bytes=plan.size_bytes,
        unshared_bytes=plan.unshared_bytes,
    )


def _constants(
    graph: "FusedGraph", uses: "Sequence[Sequence[Value]]", alignment: int
) -> "tuple[dict[Value, Place], np.ndarray]":
    places: dict[Value, Place] = {}
    arrays: list[tuple[int, np.ndarray]] = []
    end = 0
    for arguments in uses:
        for argument in arguments:
            value = graph.aliases.get(argument, argument)
            if value.constant is None or value in places:
                continue
            places[value] = Place(Base.CONSTANTS, end)
            arrays.append((end, np.ascontiguousarray(value.constant, value.type.dtype)))
            end += -(-value.size_bytes // alignment) * alignment
    charge(end, "the constants of a step")
    contents = aligned_zeros(end, alignment)
    for offset, array in arrays:
        contents[offset : offset + array.nbytes] = array.reshape(-1).view(np.uint8)
    return places, contents


def _lifespans(
    graph: "FusedGraph", uses: "Sequence[Sequence[Value]]"
) -> "tuple[list[Value], list[Lifespan]]":
    first: dict[Value, int] = {}
    last: dict[Value, int] = {}
    for position, arguments in enumerate(uses, start=1):
        for argument in arguments:
            value = graph.aliases.get(argument, argument)
            if value.constant is None:
                first.setdefault(value, position)
                last[value] = position
    first.update((value, 0) for value in graph.inputs if value in first)
    for value in graph.outputs:
        first.setdefault(value, 0)
        last[value] = len(uses) + 1
    values = list(first)
    return values, [
        Lifespan(value=number, size_bytes=max(1, value.size_bytes), first=first[value], last=last[value])
        for number, value in enumerate(values)
    ]
