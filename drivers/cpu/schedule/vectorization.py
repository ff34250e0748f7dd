"""Chooses the vector width and loop order of a kernel, and its division into work items."""

import math
from collections.abc import Iterator, Sequence

from msgspec import Struct

from neurald.drivers.compiler.ir.expression import Apply, Axis, Expression, Load, Reduce
from neurald.drivers.compiler.ir.extents.extent import Extent, estimate
from neurald.drivers.compiler.ir.kernel import Kernel, op_cost
from neurald.drivers.compiler.ir.offsets import offset_of, stride_along
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.traversal import free_axes, walk
from neurald.drivers.compiler.ir.value import Shape
from neurald.drivers.compiler.passes.axis_rewriting import join_axes, split_axis, split_reduced_axes
from neurald.drivers.cpu.emit.byte_tables import has_cheap_lookups, is_permuted
from neurald.drivers.cpu.emit.math.byte_quotients import byte_quotient_of
from neurald.drivers.cpu.emit.op_table import stored
from neurald.drivers.cpu.emit.reductions import is_unrolled, reduction_axis
from neurald.drivers.cpu.schedule.lane_constants import LaneConstants, RowLoad, windows
from neurald.drivers.cpu.target.target import Target
from neurald.hal.records import replace

#: Target time of a work item: short enough to balance threads, long enough to hide the cost of a
#: call.
_WORK_ITEM_NS = 10_000.0
_MAX_GRAINS = 64
#: Upper limit on the time of a work item, because cancellation and deadlines are only checked
#: between work items.
_MAX_WORK_ITEM_NS = 2_000_000.0
#: Maximum number of work items, and minimum number of elements of each, of kernels of which only
#: some rows are needed.
_MAX_LIMITED_ITEMS, _MIN_LIMITED_ELEMENTS = 256, 64
#: Cost of an instruction on a register, and of moving a byte.
_STEP_NS = 0.3
_BYTE_NS = 0.02
#: Cost of a gather, in instructions.
_GATHER_STEPS = 16
#: Instructions of `byte_quotient` for each register of floats.
_QUOTIENT_STEPS = 6
#: Cost of a horizontal reduction of a vector, in instructions; and of one that passes NaN on.
_HORIZONTAL_STEPS, _EXTREME_STEPS = 5, 8
#: Elements with at most this many instructions are computed in several registers at once, to hide
#: latencies.
_MAX_CHEAP_STEPS = 10
_REGISTERS = 4
#: With this many registers, more expensive elements are too.
_MIN_MANY_REGISTERS = 32
#: Maximum number of elements that are reduced together.
_MAX_TOGETHER = 4
#: Limits on rows whose loop is written out: elements, vectors, and expressions in all vectors.
_MAX_ROW_LENGTH = 4096
_MAX_WRITTEN_VECTORS = 32
_MAX_WRITTEN_EXPRESSIONS = 1000
#: The same for rows whose elements are found by a table, so that no shorter ones are alike.
_MAX_TABLED_VECTORS, _MAX_TABLED_EXPRESSIONS = 256, 8000
#: The most instructions that load the elements of such rows, for each expression that they may
#: have: LLVM takes half a minute for 8,000 in a block.
_MAX_LOADING_STEPS = 2
#: Element size that lane counts refer to; twice as large elements take two registers.
_LANE_BYTES = 4
#: Operations that need so many registers that only one vector is computed at a time.
_GREEDY = frozenset((Op.POWER, Op.MODULO))
#: Longest chain of functions that wait for each other of which several registers are computed at
#: once; such code is long.
_MAX_CHAIN_STEPS = 160
#: Functions whose instructions wait for each other more than they need registers.
_WAITING = frozenset((Op.EXP, Op.LOGISTIC, Op.TANH, Op.ERF))


