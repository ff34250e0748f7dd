"""Makes executables of an open step for shapes of its inputs.

A new length must not take longer than a small model runs. So the columns of the kernels are changed
as a whole, and similar lengths share a plan of the arena.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Final, TypeAlias

import msgspec

from neurald.drivers.compiler.memory.buffer_location import Port
from neurald.drivers.compiler.memory.extent_evaluation import ExtentEvaluation
from neurald.drivers.cpu.target.executable import Executable
from neurald.drivers.cpu.target.kernel_calls import KernelCalls
from neurald.drivers.cpu.target.open_executable import NAME, OpenExecutable, OpenPort
from neurald.hal.errors import BadData
from neurald.hal.lazy_numpy import Array, np
from neurald.hal.memory.arena_planner import MemoryPlan

_Shape: TypeAlias = tuple[int, ...]
_Shapes: TypeAlias = tuple[_Shape | None, ...]

#: The numbers of bits of a length that a shared plan keeps: memory for up to an eighth more.
_PLANNED_BITS: Final = 4
#: Maximum number of plans that are kept.
_MAX_PLANS: Final = 16


class _Plan(msgspec.Struct, frozen=True, eq=False):
    """A plan of the arena.

    Attributes:
        plan: as the planner gives it.
        sizes: for which each value has memory, in bytes.
        offsets: of each value.
    """

    plan: MemoryPlan
    sizes: Array
    offsets: Array


class SizedExecutables:
    """See this module.

    Args:
        opened: the step, whose lengths do not change while it runs. It has been checked.
    """

    def __init__(self, opened: OpenExecutable) -> None:
        self._opened = opened
        self._evaluation = ExtentEvaluation(opened.program)
        template = opened.template
        places = [place for each in opened.locations for place in each]
        #: Arguments that change, counted over all kernels, with their values and offsets in them.
        changing = [(number, place) for number, place in enumerate(places) if place is not None]
        self._arguments = np.array([number for number, _ in changing], np.intp)
        self._owners = np.array([place.value for _, place in changing], np.intp)
        self._starts = np.array([place.offset for _, place in changing], np.intp)
        self._offsets = np.array(template.calls.argument_offsets(), np.int64)
        self._work_items = np.array(opened.work_items, np.intp)
        items = zip(template.calls.costs_ns, template.calls.work_items, strict=True)
        self._unit_costs = np.array([cost_ns / max(1, count) for cost_ns, count in items], np.float64)
        self._extents = np.array(opened.extents, np.intp)
        self._scratch = np.array(opened.scratch_bytes, np.intp)
        #: The numbers of the sizes of all values, one value after the other, and where each of them
        #: begins. A value without any, which has no bytes, has -1.
        self._sizes = np.array([size for value in opened.values for size in value.sizes or (-1,)], np.intp)
        counts = (max(1, len(value.sizes)) for value in opened.values)
        self._first_sizes = np.array([*accumulate(counts, initial=0)][:-1], np.intp)
        ports = (*opened.inputs, *opened.outputs)
        #: Numbers that must not be negative.
        not_negative = {
            *(size for value in opened.values for size in value.sizes),
            *opened.work_items,
            *opened.scratch_bytes,
            *(place.offset for _, place in changing),
            *(each for port in ports for each in port.dimensions),
        }
        self._not_negative = np.array(sorted(not_negative), np.intp)
        #: By the largest lengths.
        self._plans: dict[tuple[int, ...], _Plan] = {}
        #: The last shapes, with what follows from them.
        self._last: tuple[_Shapes, tuple[tuple[int, ...], Array] | None] | None = None

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
        """Returns the executable for given shapes of the inputs; None if the code does not support them.

        Raises:
            BadData: an argument or operand is outside the arena.
        """
        found = self._numbers(shapes)
        if found is None:
            return None
        lengths, numbers = found
        opened, template = self._opened, self._opened.template
        planned = self._planned(lengths, numbers)
        plan = planned.plan
        places = planned.offsets[self._owners] + numbers[self._starts]
        # All else in the kernels is that of the template, which has been checked.
        if places.size and int(places.max()) > plan.size_bytes:
            raise BadData(f"an argument is at offset {places.max()} of an arena of {plan.size_bytes} bytes")
        offsets = self._offsets.copy()
        offsets[self._arguments] = places

        def port(known: Port, each: OpenPort) -> Port:
            sized = msgspec.structs.replace(
                known,
                offset=None if each.value < 0 else plan.offsets[each.value],
                size_bytes=int(numbers[each.size_bytes]),
                dimensions=_dimensions(each, numbers),
            )
            sized.check(plan.size_bytes)
            return sized

        def message(text: str) -> str:
            return NAME.sub(lambda name: str(numbers[opened.names[name.group()]]), text)

        return msgspec.structs.replace(
            template,
            calls=self._calls(numbers[self._work_items], offsets, message if opened.names else None),
            inputs=tuple(map(port, template.inputs, opened.inputs)),
            outputs=tuple(map(port, template.outputs, opened.outputs)),
            arena_bytes=plan.size_bytes,
            scratch_bytes=int(numbers[self._scratch].max(initial=0)),
            unshared_bytes=plan.unshared_bytes,
            extents=tuple(numbers[self._extents].tolist()),
        )

    def _calls(self, work_items: Array, offsets: Array, message: Callable[[str], str] | None) -> KernelCalls:
        """Returns the kernels with other numbers of work items and offsets of arguments."""
        costs_ns = self._unit_costs * work_items
        if not np.isfinite(costs_ns).all():
            raise BadData("a kernel has a cost that is not finite")
        resized = msgspec.structs.replace(
            self._opened.template.calls,
            work_items=tuple(work_items.tolist()),
            costs_ns=tuple(costs_ns.tolist()),
            offsets=offsets.tobytes(),
        )
        return resized if message is None else resized.with_messages(message)

    def _numbers(self, shapes: Sequence[_Shape | None]) -> tuple[tuple[int, ...], Array] | None:
        """Returns the lengths of the open dimensions, and the numbers of the program for them.

        Returns None if the code does not support shapes of the inputs.
        """
        key, last = tuple(shapes), self._last
        if last is None or last[0] != key:
            self._last = last = key, self._evaluated(key)
        return last[1]

    def _evaluated(self, shapes: _Shapes) -> tuple[tuple[int, ...], Array] | None:
        """Evaluates the program; see `_numbers`."""
        opened = self._opened
        lengths = None if opened.template.instructions else opened.lengths(shapes)
        numbers = None if lengths is None else self._evaluation.evaluate(lengths)
        if lengths is None or numbers is None or numbers[self._not_negative].min(initial=0) < 0:
            return None
        known = [_dimensions(port, numbers) for port in opened.inputs]
        if any(shape is None or tuple(shape) != each for shape, each in zip(shapes, known, strict=True)):
            return None
        return lengths, numbers

    def _planned(self, lengths: Sequence[int], numbers: Array) -> _Plan:
        """Returns the places of the values in the arena, for these lengths and numbers.

        The plan is that of slightly larger lengths if their values are not smaller.
        """
        sizes = self._value_sizes(numbers)
        largest = tuple([_rounded(length) for length in lengths])
        known = self._plans.get(largest)
        if known is None:
            most = self._evaluation.evaluate(largest)
            known = self._plan(sizes if most is None else self._value_sizes(most))
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            self._plans[largest] = known
        return self._plan(sizes) if (sizes > known.sizes).any() else known

    def _value_sizes(self, numbers: Array) -> Array:
        """Returns the size of each value in bytes."""
        if not self._first_sizes.size:
            return np.zeros(0, np.int64)
        sizes: Array = np.maximum.reduceat(numbers[self._sizes] * (self._sizes >= 0), self._first_sizes)
        return sizes

    def _plan(self, sizes: Array) -> _Plan:
        """Returns a plan for values of these sizes."""
        plan = self._opened.planned(sizes.tolist())
        offsets = [plan.offsets[number] for number in range(len(self._opened.values))]
        return _Plan(plan=plan, sizes=sizes, offsets=np.array(offsets, np.int64))


def _dimensions(port: OpenPort, numbers: Array) -> _Shape:
    return tuple([int(numbers[each]) for each in port.dimensions])


def _rounded(length: int) -> int:
    """Rounds a length up to one of few bits."""
    unit = 1 << max(0, length.bit_length() - _PLANNED_BITS)
    return -(-length // unit) * unit
