"""Calls of functions of elements, whose operands are repeated to the shape of the output."""

from typing import Final

from neurald.drivers.cpu.first_tier.binding.nest import nest_of_elements
from neurald.drivers.cpu.first_tier.binding.scope import (
    BYTES,
    ELEMENTS_PER_NS,
    SHORT,
    WORD,
    output_shape,
)
from neurald.drivers.cpu.first_tier.bound_call import BoundCall
from neurald.hal.model.graph import Operand
from neurald.hal.model.types import OperandType
from neurald.hal.operations.machinery.call import Call

#: The names of integers in the names of functions.
INTEGERS: Final = {WORD: "word", OperandType.TENSOR_INT64: "long"}


def has_table(operand: Operand, output: Operand) -> bool:
    """Returns True if a table has the results of a function of an operand."""
    return {operand.type, output.type} <= {*BYTES, SHORT}


def element_call(
    call: Call,
    function: str,
    names: tuple[str, ...],
    words: tuple[int, ...] = (),
    messages: tuple[str, ...] = (),
) -> list[BoundCall]:
    """Returns the call of a function of elements, with operands repeated to the output's shape.

    Args:
        call: the operation.
        function: the name of the kernel without its prefix.
        names: the names of the inputs.
        words: the words after those of the nest.
        messages: see `BoundCall`.
    """
    shape = output_shape(call)
    count = 1
    for length in shape:
        count *= length
    if not count:
        return []
    nested, work_items = nest_of_elements(shape, tuple([call.shape(name) for name in names]))
    return [
        BoundCall(
            function=f"first_{function}",
            arguments=(call.index("output"), *map(call.index, names)),
            words=(*nested, *words),
            work_items=work_items,
            cost_ns=count / ELEMENTS_PER_NS / 4,
            messages=messages,
        )
    ]
