"""Makes executables of an open step for shapes of its inputs.

A new length must not take longer than a small model runs. So the columns of the kernels are changed
as a whole, and similar lengths share a plan of the arena.
"""

from array import array
from collections.abc import Callable, Sequence
from operator import gt
from typing import Final, TypeAlias

import msgspec

from neurald.drivers.compiler.memory.buffer_location import Port
from neurald.drivers.cpu.target.executable import Executable
from neurald.drivers.cpu.target.kernel_calls import KernelCalls
from neurald.drivers.cpu.target.open_executable import NAME, OpenExecutable, OpenPort
from neurald.hal.memory.arena_planner import MemoryPlan

_Shape: TypeAlias = tuple[int, ...]

#: The numbers of bits of a length that a shared plan keeps: memory for up to an eighth more.
_PLANNED_BITS: Final = 4
#: Maximum number of plans that are kept.
_MAX_PLANS: Final = 16


class SizedExecutables:
    """See this module.

    Args:
        opened: the step, whose lengths do not change while it runs.
    """

    def __init__(self, opened: OpenExecutable) -> None:
        self._opened = opened
        template = opened.template
        places = [place for each in opened.locations for place in each]
        #: Arguments that change, counted over all kernels, with the values and their offsets.
        self._changing = [
            (number, place.value, place.offset) for number, place in enumerate(places) if place is not None
        ]
        self._offsets = template.calls.argument_offsets()
        items = zip(template.calls.costs_ns, template.calls.work_items, strict=True)
        self._unit_costs = [cost_ns / max(1, count) for cost_ns, count in items]
        #: Numbers that must not be negative.
        self._sizes = sorted(
            {
                *(size for value in opened.values for size in value.sizes),
                *opened.work_items,
                *opened.scratch_bytes,
                *(offset for _, _, offset in self._changing),
            }
        )
        #: By the largest lengths, with the sizes of the values.
        self._plans: dict[tuple[int, ...], tuple[MemoryPlan, list[int]]] = {}

    def output_shapes(self, shapes: Sequence[_Shape | None]) -> tuple[_Shape, ...] | None:
        """Returns the shapes of the outputs for given shapes of the inputs.

        Returns None if the code does not support them, or if the shapes depend on data.
        """
        found = None if self._opened.template.bounded else self._numbers(shapes)
        if found is None:
            return None
        _, numbers = found
        return tuple(_dimensions(port, numbers) for port in self._opened.outputs)

    def executable(self, shapes: Sequence[_Shape | None]) -> Executable | None:
        """Returns the executable for given shapes of the inputs; None if the code does not support them."""
        found = self._numbers(shapes)
        if found is None:
            return None
        lengths, numbers = found
        opened, template = self._opened, self._opened.template
        plan = self._planned(lengths, numbers)
        offsets = array(self._offsets.typecode, self._offsets)
        for argument, value, offset in self._changing:
            offsets[argument] = plan.offsets[value] + numbers[offset]
        work_items = [numbers[each] for each in opened.work_items]

        def port(known: Port, each: OpenPort) -> Port:
            return msgspec.structs.replace(
                known,
                offset=None if each.value < 0 else plan.offsets[each.value],
                size_bytes=numbers[each.size_bytes],
                dimensions=_dimensions(each, numbers),
            )

        def message(text: str) -> str:
            return NAME.sub(lambda name: str(numbers[opened.names[name.group()]]), text)

        return msgspec.structs.replace(
            template,
            calls=self._calls(work_items, offsets, message if opened.names else None),
            inputs=tuple(map(port, template.inputs, opened.inputs)),
            outputs=tuple(map(port, template.outputs, opened.outputs)),
            arena_bytes=plan.size_bytes,
            scratch_bytes=opened.scratch_size(numbers),
            unshared_bytes=plan.unshared_bytes,
            extents=tuple([numbers[each] for each in opened.extents]),
        )

    def _calls(
        self, work_items: Sequence[int], offsets: "array[int]", message: Callable[[str], str] | None
    ) -> KernelCalls:
        """Returns the kernels with other numbers of work items and offsets of arguments."""
        calls = self._opened.template.calls
        resized = msgspec.structs.replace(
            calls,
            work_items=tuple(work_items),
            costs_ns=tuple([cost * count for cost, count in zip(self._unit_costs, work_items, strict=True)]),
            offsets=offsets.tobytes(),
        )
        return resized if message is None else resized.with_messages(message)

    def _numbers(self, shapes: Sequence[_Shape | None]) -> tuple[tuple[int, ...], list[int]] | None:
        """Returns the lengths of the open dimensions, and the numbers of the program for them.

        Returns None if the code does not support shapes of the inputs.
        """
        opened = self._opened
        lengths = None if opened.template.instructions else opened.lengths(shapes)
        numbers = None if lengths is None else opened.program.evaluate(lengths)
        if lengths is None or numbers is None or any(numbers[each] < 0 for each in self._sizes):
            return None
        known = [_dimensions(port, numbers) for port in opened.inputs]
        if any(shape is None or tuple(shape) != each for shape, each in zip(shapes, known, strict=True)):
            return None
        return lengths, numbers

    def _planned(self, lengths: Sequence[int], numbers: Sequence[int]) -> MemoryPlan:
        """Returns the places of the values in the arena, for these lengths and numbers.

        The plan is that of slightly larger lengths if their values are not smaller.
        """
        opened = self._opened
        sizes = [value.size_bytes(numbers) for value in opened.values]
        largest = tuple([_rounded(length) for length in lengths])
        known = self._plans.get(largest)
        if known is None:
            most = opened.program.evaluate(largest)
            planned = sizes if most is None else [value.size_bytes(most) for value in opened.values]
            known = opened.planned(planned), planned
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            self._plans[largest] = known
        plan, planned = known
        return opened.planned(sizes) if any(map(gt, sizes, planned)) else plan


def _dimensions(port: OpenPort, numbers: Sequence[int]) -> _Shape:
    return tuple([numbers[each] for each in port.dimensions])


def _rounded(length: int) -> int:
    """Rounds a length up to one of few bits."""
    unit = 1 << max(0, length.bit_length() - _PLANNED_BITS)
    return -(-length // unit) * unit
