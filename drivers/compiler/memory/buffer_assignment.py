"""Assigns the values of a step to two buffers: the arena and the constants.

The arena holds inputs, outputs and intermediate values; values with disjoint lifetimes share bytes.
The other buffer holds all constants that kernels read. The artifact of a compiled step contains
these locations instead of the graph.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from neurald.drivers.compiler.ir.complex_numbers import operand_shape
from neurald.drivers.compiler.ir.extents.extent import estimate
from neurald.drivers.compiler.memory.array_copies import copy_arrays
from neurald.drivers.compiler.memory.buffer_location import Base, BufferLocation, Port
from neurald.hal.accounting.account import charge
from neurald.hal.lazy_numpy import Array, np
from neurald.hal.memory.arena_planner import Lifespan, plan_memory
from neurald.hal.memory.private_memory import aligned_zeros
from neurald.hal.model.graph import Operand
from neurald.hal.model.model import Model
from neurald.hal.model.types import OperandType

if TYPE_CHECKING:
    # Running a cached step must not import the compiler.
    from neurald.drivers.compiler.ir.kernel import FusedGraph
    from neurald.drivers.compiler.ir.value import Value

#: Constants from this size on are compared with others, by this many elements first.
_MIN_COMPARED_BYTES, _SAMPLED = 4096, 64


class BufferAssignment(Struct, frozen=True, kw_only=True):
    """The locations of a step's values.

    Attributes:
        graph: the graph of the step.
        locations: the location of each value that a kernel reads or writes and of the graph's
            outputs, except for aliases.
        constants: the contents of the buffer of constants, with the alignment of its values.
        arena_bytes: the size of the arena.
        spans: the values in the arena, with the first and last position at which each is alive.
        sizes: the sizes of each of these values and of those that share its memory, in bytes. There
            is memory for the largest.
        unshared_bytes: the size that the arena would have if no values shared bytes.
    """

    graph: "FusedGraph"
    locations: "Mapping[Value, BufferLocation]"
    constants: Array
    arena_bytes: int
    spans: "Mapping[Value, tuple[int, int]]"
    sizes: "Mapping[Value, tuple[int, ...]]"
    unshared_bytes: int

    def of(self, values: "Sequence[Value]") -> tuple[BufferLocation, ...]:
        """Returns the locations of values. An alias is located in its owner."""
        return tuple(self._of(value) for value in values)

    def _of(self, value: "Value") -> BufferLocation:
        location = self.locations[self.graph.aliases.get(value, value)]
        start = estimate(self.graph.starts.get(value, 0))
        return (
            BufferLocation(location.base, location.offset + start * value.type.size_bytes)
            if start
            else location
        )

    def ports(self, model: Model) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
        """Returns the ports of the model's inputs and outputs.

        Outputs that are not outputs of the model, its numbers of rows, follow them.
        """
        main = model.main
        inputs, outputs = (
            tuple(
                self._port(main.operands[index], value) for index, value in zip(indexes, values, strict=True)
            )
            for indexes, values in (
                (main.inputs, self.graph.inputs),
                (main.outputs, self.graph.outputs[: len(main.outputs)]),
            )
        )
        number = Operand(type=OperandType.TENSOR_INT32)
        counts = (self._port(number, value) for value in self.graph.outputs[len(main.outputs) :])
        return inputs, (*outputs, *counts)

    def _port(self, operand: Operand, value: "Value") -> Port:
        location = self.locations.get(value)
        return Port(
            offset=None if location is None else location.offset,
            size_bytes=estimate(value.size_bytes),
            dimensions=tuple(map(estimate, operand_shape(operand.type, value.shape))),
            type=int(operand.type),
            scale=operand.scale,
            zero_point=operand.zero_point,
        )


def assign_buffers(
    graph: "FusedGraph",
    uses: "Sequence[Sequence[Value]]",
    *,
    alignment: int,
    members: "Mapping[Value, Sequence[Value]] | None" = None,
) -> BufferAssignment:
    """Assigns a location to every value of a step.

    Args:
        graph: the graph. Its inputs are live from the start, its outputs until the end.
        uses: the values that each kernel reads and writes, in order. A value that is neither a
            constant nor an input nor written by an earlier kernel is scratch memory of that kernel,
            with undefined contents.
        alignment: the alignment of every value, in bytes.
        members: aliases that may be larger than the value whose memory they share, by that value.
    """
    constants, contents = _constants(graph, uses, alignment)
    values, spans = _lifespans(graph, uses, {} if members is None else members)
    plan = plan_memory(spans, alignment=alignment)
    arena = {value: BufferLocation(Base.ARENA, plan.offsets[number]) for number, value in enumerate(values)}
    return BufferAssignment(
        graph=graph,
        locations={**constants, **arena},
        constants=contents,
        arena_bytes=plan.size_bytes,
        spans={value: (span.first, span.last) for value, span in zip(values, spans, strict=True)},
        sizes=values,
        unshared_bytes=plan.unshared_bytes,
    )


def _constants(
    graph: "FusedGraph", uses: "Sequence[Sequence[Value]]", alignment: int
) -> "tuple[dict[Value, BufferLocation], Array]":
    locations: dict[Value, BufferLocation] = {}
    arrays: list[tuple[int, Value]] = []
    # Kernels that read the same constant have packed it alike.
    alike: dict[tuple[object, ...], list[tuple[int, Array]]] = {}
    end = 0
    for arguments in uses:
        for argument in arguments:
            value = graph.aliases.get(argument, argument)
            constant = value.constant
            if constant is None or value in locations:
                continue
            others = alike.setdefault((value.type, *_sample(constant)), [])
            same = next((offset for offset, other in others if _is_same(constant, other)), None)
            if same is not None:
                locations[value] = BufferLocation(Base.CONSTANTS, same)
                continue
            if value.size_bytes >= _MIN_COMPARED_BYTES:
                others.append((end, constant))
            locations[value] = BufferLocation(Base.CONSTANTS, end)
            arrays.append((end, value))
            end += -(-value.size_bytes // alignment) * alignment
    charge(end, "the constants of a step")
    contents = aligned_zeros(end, alignment)
    copy_arrays(
        (contents[offset : offset + value.size_bytes].view(value.type.dtype).reshape(value.shape), constant)
        for offset, value in arrays
        if (constant := value.constant) is not None
    )
    return locations, contents


def _sample(constant: "Array") -> tuple[object, ...]:
    """Returns what equal constants have in common, and few others."""
    step = max(1, constant.size // _SAMPLED)
    return constant.shape, constant.dtype, constant.flat[::step][:_SAMPLED].tobytes()


def _is_same(constant: "Array", other: "Array") -> bool:
    """Returns True if constants have the same bytes: 0 differs from -0, and NaN equals itself."""
    one, two = (np.ascontiguousarray(each).reshape(-1).view(np.uint8) for each in (constant, other))
    return bool(np.array_equal(one, two))


def _lifespans(
    graph: "FusedGraph", uses: "Sequence[Sequence[Value]]", members: "Mapping[Value, Sequence[Value]]"
) -> "tuple[dict[Value, tuple[int, ...]], list[Lifespan]]":
    """Returns each value's sizes in the arena, see `BufferAssignment`, and when it is alive."""
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
    sizes = {
        value: tuple(dict.fromkeys(each.size_bytes for each in (value, *members.get(value, ()))))
        for value in first
    }
    return sizes, [
        Lifespan(value=number, size_bytes=max(1, *map(estimate, own)), first=first[value], last=last[value])
        for number, (value, own) in enumerate(sizes.items())
    ]