class LoopSchedule(Struct, frozen=True, kw_only=True):
    """Loop nest that computes the elements of a kernel.

    There is a loop for each axis of `order`; that of the kernel's last axis takes `lanes` elements
    per iteration, or is written out (see `lane_constants`). A unit is an iteration of the first
    `outer` loops, or one of `blocks` parts of the last loop in each of those. A work item is a
    number of units.

    Attributes:
        kernel: the kernel, with its axes joined.
        lanes: elements computed together along the last axis, which is at least as long unless its
            length is open.
        order: the axes, outermost loop first.
        outer: number of loops that units iterate over.
        blocks: number of parts of the last loop of `order`; more than one only if `outer` covers
            all other loops.
        block: number of iterations of the last loop in each part but the last.
        units_per_work_item: number of units in a work item.
        cost_ns: estimated time for all elements.
        row: constants of the last axis if its loop is written out; None if it is a loop.
        is_together: True if all elements along the last axis are computed in one iteration, with
            one loop for their reductions, since these read the same.
    """

    kernel: Kernel
    lanes: int
    order: tuple[Axis, ...]
    outer: int
    blocks: int
    block: int
    units_per_work_item: int
    cost_ns: float
    row: LaneConstants | None
    is_together: bool = False

    def iterations(self, axis: Axis) -> int:
        """Returns the number of iterations of an axis' loop."""
        if axis is not self.kernel.axes[-1]:
            return axis.extent
        return 1 if self.row is not None or self.is_together else -(-axis.extent // self.lanes)

    @property
    def units(self) -> int:
        """Number of units."""
        return math.prod(self.iterations(axis) for axis in self.order[: self.outer]) * self.blocks

    @property
    def work_items(self) -> int:
        """Number of work items."""
        return -(-self.units // self.units_per_work_item)


def schedule_loops(kernel: Kernel, target: Target, *, is_single: bool = False) -> LoopSchedule:
    """Chooses the loop nest of a kernel.

    Args:
        kernel: has at least one element; its axes are joined.
        target: the target of the code.
        is_single: True to compute single elements. Otherwise, the last axis may be shorter than a
            vector if its length is open.
    """
    kernel = split_reduced_axes(kernel)
    is_single = is_single or not _is_stored_side_by_side(kernel)
    chosen = (
        _Choice(kernel, 1, None, _element_ns(kernel, 1, target)) if is_single else _choice(kernel, target)
    )
    kernel, lanes = chosen.kernel, chosen.lanes
    cost = estimate(math.prod(kernel.shape)) * chosen.element_ns
    work_items = min(_MAX_GRAINS, math.ceil(cost / _WORK_ITEM_NS))
    wanted = max(1, work_items, math.ceil(cost / _MAX_WORK_ITEM_NS))
    if kernel.limit is not None:
        # The work items of rows that are not needed are left out.
        elements = estimate(math.prod(kernel.shape))
        wanted = max(wanted, min(_MAX_LIMITED_ITEMS, elements // _MIN_LIMITED_ELEMENTS))
    order = kernel.axes if chosen.row is not None else _order(kernel, lanes)
    layout = LoopSchedule(
        kernel=kernel,
        lanes=lanes,
        order=order,
        outer=0,
        blocks=1,
        block=1,
        units_per_work_item=1,
        cost_ns=cost,
        row=chosen.row,
        is_together=lanes == 1 and not is_single and _is_reduced_together(kernel, target),
    )
    outer, units = 0, 1
    while outer < len(order) - 1 and units < wanted:
        units *= estimate(layout.iterations(order[outer]))
        outer += 1
    block = iterations = layout.iterations(order[-1])
    blocks = 1
    if outer == len(order) - 1 and units < wanted:
        known = estimate(iterations)
        block = -(-known // min(known, -(-wanted // units)))
        blocks = -(-iterations // block)
        if not isinstance(blocks, Extent):
            block = -(-iterations // blocks)
    return replace(
        layout,
        outer=outer,
        blocks=blocks,
        block=block,
        units_per_work_item=-(-units * estimate(blocks) // wanted),
    )


def _order(kernel: Kernel, lanes: int) -> tuple[Axis, ...]:
    """Returns the axes of the loops, outermost first.

    If loads gather along the last axis but are contiguous along another one, that becomes the
    innermost loop, so that cache lines are used completely.
    """
    *others, last = kernel.axes
    if lanes > 1:
        for each in walk(*kernel.roots):
            if isinstance(each, Load) and stride_along(offset_of(each), last) not in (0, 1):
                for axis in others:
                    if stride_along(offset_of(each), axis) == 1:
                        return (*(other for other in others if other is not axis), last, axis)
    return kernel.axes


def _is_stored_side_by_side(kernel: Kernel) -> bool:
    """Returns True if elements along the last axis are stored beside each other."""
    return kernel.output_offset is None or stride_along(kernel.output_offset, kernel.axes[-1]) in (0, 1)


class _Choice(Struct, frozen=True):
    """A way to compute the elements along the last axis of a kernel; see `LoopSchedule`."""

    kernel: Kernel
    lanes: int
    row: LaneConstants | None
    element_ns: float


def _choice(kernel: Kernel, target: Target) -> _Choice:
    """Returns the best way to compute a kernel, with more of its axes joined if that is better."""
    if _vectorizes_reduction(kernel, target):
        along = _Choice(kernel, 1, None, _element_ns(kernel, 1, target))
        return min((along, *_written_out(kernel, target, set())), key=lambda choice: choice.element_ns)
    choices = [kernel]
    while (
        _can_join_rows(kernel)
        and estimate(kernel.axes[-1].extent) < target.lanes(_lane_bytes(kernel, target)) // 2
    ):
        # Some loads gather then, but more lanes are used.
        kernel = join_axes(kernel, len(kernel.axes) - 2)
        choices.append(kernel)
    found = []
    seen: set[Shape] = set()
    for choice in reversed(choices):
        lanes = _lanes(choice, target)
        found.append(_Choice(choice, lanes, None, _element_ns(choice, lanes, target)))
        found.extend(_written_out(choice, target, seen))
    return min(found, key=lambda choice: choice.element_ns)


def _can_join_rows(kernel: Kernel) -> bool:
    """Returns True if the last two axes can become one with elements stored adjacently."""
    if len(kernel.axes) == 1 or kernel.output_offset is None:
        return len(kernel.axes) > 1
    outer, inner = kernel.axes[-2:]
    return stride_along(kernel.output_offset, outer) == inner.extent


def _written_out(kernel: Kernel, target: Target, seen: set[Shape]) -> Iterator[_Choice]:
    """Yields ways that write out the loop over rows, if they avoid gathers or conditions.

    Args:
        kernel: the kernel.
        target: the target of the code.
        seen: shapes of the kernel that were tried; this adds further ones.
    """
    if kernel.contraction is not None:
        return
    types = {kernel.output.type, *(each.type for each in walk(*kernel.roots))} - {Scalar.INDEX, Scalar.BOOL}
    native = target.lanes(min(_LANE_BYTES, max((each.size_bytes for each in types), default=1)))
    for each in _with_long_rows(kernel, native):
        along = each.axes[-1]
        if each.shape in seen:
            continue
        seen.add(each.shape)
        if isinstance(along.extent, Extent) or not 1 < along.extent <= _MAX_ROW_LENGTH:
            continue
        row, expressions = LaneConstants(along), list(walk(*each.roots))
        loads = [load for load in expressions if isinstance(load, Load) and _is_irregular(load, row)]
        known = [(load, at) for load in loads if (at := row.row_load(load)) is not None]
        folds = [fold for fold in expressions if isinstance(fold, Reduce) and row.varies(fold)]
        if not known or any(row.row_reduction(fold) is None for fold in folds):
            continue
        is_tabled = any(isinstance(part, Load) for load, _ in known for part in walk(*load.index))
        lanes = min(native, 1 << (along.extent.bit_length() - 1))
        vectors = -(-along.extent // lanes)
        parts = {part for fold in folds for part in walk(fold.body)}
        written = len(set(expressions) - parts) + sum(_written_reduction(fold, row, lanes) for fold in folds)
        most = _MAX_TABLED_VECTORS if is_tabled else _MAX_WRITTEN_VECTORS
        most_expressions = _MAX_TABLED_EXPRESSIONS if is_tabled else _MAX_WRITTEN_EXPRESSIONS
        if vectors > most or vectors * written > most_expressions:
            continue
        loading = vectors * sum(_row_steps(at, load, lanes) for load, at in known)
        if loading <= _MAX_LOADING_STEPS * most_expressions:
            yield _Choice(each, lanes, row, _element_ns(each, lanes, target, row))


def _written_reduction(fold: Reduce, row: LaneConstants, lanes: int) -> float:
    """Returns the approximate number of expressions per vector that reduce a row's elements."""
    found = sum(each.type not in (Scalar.INDEX, Scalar.BOOL) for each in walk(fold.body))
    times = math.prod(each.extent for each in fold.axes) if is_unrolled(fold.body, fold.axes) else 1
    return found * times * _windows(fold, row, lanes)


def _windows(fold: Reduce, row: LaneConstants, lanes: int) -> float:
    """Returns the mean number of vectors of contiguous elements reduced for one of a row."""
    reduction = row.row_reduction(fold)
    assert reduction is not None  # noqa: S101 - other rows are not written out
    total, vectors = 0, -(-len(reduction.offsets) // lanes)
    for number in range(vectors):
        begin = min(number * lanes, len(reduction.offsets) - lanes)
        offsets = reduction.offsets[begin : begin + lanes].tolist()
        total += len(windows(offsets, reduction.reach, lanes)[1])
    return total / vectors


def _with_long_rows(kernel: Kernel, lanes: int) -> Iterator[Kernel]:
    """Yields the kernel; if its rows are shorter than a vector, also with several rows in one."""
    yield kernel
    if not _can_join_rows(kernel):
        return
    rows, length = kernel.shape[-2:]
    if isinstance(rows, Extent) or isinstance(length, Extent) or length >= lanes:
        return
    counts = [each for each in range(2, min(rows, _MAX_ROW_LENGTH) + 1) if not rows % each]
    enough = [each for each in counts if each * length >= lanes] or counts[-1:]
    whole = [each for each in enough if not each * length % lanes]
    for count in dict.fromkeys((*enough[:1], *whole[:1], *counts[-1:])):
        position = len(kernel.axes) - 2
        if count < rows:
            yield join_axes(split_axis(kernel, position, count), position + 1)
        else:
            yield join_axes(kernel, position)


def _is_irregular(load: Load, row: LaneConstants) -> bool:
    """Returns True if elements of a row are gathered, or loaded under different conditions."""
    is_guarded = load.guard is not None and row.varies(load.guard)
    return is_guarded or _is_gathered(load, row.along)


def _row_steps(found: RowLoad, load: Load, lanes: int) -> float:
    """Returns the instructions per vector that load a row's elements from constant positions."""
    steps, vectors = 0, -(-len(found.mask) // lanes)
    for number in range(vectors):
        begin = min(number * lanes, len(found.mask) - lanes)
        mask = found.mask[begin : begin + lanes]
        if mask.any():
            offsets = found.offsets[begin : begin + lanes][mask].tolist()
            steps += 2 * len(windows(offsets, found.reach(load), lanes)[1])
    return steps / vectors


def _lanes(kernel: Kernel, target: Target) -> int:
    """Returns the best number of lanes along the last axis."""
    native = target.lanes(_lane_bytes(kernel, target))
    length, most = kernel.axes[-1].extent, _registers(kernel, target)
    if isinstance(length, Extent):
        # Shorter lengths than a vector get loops of their own.
        length = max(native, length.hint)
    candidates = [native * count for count in (4, 2, 1) if count <= most and native * count <= length]
    if not candidates:
        return 1 << (length.bit_length() - 1)
    return min(candidates, key=lambda lanes: -(-length // lanes) * (lanes / native + 0.5))


def _registers(kernel: Kernel, target: Target) -> int:
    """Returns the best number of registers of elements to compute at once."""
    last = kernel.axes[-1]
    found = list(walk(*kernel.roots))
    if any(isinstance(each, Apply) and each.type.is_float and each.op in _GREEDY for each in found):
        return 1
    gathered = [each for each in found if isinstance(each, Load) and _is_gathered(each, last)]
    if gathered:
        # Parts of a table are all registers that the smaller ones leave.
        has_room = target.registers >= _MIN_MANY_REGISTERS and all(
            _is_table(each, target) for each in gathered
        )
        if has_room and has_cheap_lookups(target):
            return _REGISTERS
        return 2 if has_room else 1
    dividends = _byte_dividends(kernel, target)
    if dividends:
        # Vectors are packed to one of bytes.
        found = list(walk(*dividends))
    steps = sum(_weight(each) for each in found) + sum(isinstance(each, Load) for each in found)
    if steps <= _MAX_CHEAP_STEPS or any(isinstance(each, Reduce) for each in found):
        return _REGISTERS
    waits = any(isinstance(each, Apply) and each.op in _WAITING for each in found)
    has_many = target.registers >= _MIN_MANY_REGISTERS
    if steps > 4 * _MAX_CHEAP_STEPS and not (
        waits and has_many and steps <= _MAX_CHAIN_STEPS and _longest_chain(found) > steps / 2
    ):
        return 1
    is_wide = any(each.type.size_bytes > _LANE_BYTES for each in found if each.type is not Scalar.INDEX)
    has_room = has_many or waits
    return _REGISTERS if has_room and not is_wide else 2


def _byte_dividends(kernel: Kernel, target: Target) -> list[Expression]:
    """Returns what `byte_quotient` divides if it computes all results of a kernel, else nothing."""
    quotients = [byte_quotient_of(each, target) if isinstance(each, Apply) else None for each in kernel.roots]
    found = [each.quotient.dividend for each in quotients if each is not None]
    return found if len(found) == len(quotients) else []


def _longest_chain(found: Sequence[Expression]) -> float:
    """Returns the approximate number of instructions that wait for each other.

    Args:
        found: expressions, each after its operands.
    """
    lengths: dict[Expression, float] = {}
    for each in found:
        lengths[each] = _weight(each) + max((lengths[operand] for operand in each.operands), default=0)
    return max(lengths.values(), default=0)


def _is_gathered(load: Load, along: Axis) -> bool:
    """Returns True if lanes along an axis load from separate addresses."""
    return stride_along(offset_of(load), along) not in (0, 1, -1)


def _is_table(load: Load, target: Target) -> bool:
    """Returns True if the gathered table is in registers."""
    return is_permuted(target, stored(load.value.type), load.value.size_bytes)


def _weight(each: object) -> int:
    """Returns the approximate number of instructions of an expression without its operands."""
    is_number = isinstance(each, Apply) and each.type not in (Scalar.INDEX, Scalar.BOOL)
    return op_cost(each.op) if is_number and isinstance(each, Apply) else 0


def _lane_bytes(kernel: Kernel, target: Target) -> int:
    """Returns the size of the largest computed type, up to four bytes."""
    largest, last = kernel.output.type.size_bytes, kernel.axes[-1]
    for each in walk(*kernel.roots):
        if isinstance(each, Load):
            is_guarded = each.guard is not None and last in free_axes(each.guard)
            if is_guarded or (_is_gathered(each, last) and not _is_table(each, target)):
                return _LANE_BYTES
        if each.type is Scalar.FLOAT16 and not isinstance(each, Load):
            return _LANE_BYTES
        if each.type not in (Scalar.INDEX, Scalar.BOOL):
            largest = max(largest, each.type.size_bytes)
    return min(_LANE_BYTES, largest)


def _vectorizes_reduction(kernel: Kernel, target: Target) -> bool:
    """Returns True if vectorising along a reduced axis is cheaper than along the output."""
    native, inner = target.lanes(_LANE_BYTES), kernel.axes[-1]
    expressions = list(walk(*kernel.roots))
    folds = [each for each in expressions if isinstance(each, Reduce)]
    if not folds:
        return False
    idle = native / min(native, estimate(inner.extent))
    # What is not reduced is computed for single elements if vectors are along a reduced axis.
    reduced = {part for fold in folds for part in walk(fold.body)}
    others = sum(_weight(each) for each in expressions if each not in reduced)
    beside, along = others * idle, float(others * native)
    for fold in folds:
        count = math.prod(estimate(each.extent) for each in fold.axes)
        beside += count * (1 + _reads(fold, inner)) * idle
        is_extreme = fold.type.is_float and fold.reduction in (ReductionOp.MINIMUM, ReductionOp.MAXIMUM)
        along += (_EXTREME_STEPS if is_extreme else _HORIZONTAL_STEPS) * native
        along += min(
            count
            * (1 + _reads(fold, each))
            * -(-estimate(each.extent) // native)
            * native
            / max(1, estimate(each.extent))
            for each in fold.axes
        )
    return along < beside


def _is_reduced_together(kernel: Kernel, target: Target) -> bool:
    """Returns True if the few elements along the last axis reduce different functions of the same.

    Such are the limits of rows that are quantised: the maximum of the elements and of their
    negations.
    """
    along = kernel.axes[-1]
    if isinstance(along.extent, Extent) or not 1 < along.extent <= _MAX_TOGETHER or kernel.requirements:
        return False
    folds = [each for each in walk(kernel.body) if isinstance(each, Reduce)]
    if len(folds) != 1 or along not in free_axes(folds[0].body) or reduction_axis(folds[0], target) is None:
        return False
    return not any(isinstance(each, Load) and along in free_axes(each) for each in walk(folds[0].body))


def _reads(fold: Reduce, along: Axis) -> float:
    """Returns the instructions for loads per reduced element, with lanes along an axis."""
    # Loads that do not vary within the reduction are hoisted.
    folded = set(fold.axes)
    found = (each for each in walk(fold.body) if isinstance(each, Load) and folded & free_axes(each))
    return sum(_GATHER_STEPS if _is_gathered(each, along) else 1 for each in found)


def _element_ns(kernel: Kernel, lanes: int, target: Target, row: LaneConstants | None = None) -> float:
    """Returns the estimated time of one element.

    Args:
        kernel: the kernel.
        lanes: number of elements that are computed together.
        target: the target of the code.
        row: constants of the last axis if its loop is written out.
    """
    width = target.lanes(_LANE_BYTES)
    along = _lanes_of_loads(kernel, lanes, target)
    # Two instructions for the store and loop overhead.
    steps, moved = 2.0, float(kernel.output.type.size_bytes)
    axes: dict[Expression, frozenset[Axis]] = {}
    reduced = {} if row is None else _reduced_windows(kernel, row, lanes)
    dividends = _byte_dividends(kernel, target) if lanes >= 2 * width else []
    steps += _QUOTIENT_STEPS * len(dividends)
    for each in walk(*(dividends or kernel.roots)):
        found = frozenset((each,)) if isinstance(each, Axis) else frozenset()
        found = found.union(*(axes[operand] for operand in each.operands))
        # Expressions that do not vary within a reduction are hoisted out of its loops.
        axes[each] = found.difference(each.axes) if isinstance(each, Reduce) else found
        count = math.prod(axis.extent for axis in found if axis not in kernel.axes) * reduced.get(each, 1)
        if isinstance(each, Load):
            # What is reduced beside others is contiguous.
            lane_axis = None if each in reduced else along.get(each)
            at = None
            if row is not None and each not in reduced and _is_irregular(each, row):
                at = row.row_load(each)
            is_gathered = (
                lane_axis is not None and _is_gathered(each, lane_axis) and not _is_table(each, target)
            )
            if at is not None:
                # A vector of short elements has more lanes than the width.
                steps += _row_steps(at, each, lanes) * min(lanes, width) / lanes
            else:
                steps += count * (_GATHER_STEPS if is_gathered else 1)
            moved += count * each.type.size_bytes
        elif isinstance(each, Reduce) and each.body in reduced:
            # The results are permuted.
            steps += 2 * reduced[each.body]
        steps += count * _weight(each)
    return steps * _STEP_NS / _at_once(kernel, lanes, target) + moved * _BYTE_NS


def _at_once(kernel: Kernel, lanes: int, target: Target) -> float:
    """Returns the mean number of elements that an instruction computes; see `_element_ns`."""
    width = target.lanes(_LANE_BYTES)
    if lanes == 1:
        folds = (each for each in walk(*kernel.roots) if isinstance(each, Reduce))
        return width if any(reduction_axis(each, target) is not None for each in folds) else 1
    if lanes > width:
        return width
    # If the last vector is incomplete, it computes elements again.
    length = max(lanes, estimate(kernel.axes[-1].extent))
    return length / -(-length // lanes)


def _reduced_windows(kernel: Kernel, row: LaneConstants, lanes: int) -> dict[Expression, float]:
    """Maps what is reduced for contiguous elements to their number of vectors for one of a row."""
    folds = (each for each in walk(*kernel.roots) if isinstance(each, Reduce) and row.varies(each))
    return {
        each: _windows(fold, row, lanes) for fold in folds for each in walk(fold.body) if row.varies(each)
    }


def _lanes_of_loads(kernel: Kernel, lanes: int, target: Target) -> dict[Load, Axis | None]:
    """Maps loads to the axis of their lanes; loads of a single element are absent or None."""
    found = list(walk(*kernel.roots))
    if lanes > 1:
        return {each: kernel.axes[-1] for each in found if isinstance(each, Load)}
    return {
        each: axis
        for fold in found
        if isinstance(fold, Reduce)
        for axis in (reduction_axis(fold, target),)
        for each in walk(fold.body)
        if isinstance(each, Load)
    }
