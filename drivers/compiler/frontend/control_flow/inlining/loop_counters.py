"""Finds the counters of a loop, and the values that change in it, from its graphs alone.

Inlining a loop is slow, and wasted if an assumption is found wrong afterwards.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final

from msgspec import Struct

from neurald.drivers.compiler.frontend.control_flow.structured_model import CONTROL_FLOW
from neurald.hal.model.graph import Operand, Operation, Subgraph
from neurald.hal.model.operation_type import OperationType

#: Counters beyond it may overflow.
_LIMIT: Final = 1 << 31


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


def has_more_turns(
    condition: Subgraph,
    body: Subgraph,
    first: Sequence[int | None],
    constant: Callable[[Operand], int | None],
    turns: int,
) -> bool:
    """Returns True if it is plain that a loop has more turns than that, without inlining anything.

    It is where each turn adds constants to values that the condition compares with constants.

    Args:
        condition, body: the condition and body of the loop.
        first: the first values as far as they are known integers; None for others.
        constant: returns the value of an operand that is a constant integer; None for others.
        turns: the number.
    """
    makers = {index: each for each in condition.operations for index in each.outputs}
    steps = {index: each for each in body.operations for index in each.outputs}

    def ends(index: int) -> tuple[int, int] | None:
        """Returns the values of a condition's operand in the first turn and after the last."""
        if index not in condition.inputs:
            value = constant(condition.operands[index])
            return None if value is None else (value, value)
        number = condition.inputs.index(index)
        begin = first[number]
        if begin is None or number >= len(body.outputs):
            return None
        own, result = body.inputs[number], body.outputs[number]
        step = 0 if result == own else _step(body, steps.get(result), own, constant)
        end = begin if step is None else begin + turns * step
        return None if step is None or not -_LIMIT <= end < _LIMIT else (begin, end)

    pending, seen = list(condition.outputs[:1]), set[int]()
    while pending:
        index = pending.pop()
        operation = makers.get(index)
        if operation is None:
            return False
        if operation.type is OperationType.LOGICAL_AND:
            pending += {*operation.inputs} - seen
            seen.update(operation.inputs)
            continue
        if operation.type is not OperationType.LESS:
            return False
        low, high = map(ends, operation.inputs)
        # Both change evenly, so what holds at the ends holds between them.
        if low is None or high is None or low[0] >= high[0] or low[1] >= high[1]:
            return False
    return True


def _step(
    body: Subgraph, operation: Operation | None, value: int, constant: Callable[[Operand], int | None]
) -> int | None:
    """Returns the constant that an operation adds to a value; None if it does anything else."""
    if operation is None or operation.type is not OperationType.ADD:
        return None
    one, other, activation = operation.inputs
    if value not in (one, other) or constant(body.operands[activation]) != 0:
        return None
    return constant(body.operands[other if value == one else one])


def changing_values(body: Subgraph, moving: Collection[int]) -> set[int]:
    """Returns the positions of values that are certainly others after a turn of a loop.

    Args:
        body: the body of the loop.
        moving: types of operations whose result may be their first input, besides those of control
            flow.
    """
    makers = {index: each for each in body.operations for index in each.outputs}

    def is_computed(index: int) -> bool:
        """Returns True if an operand is certainly none of the values of the loop."""
        maker = makers.get(index)
        while maker is not None and maker.type in moving:
            maker = makers.get(maker.inputs[0])
        return maker is not None and maker.type not in CONTROL_FLOW

    return {number for number, index in enumerate(body.outputs) if is_computed(index)}


def deciding_inputs(graph: Subgraph, outputs: Collection[int], queries: Collection[int]) -> set[int]:
    """Returns the positions of inputs without whose values those of outputs are not known.

    Args:
        graph: the condition or the body of a loop.
        outputs: the positions of the outputs.
        queries: types of operations whose results follow from shapes. Those of control flow may
            follow from any of their inputs.
    """
    makers = {index: each for each in graph.operations for index in each.outputs}
    inputs = {index: number for number, index in enumerate(graph.inputs)}
    pending = [graph.outputs[number] for number in outputs]
    seen, found = set(pending), set[int]()
    while pending:
        index = pending.pop()
        if index in inputs:
            found.add(inputs[index])
            continue
        maker = makers.get(index)
        if maker is not None and maker.type not in queries and maker.type not in CONTROL_FLOW:
            needed = {*maker.inputs} - seen
            pending += needed
            seen |= needed
    return found
