"""The values of a compiled step whose inputs have open dimensions."""

from collections.abc import Sequence

import msgspec

from neurald.drivers.compiler.memory.extent_program import ExtentProgram
from neurald.hal.errors import BadData
from neurald.hal.lazy_numpy import Array
from neurald.hal.memory.arena_planner import Lifespan, MemoryPlan, plan_memory


class OpenValue(msgspec.Struct, frozen=True, array_like=True):
    """A value in the arena.

    Attributes:
        sizes: the numbers of its sizes in the program: it has the largest.
        first, last: positions of the calls between which it is alive, see `Lifespan`.
    """

    sizes: tuple[int, ...]
    first: int
    last: int

    def size_bytes(self, numbers: Sequence[int]) -> int:
        """Returns its size, for these numbers of the program."""
        return max((numbers[each] for each in self.sizes), default=0)


class OpenLocation(msgspec.Struct, frozen=True, array_like=True):
    """An argument in the arena: a value, and the number of the offset in it (in bytes)."""

    value: int
    offset: int


class OpenPort(msgspec.Struct, frozen=True, array_like=True):
    """An input or output: its value, or -1, and the numbers of its size and its dimensions."""

    value: int
    size_bytes: int
    dimensions: tuple[int, ...]

    def shape(self, numbers: Array) -> tuple[int, ...]:
        """Returns its dimensions, for these numbers of the program."""
        return tuple([int(numbers[each]) for each in self.dimensions])


class OpenStep(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """A compiled step whose inputs have open dimensions.

    All numbers refer to the values of `program`.

    Attributes:
        program: computes the numbers for given lengths.
        symbols: for each open dimension, the inputs and dimensions that have this length.
        values: the values in the arena.
        inputs, outputs: the ports.
    """

    program: ExtentProgram
    symbols: tuple[tuple[tuple[int, int], ...], ...]
    values: tuple[OpenValue, ...]
    inputs: tuple[OpenPort, ...]
    outputs: tuple[OpenPort, ...]

    def lengths(self, shapes: Sequence[Sequence[int] | None]) -> tuple[int, ...] | None:
        """Returns the length of each open dimension for given shapes of the inputs.

        Returns None if the step has no such inputs.
        """
        if len(shapes) != len(self.inputs):
            return None
        found: list[int] = []
        for places in self.symbols:
            lengths = set()
            for number, dimension in places:
                shape = shapes[number]
                if shape is None or dimension >= len(shape):
                    return None
                lengths.add(shape[dimension])
            if len(lengths) != 1:
                return None
            found += lengths
        return tuple(found)

    def planned(self, sizes: Sequence[int], alignment: int) -> MemoryPlan:
        """Returns the places of the values in the arena, for these sizes in bytes."""
        return plan_memory(
            [
                Lifespan(value=n, size_bytes=max(1, size), first=value.first, last=value.last)
                for n, (value, size) in enumerate(zip(self.values, sizes, strict=True))
            ],
            alignment=alignment,
        )

    def check_values(self, places: Sequence[OpenLocation], numbers: Sequence[int]) -> None:
        """Raises BadData unless all numbers, values and inputs exist.

        Args:
            places: further locations that refer to values and numbers.
            numbers: further numbers.
        """
        self.program.check()
        if len(self.symbols) != len(self.program.bounds):
            raise BadData(f"{len(self.symbols)} open dimensions have {len(self.program.bounds)} bounds")
        ports, count = (*self.inputs, *self.outputs), len(self.program.values)
        used = [
            *numbers,
            *(size for value in self.values for size in value.sizes),
            *(place.offset for place in places),
            *(number for port in ports for number in (port.size_bytes, *port.dimensions)),
        ]
        if any(not 0 <= number < count for number in used):
            raise BadData(f"a number is not among the {count} of the program")
        if any(not 0 <= value.first <= value.last for value in self.values):
            raise BadData("a value of the arena is alive before the first call, or ends before it begins")
        values = [*(place.value for place in places), *(port.value for port in ports if port.value >= 0)]
        if any(not 0 <= value < len(self.values) for value in values):
            raise BadData(f"a location refers to a value beyond the {len(self.values)} of the arena")
        for each in self.symbols:
            for number, dimension in each:
                if not 0 <= number < len(self.inputs) or dimension < 0:
                    raise BadData(f"an open dimension is that of input {number}, dimension {dimension}")
