"""How the elements of a kernel are computed: how many at once, in which order, and in which parts."""

import math
from dataclasses import dataclass

from neurald.drivers.compiler.expression import Apply, Axis, Expression, Load, Reduce
from neurald.drivers.compiler.kernel import Kernel, weight_of
from neurald.drivers.compiler.op import Op
from neurald.drivers.compiler.rewriting import free_axes, walk
from neurald.drivers.compiler.scalar import Scalar
from neurald.drivers.cpu.arrangement import joined
from neurald.drivers.cpu.dialect import stored
from neurald.drivers.cpu.folds import folding_axis
from neurald.drivers.cpu.memory import is_permuted
from neurald.drivers.cpu.places import place_of, stride_along
from neurald.drivers.cpu.target import Target

#: A grain takes about so long, so that threads that are late still find some, and starting one costs next to nothing.
_GRAIN_NS = 10_000.0
_MAXIMUM_GRAINS = 64
#: But no grain is to take longer: executions that are cancelled or late are left between grains.
_LONGEST_GRAIN_NS = 2_000_000.0
#: What an instruction on a whole register takes, and what a byte takes on its way.
_STEP_NS = 0.3
_BYTE_NS = 0.02
#: A gather takes about as long as so many instructions.
_GATHER_STEPS = 16
#: What it takes to fold the lanes of a vector with each other.
_HORIZONTAL_STEPS = 20
#: Elements of so few steps are computed in several registers at once: more of them are under way then.
_CHEAP_STEPS = 10
_REGISTERS = 4
#: Processors with so many keep the numbers of less cheap ones there too.
_MANY_REGISTERS = 32
#: The size that lanes are counted in: numbers of twice that size take two registers.
_LANE_BYTES = 4
#: What takes so many registers that there are none left for more elements at once.
_GREEDY = frozenset((Op.POWER, Op.MODULO))


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How the elements of a kernel are computed.

    There is a loop for each axis of `order`; that of the kernel's last axis takes `lanes` elements at a time. A unit is a turn
    of the first `outer` loops, or one of `blocks` parts of the last loop in each of those; a grain is some units.

    Attributes:
        kernel: with axes joined.
        lanes: how many elements are computed together, along the last axis, which is at least as long.
        order: the axes, the outermost loop first.
        outer: how many loops units run over.
        blocks: in how many parts the last loop of `order` is split; more than one only if `outer` are all but that.
        units_per_grain: how many parts a grain has.
        cost_ns: of all elements.
    """

    kernel: Kernel
    lanes: int
    order: tuple[Axis, ...]
    outer: int
    blocks: int
    units_per_grain: int
    cost_ns: float

    def turns(self, axis: Axis) -> int:
        """How often the loop of an axis is gone through."""
        return -(-axis.extent // self.lanes) if axis is self.kernel.axes[-1] else axis.extent

    @property
    def block(self) -> int:
        """The turns of the last loop that are in one part of it."""
        return -(-self.turns(self.order[-1]) // self.blocks)

    @property
    def units(self) -> int:
        """How many units there are."""
        return math.prod(self.turns(axis) for axis in self.order[: self.outer]) * self.blocks

    @property
    def grains(self) -> int:
        """How many grains there are."""
        return -(-self.units // self.units_per_grain)


def layout_of(kernel: Kernel, target: Target) -> Layout:
    """How a kernel is best computed.

    Args:
        kernel: of at least one element, its axes joined.
        target: what it is computed with.
    """
    kernel, lanes = _with_lanes(kernel, target)
    cost = math.prod(kernel.shape) * _element_ns(kernel, lanes, target)
    grains = min(_MAXIMUM_GRAINS, math.ceil(cost / _GRAIN_NS))
    wanted = max(1, grains, math.ceil(cost / _LONGEST_GRAIN_NS))
    order = _order(kernel, lanes)
    layout = Layout(
        kernel=kernel, lanes=lanes, order=order, outer=0, blocks=1, units_per_grain=1, cost_ns=cost
    )
    outer, units = 0, 1
    while outer < len(order) - 1 and units < wanted:
        units *= layout.turns(order[outer])
        outer += 1
    blocks = 1
    if outer == len(order) - 1 and units < wanted:
        turns = layout.turns(order[-1])
        block = -(-turns // min(turns, -(-wanted // units)))
        blocks = -(-turns // block)
    return Layout(
        kernel=kernel,
        lanes=lanes,
        order=order,
        outer=outer,
        blocks=blocks,
        units_per_grain=-(-units * blocks // wanted),
        cost_ns=cost,
    )


def _order(kernel: Kernel, lanes: int) -> tuple[Axis, ...]:
    """The axes of the loops, the outermost first.

    What is gathered along the last axis may lie next to each other along another one: that comes innermost, so that what is
    brought to the cache with an element is used before it is gone.
    """
    *others, last = kernel.axes
    if lanes > 1:
        for each in walk(*kernel.roots):
            if isinstance(each, Load) and stride_along(place_of(each), last) not in (0, 1):
                for axis in others:
                    if stride_along(place_of(each), axis) == 1:
                        return (*(other for other in others if other is not axis), last, axis)
    return kernel.axes


def _with_lanes(kernel: Kernel, target: Target) -> tuple[Kernel, int]:
    """The kernel, and how many elements along its last axis are best computed together."""
    if _folds_along(kernel, target):
        return kernel, 1
    choices = [kernel]
    # What is stored must lie side by side, whatever is gathered.
    joins = kernel.output_offset is None
    while (
        joins
        and len(kernel.axes) > 1
        and kernel.axes[-1].extent < target.lanes(_lane_bytes(kernel, target)) // 2
    ):
        # Some places are gathered then, but more lanes are in use.
        kernel = joined(kernel, len(kernel.axes) - 2)
        choices.append(kernel)
    found = [(choice, _lanes(choice, target)) for choice in reversed(choices)]
    return min(found, key=lambda choice: _element_ns(choice[0], choice[1], target))


def _lanes(kernel: Kernel, target: Target) -> int:
    """How many elements along the last axis are best computed together."""
    native = target.lanes(_lane_bytes(kernel, target))
    length, most = kernel.axes[-1].extent, _registers(kernel, target)
    candidates = [native * count for count in (4, 2, 1) if count <= most and native * count <= length]
    if not candidates:
        return 1 << (length.bit_length() - 1)
    return min(candidates, key=lambda lanes: -(-length // lanes) * (lanes / native + 0.5))


def _registers(kernel: Kernel, target: Target) -> int:
    """How many registers of elements are best computed at once."""
    last = kernel.axes[-1]
    found = list(walk(*kernel.roots))
    if any(isinstance(each, Apply) and each.type.is_float and each.op in _GREEDY for each in found):
        return 1
    gathered = [each for each in found if isinstance(each, Load) and _is_gathered(each, last)]
    if gathered:
        return 2 if all(_is_table(each, target) for each in gathered) else 1
    steps = sum(_weight(each) for each in found) + sum(isinstance(each, Load) for each in found)
    if steps <= _CHEAP_STEPS or any(isinstance(each, Reduce) for each in found):
        return _REGISTERS
    if steps > 4 * _CHEAP_STEPS:
        return 1
    is_wide = any(each.type.size_bytes > _LANE_BYTES for each in found if each.type is not Scalar.INDEX)
    return _REGISTERS if target.registers >= _MANY_REGISTERS and not is_wide else 2


def _is_gathered(load: Load, along: Axis) -> bool:
    """Whether what is loaded by lanes along an axis comes from places of their own."""
    return stride_along(place_of(load), along) not in (0, 1)


def _is_table(load: Load, target: Target) -> bool:
    """Whether what is gathered is in registers."""
    return is_permuted(target, stored(load.value.type), load.value.size_bytes)


def _weight(each: object) -> int:
    """About how many instructions an expression takes, apart from those it is computed from."""
    is_number = isinstance(each, Apply) and each.type not in (Scalar.INDEX, Scalar.BOOL)
    return weight_of(each.op) if is_number and isinstance(each, Apply) else 0


def _lane_bytes(kernel: Kernel, target: Target) -> int:
    """The size of the largest numbers that are computed with, but no more than four bytes."""
    largest = kernel.output.type.size_bytes
    for each in walk(*kernel.roots):
        is_apart = (
            isinstance(each, Load) and _is_gathered(each, kernel.axes[-1]) and not _is_table(each, target)
        )
        if isinstance(each, Load) and (each.guard is not None or is_apart):
            return _LANE_BYTES
        if each.type is Scalar.FLOAT16 and not isinstance(each, Load):
            return _LANE_BYTES
        if each.type not in (Scalar.INDEX, Scalar.BOOL):
            largest = max(largest, each.type.size_bytes)
    return min(_LANE_BYTES, largest)


def _folds_along(kernel: Kernel, target: Target) -> bool:
    """Whether an element is better computed by lanes along an axis that it folds than with its neighbours."""
    native, inner = target.lanes(_LANE_BYTES), kernel.axes[-1]
    beside = along = 0.0
    for fold in (each for each in walk(*kernel.roots) if isinstance(each, Reduce)):
        count = math.prod(each.extent for each in fold.axes)
        idle = native / min(native, inner.extent)
        beside += count * (1 + _reads(fold, inner)) * idle
        along += _HORIZONTAL_STEPS * native
        along += min(
            count * (1 + _reads(fold, each)) * -(-each.extent // native) * native / max(1, each.extent)
            for each in fold.axes
        )
    return along < beside


def _reads(fold: Reduce, along: Axis) -> float:
    """What loads take for each of the elements that are folded, in steps, if lanes lie along an axis."""
    # What is the same for all of them is loaded once.
    folded = set(fold.axes)
    found = (each for each in walk(fold.body) if isinstance(each, Load) and folded & free_axes(each))
    return sum(_GATHER_STEPS if _is_gathered(each, along) else 1 for each in found)


def _element_ns(kernel: Kernel, lanes: int, target: Target) -> float:
    """About how long one element takes."""
    width = target.lanes(_LANE_BYTES)
    along = _lanes_of_loads(kernel, lanes, target)
    # Stores and loops.
    steps, moved = 2.0, float(kernel.output.type.size_bytes)
    axes: dict[Expression, frozenset[Axis]] = {}
    for each in walk(*kernel.roots):
        found = frozenset((each,)) if isinstance(each, Axis) else frozenset()
        found = found.union(*(axes[operand] for operand in each.operands))
        # What does not change in a fold is computed outside of its loops.
        axes[each] = found.difference(each.axes) if isinstance(each, Reduce) else found
        count = math.prod(axis.extent for axis in found if axis not in kernel.axes)
        if isinstance(each, Load):
            lane_axis = along.get(each)
            is_gathered = (
                lane_axis is not None and _is_gathered(each, lane_axis) and not _is_table(each, target)
            )
            steps += count * (_GATHER_STEPS if is_gathered else 1)
            moved += count * each.type.size_bytes
        steps += count * _weight(each)
    at_once = width if lanes == 1 and kernel.has_reduction else min(lanes, width)
    return steps * _STEP_NS / at_once + moved * _BYTE_NS


def _lanes_of_loads(kernel: Kernel, lanes: int, target: Target) -> dict[Load, Axis | None]:
    """The axis that the lanes of each load lie along; None, or no load, where a single element is loaded."""
    found = list(walk(*kernel.roots))
    if lanes > 1:
        return {each: kernel.axes[-1] for each in found if isinstance(each, Load)}
    return {
        each: axis
        for fold in found
        if isinstance(fold, Reduce)
        for axis in (folding_axis(fold, target),)
        for each in walk(fold.body)
        if isinstance(each, Load)
    }
