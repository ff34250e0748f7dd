"""A compiled step with open dimensions: an executable for each set of lengths, with the same program."""

import re
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from neurald.drivers.compiler.ir.extent_text import NAME_PATTERN
from neurald.drivers.compiler.memory.arena_plans import SizedPlan
from neurald.drivers.compiler.memory.buffer_location import Base, BufferLocation, Port
from neurald.drivers.compiler.memory.open_step import OpenLocation, OpenPort, OpenStep
from neurald.drivers.compiler.memory.sized_values import SizedValues
from neurald.drivers.opencl.runtime.executable import Executable, KernelCall
from neurald.hal.errors import BadData
from neurald.hal.lazy_numpy import Array, np

_Shape: TypeAlias = tuple[int, ...]

#: Finds the extents that a message names.
_NAME: Final = re.compile(NAME_PATTERN)
#: Limit on the elements of a value and on the numbers that kernels read, so that indices, offsets of
#: eight bytes for each element, and what they are computed from fit into 32 bits.
_MAX_ELEMENTS: Final = ((1 << 31) - 1) // 8
#: Lengths of examples, the shortest first: guards may exclude some.
_SHORT_LENGTHS: Final = (2, 3, 5, 8, 11, 16, 23, 32, 47)
#: Limit on the alignment of values, in bytes; devices require up to 128.
_MAX_ALIGNMENT: Final = 1 << 16
#: Limit on the total size of outputs that are placed behind all other values, so that they and the
#: flags are fetched in one transfer.
_MAX_MOVED_BYTES: Final = 1 << 20


class OpenCall(msgspec.Struct, frozen=True, array_like=True):
    """Tells what differs between lengths in a call.

    Attributes:
        groups: the number of its groups.
        locations: its arguments; None for those that do not change.
        extents: the numbers that its kernel reads.
    """

    groups: int
    locations: tuple[OpenLocation | None, ...]
    extents: tuple[int, ...]


class OpenLaunches(OpenStep, frozen=True, array_like=True, kw_only=True):
    """A compiled step whose inputs have open dimensions. See `OpenStep` for its values.

    Attributes:
        template: the executable for the lengths that it was compiled for. Its kernels have no
            workspaces, and read no images.
        calls: what differs in each of its calls.
        counts: the open numbers of elements of all values, those of values that are not stored too.
        alignment: of values, in bytes.
        names: names of extents in messages, with their numbers.
    """

    template: Executable
    calls: tuple[OpenCall, ...]
    counts: tuple[int, ...]
    alignment: int
    names: dict[str, int]

    def check(self) -> None:
        """Raises BadData if the parts do not fit together. The template must be checked as well."""
        template = self.template
        places = [place for call in self.calls for place in call.locations if place is not None]
        numbers = [number for call in self.calls for number in (call.groups, *call.extents)]
        self.check_values(places, (*numbers, *self.counts, *self.names.values()))
        pairs = [
            (len(template.calls), len(self.calls)),
            (len(template.inputs), len(self.inputs)),
            (len(template.outputs), len(self.outputs)),
        ]
        for call, own in zip(template.calls, self.calls, strict=False):
            pairs += [(len(call.locations), len(own.locations)), (len(call.extents), len(own.extents))]
            bases = zip((each.base for each in call.locations), own.locations, strict=False)
            if any((place is not None) != (base is Base.ARENA) for base, place in bases):
                raise BadData(f"arguments of {call.kernel} change, or do not, against their buffers")
            if call.workspace is not None or call.images:
                raise BadData(f"{call.kernel} has a workspace or images, which do not change with lengths")
            if any(name not in self.names for message in call.messages for name in _NAME.findall(message)):
                raise BadData(f"a message of {call.kernel} refers to an unknown extent")
        if any(one != other for one, other in pairs) or template.persistent is not None:
            raise BadData("the open parts of an executable do not match its calls and ports")
        if not all(self.symbols):
            raise BadData("an open dimension has no input")
        if not 1 <= self.alignment <= _MAX_ALIGNMENT:
            raise BadData(f"values cannot be aligned to {self.alignment} bytes")


