"""The kernels of a step, in columns.

A step that is loaded makes records from columns at once, and no object for each kernel and
argument. Objects are made of what profiles and messages name.
"""

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, chain, pairwise
from operator import gt
from typing import Final, Self

import msgspec

from neurald.drivers.compiler.memory.buffer_location import Base, BufferLocation
from neurald.hal.decoding import from_msgpack
from neurald.hal.errors import BadData
from neurald.hal.records import DECODE_ERRORS

#: The type of the offsets: signed, with 64 bits.
_OFFSET: Final = "q"
_OFFSET_BYTES: Final = 8
_MAX_WORK_ITEMS: Final = 1 << 62
_BASES: Final = tuple(sorted(Base))


class KernelCall(msgspec.Struct, frozen=True, array_like=True):
    """A kernel of the step.

    Attributes:
        function: its name in the object code.
        locations: locations of its arguments; the output first.
        work_items, cost_ns: see `neurald.drivers.cpu.target.routine.Routine`.
        messages: messages of failed requirements, which are numbered from 1.
        label: describes the algorithm, for profiles.
        operations: positions in the model of the operations that it implements.
    """

    function: str
    locations: tuple[BufferLocation, ...]
    work_items: int
    cost_ns: float
    messages: tuple[str, ...] = ()
    label: str = ""
    operations: tuple[int, ...] = ()


class _Details(msgspec.Struct, frozen=True, array_like=True):
    """The columns that only messages and profiles need."""

    messages: tuple[tuple[str, ...], ...]
    labels: tuple[str, ...]
    operations: tuple[tuple[int, ...], ...]


class KernelCalls(msgspec.Struct, frozen=True, array_like=True):
    """A sequence of `KernelCall`, stored as columns.

    Attributes:
        functions, work_items, costs_ns: the functions, work items, and costs in nanoseconds of each
            kernel; see `KernelCall`.
        counts: number of arguments of each kernel.
        bases: buffer of each argument of all kernels, in a byte.
        offsets: offset of each argument, in 64 bits.
        details: a `_Details`, decoded when it is needed.
    """

    functions: tuple[str, ...] = ()
    work_items: tuple[int, ...] = ()
    costs_ns: tuple[float, ...] = ()
    counts: tuple[int, ...] = ()
    bases: bytes = b""
    offsets: bytes = b""
    details: msgspec.Raw = msgspec.Raw(msgspec.msgpack.encode(((), (), ())))

    @classmethod
    def of(cls, calls: Iterable[KernelCall]) -> Self:
        """Returns the columns of kernels."""
        if isinstance(calls, cls):
            return calls
        calls = tuple(calls)
        places = list(chain.from_iterable([call.locations for call in calls]))
        return cls.of_columns(
            functions=[call.function for call in calls],
            work_items=[call.work_items for call in calls],
            costs_ns=[call.cost_ns for call in calls],
            counts=[len(call.locations) for call in calls],
            bases=bytes([place.base for place in places]),
            offsets=[place.offset for place in places],
            messages=[call.messages for call in calls],
            labels=[call.label for call in calls],
            operations=[call.operations for call in calls],
        )

    @classmethod
    def of_columns(
        cls,
        *,
        functions: Iterable[str],
        work_items: Iterable[int],
        costs_ns: Iterable[float],
        counts: Iterable[int],
        bases: bytes,
        offsets: Iterable[int],
        messages: Iterable[tuple[str, ...]],
        labels: Iterable[str],
        operations: Iterable[tuple[int, ...]],
    ) -> Self:
        """Returns kernels from their columns, see `KernelCalls` and `KernelCall`."""
        details = _Details(messages=tuple(messages), labels=tuple(labels), operations=tuple(operations))
        return cls(
            functions=tuple(functions),
            work_items=tuple(work_items),
            costs_ns=tuple(costs_ns),
            counts=tuple(counts),
            bases=bases,
            offsets=array(_OFFSET, offsets).tobytes(),
            details=msgspec.Raw(msgspec.msgpack.encode(details)),
        )

    def __len__(self) -> int:
        return len(self.functions)

    def __iter__(self) -> Iterator[KernelCall]:
        details = self._details()
        offsets = self.argument_offsets()
        places = [
            BufferLocation(_BASES[base], offset) for base, offset in zip(self.bases, offsets, strict=True)
        ]
        ends = accumulate(self.counts, initial=0)
        for number, (start, end) in enumerate(pairwise(ends)):
            yield KernelCall(
                function=self.functions[number],
                locations=tuple(places[start:end]),
                work_items=self.work_items[number],
                cost_ns=self.costs_ns[number],
                messages=details.messages[number],
                label=details.labels[number],
                operations=details.operations[number],
            )

    def __getitem__(self, number: int) -> KernelCall:
        return tuple(self)[number]

    def _details(self) -> _Details:
        """Decodes the details.

        Raises:
            BadData: they are not those of the kernels.
        """
        try:
            found = from_msgpack(self.details, _Details)
        except DECODE_ERRORS as error:
            raise BadData(f"the details of the kernels are damaged: {error}") from None
        if {len(found.messages), len(found.labels), len(found.operations)} != {len(self)}:
            raise BadData("the details are not those of the kernels")
        return found

    def with_messages(self, message: Callable[[str], str]) -> Self:
        """Returns the kernels with the messages that a function makes of theirs."""
        details = self._details()
        messages = tuple([tuple(map(message, each)) for each in details.messages])
        encoded = msgspec.msgpack.encode(msgspec.structs.replace(details, messages=messages))
        return msgspec.structs.replace(self, details=msgspec.Raw(encoded))

    def argument_offsets(self) -> "array[int]":
        """Returns the offset of each argument of all kernels."""
        found = array(_OFFSET)
        found.frombytes(self.offsets)
        return found

    def check(self, sizes: Sequence[int]) -> None:
        """Checks that arguments are inside their buffers, and that all columns fit together.

        Args:
            sizes: the sizes of the buffers, by `Base`.

        Raises:
            BadData: they are not.
        """
        count, arguments = len(self.functions), len(self.bases)
        lengths = {len(column) for column in (self.work_items, self.costs_ns, self.counts)}
        if lengths != {count} or len(self.offsets) != _OFFSET_BYTES * arguments:
            raise BadData("the columns of the kernels have different lengths")
        if not count and not arguments:
            return
        if min(self.counts, default=0) < 1 or sum(self.counts) != arguments:
            raise BadData(f"the kernels have {sum(self.counts)} arguments, of which {arguments} are given")
        if max(self.bases) >= len(sizes):
            raise BadData(f"an argument is in buffer {max(self.bases)}; there are {len(sizes)}")
        offsets = self.argument_offsets()
        if min(offsets) < 0 or any(map(gt, offsets, map(sizes.__getitem__, self.bases))):
            raise BadData(
                next(
                    f"an argument of {call.function} is at offset {place.offset}, outside its buffer"
                    for call in self
                    for place in call.locations
                    if not 0 <= place.offset <= sizes[place.base]
                )
            )
        if min(self.work_items) < 0 or max(self.work_items) > _MAX_WORK_ITEMS:
            raise BadData(
                f"a kernel has {min(self.work_items)} or {max(self.work_items)} work items; "
                f"0 to {_MAX_WORK_ITEMS} are expected"
            )
        if not math.isfinite(sum(self.costs_ns)) or min(self.costs_ns) < 0:
            raise BadData("a kernel has a cost that is not finite, or negative")
