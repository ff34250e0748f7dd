"""Rows that are shorter than a vector, several of which are computed at once.

Such are the classes of a pixel: a softmax of four of them fills a quarter of a register with 512
bits. Rows whose length divides the number of lanes lie beside each other in vectors. A reduction
combines each lane with those of its row, in steps of 1, 2, 4, and so on, so that every lane of the
row has the result. Rows of other lengths fill a register as far as whole ones fit, if it can be
loaded and stored in part: their first lanes get the results, which are then copied.
"""

import math
from collections.abc import Sequence

from neurald.drivers.compiler.ir.expression import Axis, Expression, Load, Reduce, axis
from neurald.drivers.compiler.ir.extents.extent import has_extents
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.offsets import offset_of, stride_along
from neurald.drivers.compiler.ir.traversal import substitute
from neurald.drivers.cpu.codegen.epilogue import arguments_of, finish, parameter_names, pointer_names
from neurald.drivers.cpu.codegen.statements import Statements
from neurald.drivers.cpu.codegen.vector_lanes import VectorLanes
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.op_table import computed
from neurald.drivers.cpu.emit.reductions import combine, identity_text, is_number
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.common.addressing import multiple
from neurald.drivers.cpu.kernels.common.function import cost_ns, function_text
from neurald.drivers.cpu.kernels.common.work_items import each_work_item
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target
from neurald.hal.records import replace

#: Size of a lane.
_LANE_BYTES = 4
#: Minimum number of rows in a vector.
_MIN_ROWS = 2
#: Size of registers of which parts are loaded and stored as fast as all of one.
_MASKED_BYTES = 64
#: Registers that are computed at once if there are many, to hide latencies; and how many are many.
_REGISTERS, _MIN_MANY_REGISTERS = 2, 32


def routine(kernel: Kernel, reductions: Sequence[Reduce], target: Target, *, steps: float) -> Routine | None:
    """Returns the routine of rows that are computed beside each other, or None if they cannot be.

    Args:
        kernel: its last axis is along the rows.
        reductions: the reductions of the rows, each along one axis, in dependency order.
        target: the target of the code.
        steps: the approximate number of instructions per element.
    """
    native = target.lanes(_LANE_BYTES)
    lanes = native * (_REGISTERS if target.registers >= _MIN_MANY_REGISTERS else 1)
    if len(kernel.axes) != 2 or has_extents(kernel.shape):
        return None
    (rows, along), count = kernel.axes, math.prod(kernel.shape)
    if not 1 < along.extent <= lanes // _MIN_ROWS or count < lanes:
        return None
    is_whole = lanes % along.extent == 0
    if not is_whole and target.vector_bytes < _MASKED_BYTES:
        return None
    # A vector has whole rows.
    step = lanes // along.extent * along.extent
    both = axis(count, "i")
    place: dict[Expression, Expression] = {rows: both // along.extent, along: both % along.extent}
    joined = replace(kernel, axes=(both,), body=substitute(kernel.body, place))
    found = [substitute(each, place) for each in reductions]
    elements = [
        substitute(each.body, {each.axes[0]: both % along.extent})
        for each in found
        if isinstance(each, Reduce)
    ]
    if not all(_is_contiguous(each, both) for each in (joined.body, *elements)):
        return None
    arguments = arguments_of(joined)
    code, pointers = Instructions(parameter_names(arguments)), pointer_names(arguments)
    v, units = Vector(code, target, lanes), -(-count // step)
    mask = None if is_whole else v.numbers("i1", [lane < step for lane in range(lanes)])
    with each_work_item(code, [units]) as ((unit,), _):
        # The last vector overlaps the one before.
        begin = Vector(code, target, 1).call(
            "llvm.smin", "i64", multiple(code, unit, step), str(count - step)
        )
        statements = Statements(
            code, target, pointers, {both: begin}, lanes=VectorLanes.across(v, both, mask)
        )
        for each, element in zip(found, elements, strict=True):
            assert isinstance(each, Reduce)  # noqa: S101 - substitution keeps it
            combined = _of_rows if is_whole else _of_first_lanes
            statements.know(each, combined(v, each, statements.value(element), along.extent))
        finish(statements, joined, pointers[joined.output], both)
    return Routine(
        text=function_text(code, arguments),
        arguments=arguments,
        work_items=units,
        cost_ns=cost_ns(units * (lanes // native) * steps, arguments),
        declarations=frozenset(code.declarations),
        label=f"rows of {along.extent}, {step // along.extent} rows at once",
        operations=kernel.operations,
    )


def _is_contiguous(expression: Expression, along: Axis) -> bool:
    """Returns True if an element loads, outside reductions, what lies beside the last one's.

    Tables are exempt.
    """
    pending, seen = [expression], {expression}
    while pending:
        each = pending.pop()
        is_read = isinstance(each, Load) and each.value.constant is None
        if isinstance(each, Load) and is_read and stride_along(offset_of(each), along) not in (0, 1):
            return False
        if not isinstance(each, Reduce):
            operands = set(each.operands) - seen
            seen |= operands
            pending += operands
    return True


def _of_rows(v: Vector, reduction: Reduce, value: str, length: int) -> str:
    """Returns the results of rows of this length, in each lane of the row."""
    distance = 1
    while distance < length:
        order = [lane ^ distance for lane in range(v.lanes)]
        value = _combined(v, reduction, value, value, order)
        distance *= 2
    return value


def _of_first_lanes(v: Vector, reduction: Reduce, value: str, length: int) -> str:
    """Returns the same as `_of_rows` for rows of a length that does not divide the lanes."""
    identity, places = identity_text(v, reduction), [lane % length for lane in range(v.lanes)]
    distance = 1
    while distance < length:
        # Behind a row there is the identity.
        order = [
            lane + distance if place + distance < length and lane + distance < v.lanes else v.lanes
            for lane, place in enumerate(places)
        ]
        value = _combined(v, reduction, value, identity, order)
        distance *= 2
    first = [lane - place for lane, place in enumerate(places)]
    return _shuffled(v, computed(reduction, v.lanes), value, value, first)


def _combined(v: Vector, reduction: Reduce, value: str, beside: str, order: Sequence[int]) -> str:
    """Combines each lane with one of two vectors, by its position in both: `value` and `beside`."""
    element = computed(reduction, v.lanes)
    other, ignores_nan = _shuffled(v, element, value, beside, order), is_number(reduction.body)
    kind, fold = reduction.type, reduction.reduction
    return combine(v, fold, kind, element, value, other, ignores_nan=ignores_nan)


def _shuffled(v: Vector, element: str, value: str, beside: str, order: Sequence[int]) -> str:
    kind, lanes = v.type(element), ", ".join(f"i32 {lane}" for lane in order)
    return v.code.value(f"shufflevector {kind} {value}, {kind} {beside}, <{v.lanes} x i32> <{lanes}>")
