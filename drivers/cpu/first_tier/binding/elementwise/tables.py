"""Functions of bytes and of 16-bit integers as tables, which the operations' references fill."""

import numpy as np

from neurald.drivers.cpu.first_tier.binding.scope import (
    ELEMENTS_PER_NS,
    BindingScope,
    count_of,
)
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, BoundConstant, BoundTemporary
from neurald.drivers.cpu.first_tier.layout import (
    BLOCK,
)
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Call


def table_calls(scope: BindingScope, call: Call, name: str) -> list[BoundCall]:
    """Returns the call of a function of one operand, whose table the operation's reference fills.

    Args:
        scope: keeps the table.
        call: the operation, of bytes or 16-bit integers, see `has_table`.
        name: the name of the operand.
    """
    operand, output, index = call.operand(name), call.operand("output"), call.index(name)
    unsigned, result = (np.dtype(f"u{each.type.dtype.itemsize}") for each in (operand, output))
    given = np.arange(1 << 8 * unsigned.itemsize, dtype=unsigned).view(operand.type.dtype)

    def make() -> BoundConstant:
        known = Call(
            call.binding,
            scope.operands,
            lambda number: given.shape if number == index else scope.operands[number].dimensions,
            lambda number: given if number == index else scope.value(number),
        )
        (results,) = DEFINITIONS[call.binding.type].reference(known)
        return BoundConstant.of(results.reshape(-1).view(result))

    others = tuple(
        value.tobytes()
        for each in call.binding.inputs
        if each != name and (value := scope.value(call.index(each))) is not None
    )
    key = (
        call.binding.type,
        *((each.type, each.scale, each.zero_point) for each in (operand, output)),
        others,
    )
    function = f"lookup_{unsigned.itemsize}_{result.itemsize}"
    return [lookup_call(call.index("output"), index, function, scope.shared(key, make), count_of(call, name))]


def lookup_call(
    output: int | BoundTemporary, given: int, function: str, table: BoundConstant, count: int
) -> BoundCall:
    """Returns the call that takes results from a table.

    Args:
        output: receives the results.
        given: the operand.
        function: the name of the kernel without its prefix.
        table: the result of each value.
        count: the number of elements.
    """
    return BoundCall(
        function=f"first_{function}",
        arguments=(output, given, table),
        words=(count,),
        work_items=-(-count // BLOCK),
        cost_ns=count / ELEMENTS_PER_NS / 2,
    )
