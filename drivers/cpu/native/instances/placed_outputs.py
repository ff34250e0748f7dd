"""Finds the outputs that a step with changing lengths can write where its caller wants them.

The sizes of such outputs follow from lengths that calls set. If nothing writes an output before the
last of these calls, the caller can provide memory of the right size between the two, and the output
need not be copied there from the arena.
"""

from typing import Final

from msgspec import Struct

from neurald.drivers.cpu.target.executable import Opcode
from neurald.drivers.cpu.target.open_executable import OpenExecutable

#: Instructions that run in their order.
_STRAIGHT: Final = (Opcode.CALL, Opcode.COPY)


class PlacedOutputs(Struct, frozen=True, kw_only=True):
    """The outputs of a step that it can write where its caller wants them.

    Attributes:
        position: of the instruction at which all lengths are known, and none of these outputs is
            written yet.
        arguments: the numbers of the arguments that are each output; none if the output must be
            copied. They are numbered over all calls, then all instructions.
    """

    position: int
    arguments: tuple[tuple[int, ...], ...]


def placed_outputs(opened: OpenExecutable) -> PlacedOutputs | None:
    """Returns the outputs that a step can write elsewhere; None if there are none."""
    program = opened.template.instructions
    if any(each.opcode not in _STRAIGHT for each in program):
        return None
    sizings = frozenset(opened.sizings)
    setting = [n for n, each in enumerate(program) if each.opcode is Opcode.CALL and each.number in sizings]
    if not setting:
        return None
    position = 1 + max(setting)
    places = [place for each in (*opened.locations, *opened.instructions) for place in each]
    offsets = {place.offset for place in places if place is not None}
    two, three = (opened.program.at([length] * len(opened.symbols), offsets) for length in (2, 3))
    values = [port.value for port in opened.outputs]
    arguments = []
    for port in opened.outputs:
        used = [
            (number, place.offset)
            for number, place in enumerate(places)
            if place is not None and place.value == port.value
        ]
        value = opened.values[port.value] if port.value >= 0 else None
        is_placed = (
            value is not None
            # Positions of values are counted from 1.
            and value.first > position
            # The value has no other size than the output, and is one output only.
            and set(value.sizes) == {port.size_bytes}
            and values.count(port.value) == 1
            # Arguments are the beginning of the value, whatever the lengths are.
            and not any(two[offset] or three[offset] for _, offset in used)
        )
        arguments.append(tuple([number for number, _ in used]) if is_placed else ())
    return PlacedOutputs(position=position, arguments=tuple(arguments)) if any(arguments) else None
