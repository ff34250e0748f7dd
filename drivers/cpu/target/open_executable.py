"""A compiled step with open dimensions: one code, and an executable per set of lengths."""

import math
import re
from collections.abc import Sequence
from itertools import chain
from typing import Final

import msgspec

from neurald.drivers.compiler.ir.extents.text import NAME_PATTERN
from neurald.drivers.compiler.memory.buffer_location import Base, BufferLocation, Port
from neurald.drivers.compiler.memory.open_step import OpenLocation, OpenPort, OpenStep
from neurald.drivers.cpu.target.executable import Executable
from neurald.drivers.cpu.target.kernel_calls import KernelCalls
from neurald.drivers.cpu.target.routine import ALIGNMENT
from neurald.hal.errors import BadData, OutOfMemory

#: Finds the extents that a message names.
NAME: Final = re.compile(NAME_PATTERN)


class Grown(msgspec.Struct, frozen=True):
    """An executable with memory for lengths that change while it runs.

    Attributes:
        places: offset and size in the arena of each value, in bytes.
    """

    executable: Executable
    places: tuple[tuple[int, int], ...]


class OpenExecutable(OpenStep, frozen=True, array_like=True, kw_only=True):
    """A compiled step whose inputs have open dimensions. See `OpenStep` for its values.

    Attributes:
        template: the executable for the lengths that it was compiled for.
        work_items: the number of work items of each call.
        locations: the arguments of each call; None for those that do not change.
        instructions: likewise for each instruction.
        sizings: numbers of the calls that set lengths. If there are any, the open dimensions change
            while the step runs; see `neurald.drivers.cpu.program.sizing`.
        extents: the words that kernels read.
        scratch_bytes: the scratch memory per thread is the largest of these.
        names: names of extents in messages, with their numbers.
    """

    template: Executable
    work_items: tuple[int, ...]
    locations: tuple[tuple[OpenLocation | None, ...], ...]
    extents: tuple[int, ...]
    scratch_bytes: tuple[int, ...]
    names: dict[str, int]
    instructions: tuple[tuple[OpenLocation | None, ...], ...] = ()
    sizings: tuple[int, ...] = ()

    def input_lengths(self, shapes: Sequence[Sequence[int] | None]) -> tuple[int, ...] | None:
        """Returns the lengths for given shapes of the inputs, and 0 for those set later.

        Returns None if the step has no such inputs, or its code does not support them.
        """
        if len(shapes) != len(self.inputs):
            return None
        lengths = []
        for places, (low, high) in zip(self.symbols, self.program.bounds, strict=True):
            found = {
                shape[dimension]
                for number, dimension in places
                if (shape := shapes[number]) is not None and dimension < len(shape)
            }
            if places and (len(found) != 1 or not low <= min(found) <= high):
                return None
            lengths.append(min(found, default=0))
        known = self.input_shapes(lengths)
        if any(shape is None or tuple(shape) != each for shape, each in zip(shapes, known, strict=True)):
            return None
        if self.sizings and not self.program.permits(
            [length if places else None for length, places in zip(lengths, self.symbols, strict=True)]
        ):
            # Other code can be valid for these lengths from the start.
            return None
        return tuple(lengths)

    def input_shapes(self, lengths: Sequence[int]) -> list[tuple[int, ...]]:
        """Returns the shapes of the inputs for these lengths."""
        return self._shapes(self.inputs, lengths)

    def _shapes(self, ports: Sequence[OpenPort], lengths: Sequence[int]) -> list[tuple[int, ...]]:
        numbers = self.program.at(lengths, (length for port in ports for length in port.dimensions))
        return [tuple(numbers[length] for length in port.dimensions) for port in ports]

    def message(self, text: str, lengths: Sequence[int]) -> str:
        """Returns a message about extents with their numbers."""
        numbers = self.program.at(lengths, self.names.values())
        return NAME.sub(lambda name: str(numbers[self.names[name.group()]]), text)

    def output_shapes(self, lengths: Sequence[int]) -> list[tuple[int, ...]]:
        """Returns the shapes of the outputs for these lengths."""
        return self._shapes(self.outputs, lengths)

    def output_sizes(self, lengths: Sequence[int]) -> list[int]:
        """Returns the sizes in bytes of the outputs for these lengths."""
        numbers = self.program.at(lengths, [port.size_bytes for port in self.outputs])
        return [numbers[port.size_bytes] for port in self.outputs]

    def largest_value(self, capacities: Sequence[int]) -> float:
        """Returns the largest value's bytes for lengths up to these; infinity beyond all limits."""
        numbers = self.program.largest(capacities)
        if numbers is None:
            return math.inf
        return max((value.size_bytes(numbers) for value in self.values), default=0)

    def grown(self, capacities: Sequence[int]) -> "Grown":
        """Returns the executable with memory for lengths that change, up to these.

        Raises:
            OutOfMemory: that would be too much memory.
        """
        numbers = self.program.largest(capacities)
        if numbers is None:
            raise OutOfMemory(f"values of lengths up to {list(capacities)} exceed all limits")
        plan = self.planned([value.size_bytes(numbers) for value in self.values], ALIGNMENT)
        template = self.template

        def moved(
            known: Sequence[BufferLocation], places: Sequence[OpenLocation | None]
        ) -> tuple[BufferLocation, ...]:
            return tuple(
                location
                if place is None
                else BufferLocation(Base.ARENA, plan.offsets[place.value] + max(0, numbers[place.offset]))
                for location, place in zip(known, places, strict=True)
            )

        def port(known: Port, each: OpenPort) -> Port:
            return msgspec.structs.replace(known, offset=None if each.value < 0 else plan.offsets[each.value])

        executable = msgspec.structs.replace(
            template,
            calls=KernelCalls.of(
                msgspec.structs.replace(
                    call,
                    locations=moved(call.locations, places),
                    work_items=max(0, numbers[work_items]),
                    cost_ns=call.cost_ns * max(0, numbers[work_items]) / max(1, call.work_items),
                )
                for call, places, work_items in zip(
                    template.calls, self.locations, self.work_items, strict=True
                )
            ),
            instructions=tuple(
                msgspec.structs.replace(each, locations=moved(each.locations, places))
                for each, places in zip(template.instructions, self.instructions, strict=True)
            ),
            inputs=tuple(map(port, template.inputs, self.inputs)),
            outputs=tuple(map(port, template.outputs, self.outputs)),
            arena_bytes=plan.size_bytes,
            scratch_bytes=self.scratch_size(numbers),
            unshared_bytes=plan.unshared_bytes,
        )
        places = tuple(
            (plan.offsets[n], max(0, value.size_bytes(numbers))) for n, value in enumerate(self.values)
        )
        return Grown(executable=executable, places=places)

    def scratch_size(self, numbers: Sequence[int]) -> int:
        """Returns the scratch memory per thread, for these numbers."""
        return max((numbers[each] for each in self.scratch_bytes if numbers[each] > 0), default=0)

    def check(self) -> None:
        """Raises BadData if the parts do not fit together.

        The executable for given lengths must be checked as well.
        """
        template = self.template
        shapes = [
            (len(template.calls), len(self.work_items)),
            (len(template.calls), len(self.locations)),
            (len(template.inputs), len(self.inputs)),
            (len(template.outputs), len(self.outputs)),
            (len(template.extents), len(self.extents) + (3 * len(self.symbols) if self.sizings else 0)),
            (len(template.instructions), len(self.instructions)),
            *zip((len(call.locations) for call in template.calls), map(len, self.locations), strict=False),
        ]
        shapes += zip(
            (len(port.dimensions) for port in (*template.inputs, *template.outputs)),
            (len(port.dimensions) for port in (*self.inputs, *self.outputs)),
            strict=False,
        )
        shapes += zip(
            (len(each.locations) for each in template.instructions), map(len, self.instructions), strict=False
        )
        if any(one != other for one, other in shapes):
            raise BadData("the open parts of an executable do not match its calls and ports")
        places = [
            place for each in (*self.locations, *self.instructions) for place in each if place is not None
        ]
        if any(not 0 <= number < len(template.calls) for number in self.sizings):
            raise BadData(f"a call that sets lengths is not among the {len(template.calls)} of the step")
        self.check_values(
            places, (*self.work_items, *self.extents, *self.scratch_bytes, *self.names.values())
        )
        if any(
            (place is not None) != (base == Base.ARENA)
            for place, base in zip(chain.from_iterable(self.locations), template.calls.bases, strict=True)
        ):
            raise BadData(
                "an argument in the arena does not change with lengths, or one changes that is elsewhere"
            )
        if template.banded:
            raise BadData("a step with open dimensions has bands")
        if not self.sizings and not all(self.symbols):
            raise BadData("an open dimension has no input")
        for call in template.calls:
            for message in call.messages:
                if any(name not in self.names for name in NAME.findall(message)):
                    raise BadData(f"a message refers to an unknown extent: {message}")
