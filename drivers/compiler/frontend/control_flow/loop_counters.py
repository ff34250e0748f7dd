"""Finds the counters of a loop, and the values that change in it, from its graphs alone.

Inlining a loop is slow, and wasted if an assumption is found wrong afterwards.
"""

from collections.abc import Collection, Sequence

from msgspec import Struct

from neurald.drivers.compiler.frontend.control_flow.structured_model import CONTROL_FLOW
from neurald.hal.model.graph import Subgraph


class LoopCounter(Struct, frozen=True, kw_only=True):
    """The part of a loop's body that decides how many turns it has.

    Attributes:
        values: positions of the values that the condition depends on and the body computes.
        operations: positions of the operations that compute these.
        operands: all operands of these operations, and the values themselves.
    """

    values: Sequence[int]
    operations: Sequence[int]
    operands: frozenset[int]


def loop_counter(condition: Subgraph, body: Subgraph) -> LoopCounter | None:
    """Returns what decides how many turns a loop has; None if that is most of its body.

    Args:
        condition, body: the condition and body of the loop.
    """
    makers = {index: position for position, each in enumerate(body.operations) for index in each.outputs}
    read = {index for each in condition.operations for index in each.inputs} | {*condition.outputs}
    pending = [number for number, index in enumerate(condition.inputs) if index in read]
    values: set[int] = set()
    operations: set[int] = set()
    inputs = {index: number for number, index in enumerate(body.inputs)}
    while pending:
        number = pending.pop()
        if number in values or number >= len(body.outputs):
            continue
        values.add(number)
        needed = [body.outputs[number]]
        while needed:
            index = needed.pop()
            if index in inputs:
                pending.append(inputs[index])
            position = makers.get(index)
            if position is not None and position not in operations:
                operations.add(position)
                needed += body.operations[position].inputs
    if 2 * len(operations) > len(body.operations):
        return None
    found = [body.operations[position] for position in operations]
    operands = {index for each in found for index in (*each.inputs, *each.outputs)}
    return LoopCounter(
        values=sorted(values),
        operations=sorted(operations),
        operands=frozenset(operands.union(body.outputs[number] for number in values)),
    )


def changing_values(body: Subgraph, moving: Collection[int]) -> set[int]:
    """Returns the positions of values that are certainly others after a turn of a loop.

    Args:
        body: the body of the loop.
        moving: types of operations whose result may be their input, besides those of control flow.
    """
    makers = {index: each.type for each in body.operations for index in each.outputs}
    return {
        number
        for number, index in enumerate(body.outputs)
        if index in makers and makers[index] not in moving and makers[index] not in CONTROL_FLOW
    }
