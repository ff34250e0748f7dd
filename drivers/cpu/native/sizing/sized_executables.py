"""Computes the sizes of an open step for shapes of its inputs.

A new length must not take longer than a small model runs. So native code computes them.
"""

import array
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TypeAlias

import msgspec

from neurald.drivers.compiler.memory.arena_plans import ArenaPlans
from neurald.drivers.compiler.memory.buffer_location import Port
from neurald.drivers.compiler.memory.kept_sizes import KeptSizes
from neurald.drivers.compiler.memory.open_step import OpenPort
from neurald.drivers.cpu.native.programs.sizing_program import SizeRefusal
from neurald.drivers.cpu.native.sizing.step_sizing import StepSizing
from neurald.drivers.cpu.target.executable import Executable
from neurald.drivers.cpu.target.open_executable import NAME, OpenExecutable
from neurald.drivers.cpu.target.routine import ALIGNMENT
from neurald.drivers.cpu.target.step_sizes import StepSizes
from neurald.hal.errors import BadData
from neurald.hal.lazy_numpy import Array
from neurald.hal.memory.arena_planner import MemoryPlan

_Shape: TypeAlias = tuple[int, ...]
_Shapes: TypeAlias = tuple[_Shape | None, ...]


class SizedExecutables:
    """The sizes of one step for shapes of its inputs, of which it keeps the latest ones.

    Args:
        opened: the step, whose lengths do not change while it runs. It has been checked.
        functions: addresses of native functions, see
            `neurald.drivers.cpu.native.programs.sizing_program`.
    """

    def __init__(self, opened: OpenExecutable, functions: Mapping[str, int]) -> None:
        self._opened = opened
        self._sizing = StepSizing(opened, functions)
        self._plans = ArenaPlans(opened, ALIGNMENT, self._numbers)
        self._kept: KeptSizes[StepSizes] = KeptSizes(self._sizing.size_bytes)

    def _numbers(self, lengths: Sequence[int]) -> Array | None:
        words = self._sizing.evaluate(lengths)
        return None if words is None else self._sizing.numbers(words)

    def sizes(self, shapes: Sequence[_Shape | None]) -> StepSizes | None:
        """Returns the sizes for given shapes of the inputs; None if the code does not support them.

        Raises:
            BadData: an argument or operand is outside the arena.
        """
        key = tuple(shapes)
        found = self._kept.get(key)
        if found is None:
            found = self._made(key)
            if found is not None:
                self._kept.keep(key, found)
        return found

    def output_shapes(self, shapes: Sequence[_Shape | None]) -> tuple[_Shape, ...] | None:
        """Returns the shapes of the outputs for given shapes of the inputs.

        Returns None if the code does not support them, or if the shapes depend on data.
        """
        found = None if self._opened.template.bounded else self.sizes(shapes)
        return None if found is None else found.output_shapes

    def _made(self, shapes: _Shapes) -> StepSizes | None:
        """Makes the sizes for given shapes of the inputs; see `sizes`."""
        opened, template, sizing = self._opened, self._opened.template, self._sizing
        lengths = None if template.instructions else opened.lengths(shapes)
        words = None if lengths is None else sizing.evaluate(lengths)
        if lengths is None or words is None:
            return None
        plan = self._planned(lengths, words)
        parts = sizing.parts(words)
        ports = iter(parts.ports)

        def port(known: Port, each: OpenPort) -> Port:
            offset = next(ports)
            return Port(
                offset=None if each.value < 0 else offset,
                size_bytes=next(ports),
                dimensions=tuple(islice(ports, len(each.dimensions))),
                type=known.type,
                scale=known.scale,
                zero_point=known.zero_point,
            )

        inputs = tuple(map(port, template.inputs, opened.inputs))
        if tuple([each.dimensions for each in inputs]) != shapes:
            return None

        def make(sizes: StepSizes) -> Executable:
            return self._executable(sizes, plan, sizing.numbers(words))

        return StepSizes(
            inputs=inputs,
            outputs=tuple(map(port, template.outputs, opened.outputs)),
            records=parts.records,
            costs_ns=parts.costs_ns,
            cost_ns=parts.cost_ns,
            offsets=parts.offsets,
            extents=parts.extents,
            arena_bytes=plan.size_bytes,
            scratch_bytes=parts.scratch_bytes,
            make=make,
        )

    def _planned(self, lengths: Sequence[int], words: "array.array[int]") -> MemoryPlan:
        """Computes the sizes in `words`, and returns the plan of the arena that they refer to.

        Raises:
            BadData: an argument or operand is outside the arena, or a cost is not finite.
        """
        for planned in self._plans.shared(lengths):
            refusal = self._sizing.size(words, planned.words)
            if refusal != SizeRefusal.NO_ROOM:
                break
        else:
            planned = self._plans.plan(self._plans.value_sizes(self._sizing.numbers(words)))
            refusal = self._sizing.size(words, planned.words)
        if refusal:
            raise BadData(self._sizing.refused(refusal, words, planned.plan.size_bytes))
        return planned.plan

    def _executable(self, sizes: StepSizes, plan: MemoryPlan, numbers: Array) -> Executable:
        """Returns the executable in given sizes."""
        opened, template = self._opened, self._opened.template
        calls = msgspec.structs.replace(
            template.calls,
            work_items=tuple(numbers[[*opened.work_items]].tolist()),
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
