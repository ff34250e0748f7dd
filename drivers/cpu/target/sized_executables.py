"""Makes executables of an open step for shapes of its inputs.

A new length must not take longer than a small model runs. So the columns of the kernels are changed
as a whole.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from neurald.drivers.compiler.memory.buffer_location import Port
from neurald.drivers.compiler.memory.open_step import OpenPort
from neurald.drivers.compiler.memory.sized_values import SizedValues
from neurald.drivers.cpu.target.executable import Executable
from neurald.drivers.cpu.target.kernel_calls import KernelCalls
from neurald.drivers.cpu.target.open_executable import NAME, OpenExecutable
from neurald.drivers.cpu.target.routine import ALIGNMENT
from neurald.hal.errors import BadData
from neurald.hal.lazy_numpy import Array, np

_Shape: TypeAlias = tuple[int, ...]


class SizedExecutables:
    """See this module.

    Args:
        opened: the step, whose lengths do not change while it runs. It has been checked.
    """

    def __init__(self, opened: OpenExecutable) -> None:
        self._opened = opened
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
        self._values = SizedValues(
            opened,
            ALIGNMENT,
            (*opened.work_items, *opened.scratch_bytes, *(place.offset for _, place in changing)),
        )

    def output_shapes(self, shapes: Sequence[_Shape | None]) -> tuple[_Shape, ...] | None:
        """Returns the shapes of the outputs for given shapes of the inputs.

        Returns None if the code does not support them, or if the shapes depend on data.
        """
        if self._opened.template.bounded or self._opened.template.instructions:
            return None
        return self._values.output_shapes(shapes)

    def executable(self, shapes: Sequence[_Shape | None]) -> Executable | None:
        """Returns the executable for given shapes of the inputs; None if the code does not support them.

        Raises:
            BadData: an argument or operand is outside the arena.
        """
        found = None if self._opened.template.instructions else self._values.numbers(shapes)
        if found is None:
            return None
        lengths, numbers = found
        opened, template = self._opened, self._opened.template
        planned = self._values.planned(lengths, numbers)
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
                dimensions=each.shape(numbers),
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
