"""Computes the sizes of an open step for shapes of its inputs.

A new length must not take longer than a small model runs. So the columns of the kernels are changed
as a whole.
"""

import math
from collections.abc import Sequence
from itertools import islice
from typing import Final, TypeAlias

import msgspec

from neurald.drivers.compiler.memory.buffer_location import Port
from neurald.drivers.compiler.memory.open_step import OpenPort
from neurald.drivers.compiler.memory.sized_values import SizedValues
from neurald.drivers.cpu.target.executable import Executable
from neurald.drivers.cpu.target.open_executable import NAME, OpenExecutable
from neurald.drivers.cpu.target.routine import ALIGNMENT
from neurald.drivers.cpu.target.step_sizes import StepSizes
from neurald.hal.errors import BadData
from neurald.hal.lazy_numpy import Array, np
from neurald.hal.memory.arena_planner import MemoryPlan
from neurald.hal.process.fork import forkable_lock

_Shape: TypeAlias = tuple[int, ...]
_Shapes: TypeAlias = tuple[_Shape | None, ...]

#: Maximum number of sizes that are kept, and of bytes of their numbers. Eight are kept of any model.
_MAX_KEPT: Final = 256
_MAX_KEPT_BYTES: Final = 4 << 20
_ALWAYS_KEPT: Final = 8


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
        self._scratch = np.array(sorted({*opened.scratch_bytes}), np.intp)
        #: The size and dimensions of each port, one port after the other.
        self._ports = np.array(
            [
                number
                for port in (*opened.inputs, *opened.outputs)
                for number in (port.size_bytes, *port.dimensions)
            ],
            np.intp,
        )
        self._values = SizedValues(
            opened,
            ALIGNMENT,
            (*opened.work_items, *opened.scratch_bytes, *(place.offset for _, place in changing)),
        )
        #: The sizes of the shapes that were asked for last, and how many are kept.
        self._known: dict[_Shapes, StepSizes] = {}
        self._most = 0
        self._lock = forkable_lock()

    def sizes(self, shapes: Sequence[_Shape | None]) -> StepSizes | None:
        """Returns the sizes for given shapes of the inputs; None if the code does not support them.

        Raises:
            BadData: an argument or operand is outside the arena.
        """
        key = tuple(shapes)
        found = self._known.get(key)
        if found is None:
            found = self._made(key)
            if found is not None:
                self._keep(key, found)
        return found

    def _keep(self, shapes: _Shapes, sizes: StepSizes) -> None:
        """Keeps sizes for further executions, in place of those that were made first if they are many."""
        with self._lock:
            if not self._known:
                self._most = max(_ALWAYS_KEPT, min(_MAX_KEPT, _MAX_KEPT_BYTES // max(1, sizes.size_bytes)))
            while len(self._known) >= self._most:
                del self._known[next(iter(self._known))]
            self._known[shapes] = sizes

    def output_shapes(self, shapes: Sequence[_Shape | None]) -> tuple[_Shape, ...] | None:
        """Returns the shapes of the outputs for given shapes of the inputs.

        Returns None if the code does not support them, or if the shapes depend on data.
        """
        found = None if self._opened.template.bounded else self.sizes(shapes)
        return None if found is None else found.output_shapes

    def _made(self, shapes: _Shapes) -> StepSizes | None:
        """Makes the sizes for given shapes of the inputs; see `sizes`."""
        evaluated = None if self._opened.template.instructions else self._values.numbers(shapes)
        if evaluated is None:
            return None
        lengths, numbers = evaluated
        opened, template = self._opened, self._opened.template
        planned = self._values.planned(lengths, numbers)
        plan = planned.plan
        places = planned.offsets[self._owners] + numbers[self._starts]
        # All else in the kernels is that of the template, which has been checked.
        furthest = max(places.tolist(), default=0)
        if furthest > plan.size_bytes:
            raise BadData(f"an argument is at offset {furthest} of an arena of {plan.size_bytes} bytes")
        offsets = self._offsets.copy()
        offsets[self._arguments] = places
        work_items = numbers[self._work_items]
        costs_ns = self._unit_costs * work_items
        cost_ns = sum(costs_ns.tolist())
        if not math.isfinite(cost_ns):
            raise BadData("the kernels have costs whose sum is not finite")
        described = iter(numbers[self._ports].tolist())

        def port(known: Port, each: OpenPort) -> Port:
            sized = Port(
                offset=None if each.value < 0 else plan.offsets[each.value],
                size_bytes=next(described),
                dimensions=tuple(islice(described, len(each.dimensions))),
                type=known.type,
                scale=known.scale,
                zero_point=known.zero_point,
            )
            sized.check(plan.size_bytes)
            return sized

        def make(sizes: StepSizes) -> Executable:
            return self._executable(sizes, plan, numbers)

        return StepSizes(
            inputs=tuple(map(port, template.inputs, opened.inputs)),
            outputs=tuple(map(port, template.outputs, opened.outputs)),
            work_items=work_items,
            costs_ns=costs_ns,
            cost_ns=cost_ns,
            offsets=offsets,
            extents=numbers[self._extents],
            arena_bytes=plan.size_bytes,
            scratch_bytes=max(numbers[self._scratch].tolist(), default=0),
            make=make,
        )

    def _executable(self, sizes: StepSizes, plan: MemoryPlan, numbers: Array) -> Executable:
        """Returns the executable in given sizes."""
        opened, template = self._opened, self._opened.template
        calls = msgspec.structs.replace(
            template.calls,
            work_items=tuple(sizes.work_items.tolist()),
            costs_ns=tuple(sizes.costs_ns.tolist()),
            offsets=sizes.offsets.tobytes(),
        )
        if opened.names:
            calls = calls.with_messages(
                lambda text: NAME.sub(lambda name: str(numbers[opened.names[name.group()]]), text)
            )
        return msgspec.structs.replace(
            template,
            calls=calls,
            inputs=sizes.inputs,
            outputs=sizes.outputs,
            arena_bytes=sizes.arena_bytes,
            scratch_bytes=sizes.scratch_bytes,
            unshared_bytes=plan.unshared_bytes,
            extents=tuple(sizes.extents.tolist()),
        )
