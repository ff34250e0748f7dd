"""Rows that are shorter than a vector, several of which are computed at once.

Such are the classes of a pixel: a softmax of four of them fills a quarter of a register with 512
bits. Rows whose length divides the number of lanes lie beside each other in vectors. A reduction
combines each lane with those of its row, in steps of 1, 2, 4, and so on, so that every lane of the
row has the result.
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
from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.emit.op_table import computed
from neurald.drivers.cpu.emit.reductions import combine, is_number
from neurald.drivers.cpu.emit.vector import Vector
from neurald.drivers.cpu.kernels.common.addressing import multiple
from neurald.drivers.cpu.kernels.common.function import cost_ns, function_text
from neurald.drivers.cpu.kernels.common.work_items import each_work_item
from neurald.drivers.cpu.target.routine import Routine
from neurald.drivers.cpu.target.target import Target
from neurald.hal.records import replace

#: Size of a lane.
_LANE_BYTES = 4
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
    if not 1 < along.extent < native or native % along.extent or count < lanes:
        return None
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
    v, units = Vector(code, target, lanes), -(-count // lanes)
    with each_work_item(code, [units]) as ((unit,), _):
        # The last vector overlaps the one before.
        begin = Vector(code, target, 1).call(
            "llvm.smin", "i64", multiple(code, unit, lanes), str(count - lanes)
        )
        statements = Statements(code, target, pointers, {both: begin}, lanes=lanes, along=both)
        for each, element in zip(found, elements, strict=True):
            assert isinstance(each, Reduce)  # noqa: S101 - substitution keeps it
            statements.know(each, _of_rows(v, each, statements.value(element), along.extent))
        finish(statements, joined, pointers[joined.output], both)
    return Routine(
        text=function_text(code, arguments),
        arguments=arguments,
        work_items=units,
        cost_ns=cost_ns(units * (lanes // native) * steps, arguments),
        declarations=frozenset(code.declarations),
        label=f"rows of {along.extent}, {lanes // along.extent} rows at once",
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
    element = computed(reduction, v.lanes)
    kind, distance = v.type(element), 1
    while distance < length:
        order = ", ".join(f"i32 {lane ^ distance}" for lane in range(v.lanes))
        other = v.code.value(f"shufflevector {kind} {value}, {kind} poison, <{v.lanes} x i32> <{order}>")
        value = combine(
            v,
            reduction.reduction,
            reduction.type,
            element,
            value,
            other,
            ignores_nan=is_number(reduction.body),
        )
        distance *= 2
    return value