class SizedLaunches:
    """Makes executables of an open step for shapes of its inputs.

    Args:
        opened: the step, which has been checked.
        max_bytes: the size of the largest buffer.
    """

    def __init__(self, opened: OpenLaunches, max_bytes: int) -> None:
        self._opened = opened
        self._max_bytes = max_bytes
        self._outputs = {port.value for port in opened.outputs if port.value >= 0}
        places = [place.offset for call in opened.calls for place in call.locations if place is not None]
        groups = {call.groups for call in opened.calls}
        extents = {number for call in opened.calls for number in call.extents}
        self._counts = np.array(opened.counts, np.intp)
        self._limited = np.array(sorted({*opened.counts, *groups, *extents}), np.intp)
        # Kernels may subtract extents, but nothing has a negative size or place.
        self._values = SizedValues(opened, opened.alignment, (*opened.counts, *groups, *places))

    def output_shapes(self, shapes: Sequence[_Shape | None]) -> tuple[_Shape, ...] | None:
        """Returns the shapes of the outputs for given shapes of the inputs.

        Returns None if the code does not support them.
        """
        return self._values.output_shapes(shapes)

    def executable(self, shapes: Sequence[_Shape | None]) -> Executable | None:
        """Returns the executable for given shapes of the inputs; None if the code does not support them.

        Raises:
            BadData: an argument or operand is outside the arena.
        """
        found = self._values.numbers(shapes)
        if found is None:
            return None
        lengths, numbers = found
        if np.abs(numbers[self._limited]).max(initial=0) > _MAX_ELEMENTS:
            return None
        # Kernels divide by lengths, and expect that each value has an element.
        if numbers[self._counts].min(initial=1) < 1:
            return None
        opened, template = self._opened, self._opened.template
        plan = self._values.plans.planned(lengths, numbers)
        places, end = self._places(plan, numbers)
        zeros = -(-end // opened.alignment) * opened.alignment
        size_bytes = zeros + template.zeros_bytes
        if size_bytes > self._max_bytes:
            return None
        known = numbers.tolist()

        def port(named: Port, each: OpenPort) -> Port:
            sized = msgspec.structs.replace(
                named,
                offset=None if each.value < 0 else places[each.value],
                size_bytes=known[each.size_bytes],
                dimensions=each.shape(numbers),
            )
            sized.check(size_bytes)
            return sized

        return msgspec.structs.replace(
            template,
            calls=tuple(
                self._call(call, each, known, places, size_bytes)
                for call, each in zip(template.calls, opened.calls, strict=True)
            ),
            inputs=tuple(map(port, template.inputs, opened.inputs)),
            outputs=tuple(map(port, template.outputs, opened.outputs)),
            arena_bytes=size_bytes,
            unshared_bytes=plan.plan.unshared_bytes,
            zeros=zeros,
        )

    def example(self) -> Executable:
        """Returns an executable for short lengths, so that running it takes little time and memory."""
        opened = self._opened
        for length in _SHORT_LENGTHS:
            lengths = [min(max(length, low), high) for low, high in opened.program.bounds]
            known = opened.program.at(lengths, {each for port in opened.inputs for each in port.dimensions})
            found = self.executable(
                [tuple(known[each] for each in port.dimensions) for port in opened.inputs]
            )
            if found is not None:
                return found
        return opened.template

    def _places(self, plan: SizedPlan, numbers: Array) -> tuple[Mapping[int, int], int]:
        """Returns the offset of each value, and the end of all of them; small outputs are the last."""
        alignment = self._opened.alignment
        places, end = dict(plan.plan.offsets), plan.plan.size_bytes
        if sum(int(plan.sizes[value]) for value in self._outputs) <= _MAX_MOVED_BYTES:
            for value in sorted(self._outputs):
                places[value] = -(-end // alignment) * alignment
                end = places[value] + max(1, int(plan.sizes[value]))
        return places, end

    def _call(
        self,
        call: KernelCall,
        each: OpenCall,
        numbers: Sequence[int],
        places: Mapping[int, int],
        size_bytes: int,
    ) -> KernelCall:
        locations = list(call.locations)
        for number, place in enumerate(each.locations):
            if place is not None:
                offset = places[place.value] + numbers[place.offset]
                if offset > size_bytes:
                    raise BadData(f"an argument of {call.kernel} is at {offset}, outside the arena")
                locations[number] = BufferLocation(Base.ARENA, offset)
        names = self._opened.names
        return KernelCall(
            kernel=call.kernel,
            locations=tuple(locations),
            groups=numbers[each.groups],
            local_size=call.local_size,
            status=call.status,
            messages=tuple(
                _NAME.sub(lambda name: str(numbers[names[name.group()]]), message)
                for message in call.messages
            )
            if names
            else call.messages,
            label=call.label,
            operations=call.operations,
            where=call.where,
            extents=tuple([numbers[number] for number in each.extents]),
        )
