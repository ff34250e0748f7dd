"""A compiled step with open dimensions, and its launches for each set of lengths."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec

from neurald.drivers.compiler.ir.extents.text import NAME_PATTERN
from neurald.drivers.compiler.memory.arena_plans import SizedPlan
from neurald.drivers.compiler.memory.buffer_location import Base, BufferLocation, Port
from neurald.drivers.compiler.memory.kept_sizes import KeptSizes
from neurald.drivers.compiler.memory.open_step import OpenLocation, OpenPort, OpenStep
from neurald.drivers.compiler.memory.sized_values import SizedValues
from neurald.drivers.opencl.runtime.executable import Executable, KernelCall
from neurald.hal.errors import BadData
from neurald.hal.lazy_numpy import Array, np

_Shape: TypeAlias = tuple[int, ...]

#: Finds the extents that a message names.
_NAME: Final = re.compile(NAME_PATTERN)
#: Limit on the elements of a value and on the numbers that kernels read, so that indices, offsets
#: of eight bytes for each element, and what they are computed from fit into 32 bits.
_MAX_ELEMENTS: Final = ((1 << 31) - 1) // 8
#: Lengths of examples, the shortest first: guards may exclude some.
_SHORT_LENGTHS: Final = (2, 3, 5, 8, 11, 16, 23, 32, 47)
#: Limit on the alignment of values, in bytes; devices require up to 128.
_MAX_ALIGNMENT: Final = 1 << 16
#: Limit on the total size of outputs that are placed before all other values, so that they and the
#: flags are fetched in one transfer.
_MAX_MOVED_BYTES: Final = 1 << 20
#: The sizes of arguments: of the offset of a value, and of a number that a kernel reads.
_PLACE_BYTES: Final = 8
_EXTENT_BYTES: Final = 4
#: The size of a number that is kept.
_WORD_BYTES: Final = 8


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


class OpenExecutable(OpenStep, frozen=True, array_like=True, kw_only=True):
    """A compiled step whose inputs have open dimensions. See `OpenStep` for its values.

    Attributes:
        template: the executable for the lengths that it was compiled for. Its kernels have no
            workspaces, and read no images.
        calls: what differs in each of its calls.
        counts: the open numbers of elements of all values, those of values that are not stored too.
        alignment: the alignment of values, in bytes.
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


class LaunchSizes(msgspec.Struct, frozen=True, eq=False):
    """Holds what depends on the lengths of open dimensions.

    Attributes:
        arguments: a word for each argument that does: of each call the offsets of its values, and
            the numbers that its kernel reads.
        items: the number of work-items of each call.
        inputs, outputs: the ports.
        arena_bytes: the size of the arena, of which the zeros are the first.
        make: returns the executable.
    """

    arguments: Array
    items: Array
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    arena_bytes: int
    make: Callable[[], Executable]


class _ChangingArgument(NamedTuple):
    """An argument of a call that depends on lengths.

    Attributes:
        call: the number of the call.
        position: the argument's position; extents follow the locations.
        size_bytes: its size.
        value, number: it is the sum of the place of a value and of a number of the program. The
            value after the last is at 0.
    """

    call: int
    position: int
    size_bytes: int
    value: int
    number: int


class SizedLaunches:
    """Computes the sizes of an open step for shapes of its inputs.

    Args:
        opened: the step, which has been checked.
        max_bytes: the size of the largest buffer.

    Attributes:
        changing: the call of each of the arguments of `LaunchSizes`, its position among the
            locations and extents there, and its size in bytes.
    """

    def __init__(self, opened: OpenExecutable, max_bytes: int) -> None:
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
        arguments = [*_changing_arguments(opened)]
        self.changing: Final = tuple([(each.call, each.position, each.size_bytes) for each in arguments])
        self._argument_values = np.array([each.value for each in arguments], np.intp)
        self._argument_numbers = np.array([each.number for each in arguments], np.intp)
        self._places = np.flatnonzero(self._argument_values < len(opened.values))
        self._groups = np.array([call.groups for call in opened.calls], np.intp)
        self._local_sizes = np.array([call.local_size for call in opened.template.calls], np.int64)
        self._kept: KeptSizes[LaunchSizes] = KeptSizes(
            _WORD_BYTES * (len(opened.program.values) + len(arguments) + len(opened.calls))
        )

    def output_shapes(self, shapes: Sequence[_Shape | None]) -> tuple[_Shape, ...] | None:
        """Returns the shapes of the outputs for given shapes of the inputs.

        Returns None if the code does not support them.
        """
        return self._values.output_shapes(shapes)

    def executable(self, shapes: Sequence[_Shape | None]) -> Executable | None:
        """Returns the executable for given shapes of the inputs; None if unsupported.

        Raises:
            BadData: an argument or operand is outside the arena.
        """
        sizes = self.sizes(shapes)
        return None if sizes is None else sizes.make()

    def sizes(self, shapes: Sequence[_Shape | None]) -> LaunchSizes | None:
        """Returns the sizes for given shapes of the inputs; None if the code does not support them.

        Raises:
            BadData: an argument or operand is outside the arena.
        """
        found = self._kept.get(shapes)
        if found is None:
            found = self._made(shapes)
            if found is not None:
                self._kept.keep(shapes, found)
        return found

    def _made(self, shapes: Sequence[_Shape | None]) -> LaunchSizes | None:
        """Computes the sizes for given shapes of the inputs; see `sizes`."""
        found = self._values.numbers(shapes)
        if found is None:
            return None
        lengths, numbers = found
        # For the numbers of most models, lists are faster than reductions by NumPy.
        limited = numbers[self._limited].tolist()
        if max(limited, default=0) > _MAX_ELEMENTS or min(limited, default=0) < -_MAX_ELEMENTS:
            return None
        # Kernels divide by lengths, and expect that each value has an element.
        if min(numbers[self._counts].tolist(), default=1) < 1:
            return None
        opened, template = self._opened, self._opened.template
        plan = self._values.plans.planned(lengths, numbers)
        places, size_bytes = self._placed(plan)
        if size_bytes > self._max_bytes:
            return None
        arguments = places[self._argument_values] + numbers[self._argument_numbers]
        end = max(arguments[self._places].tolist(), default=0)
        if end > size_bytes:
            raise BadData(f"an argument is at offset {end} of an arena of {size_bytes} bytes")

        def port(known: Port, each: OpenPort) -> Port:
            sized = Port(
                offset=None if each.value < 0 else int(places[each.value]),
                size_bytes=int(numbers[each.size_bytes]),
                dimensions=each.shape(numbers),
                type=known.type,
                scale=known.scale,
                zero_point=known.zero_point,
            )
            sized.check(size_bytes)
            return sized

        def make() -> Executable:
            return self._executable(sizes, numbers, plan.plan.unshared_bytes)

        sizes = LaunchSizes(
            arguments=arguments,
            items=numbers[self._groups] * self._local_sizes,
            inputs=tuple(map(port, template.inputs, opened.inputs)),
            outputs=tuple(map(port, template.outputs, opened.outputs)),
            arena_bytes=size_bytes,
            make=make,
        )
        return sizes

    def example(self) -> Executable:
        """Returns an executable for short lengths, which takes little time and memory."""
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

    def _placed(self, plan: SizedPlan) -> tuple[Array, int]:
        """Returns the offset of each value, followed by 0, and the size of the arena.

        What has to be 0 at first is at the beginning, so that it is so for all lengths. Small
        outputs follow it.
        """
        alignment = self._opened.alignment
        end = self._opened.template.zeros_bytes
        sizes = [(value, max(1, int(plan.sizes[value]))) for value in sorted(self._outputs)]
        moved = []
        if sum(size_bytes for _, size_bytes in sizes) <= _MAX_MOVED_BYTES:
            for value, size_bytes in sizes:
                moved.append((value, -(-end // alignment) * alignment))
                end = moved[-1][1] + size_bytes
        first = -(-end // alignment) * alignment
        places = np.zeros(len(plan.offsets) + 1, np.int64)
        np.add(plan.offsets, first, out=places[:-1])
        for value, place in moved:
            places[value] = place
        return places, first + plan.plan.size_bytes

    def _executable(self, sizes: LaunchSizes, numbers: Array, unshared_bytes: int) -> Executable:
        """Returns the executable in given sizes."""
        opened, template = self._opened, self._opened.template
        names, arguments = opened.names, iter(sizes.arguments.tolist())

        def call(known: KernelCall, own: OpenCall) -> KernelCall:
            locations = tuple(
                place if changes is None else BufferLocation(Base.ARENA, next(arguments))
                for place, changes in zip(known.locations, own.locations, strict=True)
            )
            messages = known.messages
            if names:
                messages = tuple(
                    _NAME.sub(lambda name: str(numbers[names[name.group()]]), message) for message in messages
                )
            return msgspec.structs.replace(
                known,
                locations=locations,
                groups=int(numbers[own.groups]),
                messages=messages,
                extents=tuple([next(arguments) for _ in own.extents]),
            )

        return msgspec.structs.replace(
            template,
            calls=tuple(map(call, template.calls, opened.calls)),
            inputs=sizes.inputs,
            outputs=sizes.outputs,
            arena_bytes=sizes.arena_bytes,
            unshared_bytes=unshared_bytes,
            zeros=0,
        )


def _changing_arguments(opened: OpenExecutable) -> Iterator[_ChangingArgument]:
    calls = zip(opened.template.calls, opened.calls, strict=True)
    for number, (call, own) in enumerate(calls):
        for position, place in enumerate(own.locations):
            if place is not None:
                yield _ChangingArgument(number, position, _PLACE_BYTES, place.value, place.offset)
        for position, extent in enumerate(own.extents, len(call.locations)):
            yield _ChangingArgument(number, position, _EXTENT_BYTES, len(opened.values), extent)
