"""Sorts the operations of a graph in execution order."""

from collections import defaultdict
from collections.abc import Sequence
from heapq import heappop, heappush

from neurald.hal.errors import BadData
from neurald.hal.model.graph import Operand, Operation
from neurald.hal.model.types import Lifetime


def execution_order(operands: Sequence[Operand], operations: Sequence[Operation]) -> list[int]:
    """Returns operation positions in an order that writes operands before they are read.

    Among the operations that are ready, the one that was added first comes first, so operations
    that were added in a valid order keep it. (Android chooses the one that became ready last.)

    Raises:
        BadData: an operand is written twice, or may not be written; an operand is read but never
            written; an output is never written; or there is a cycle.
    """
    writer: dict[int, int] = {}
    for position, operation in enumerate(operations):
        for index in operation.outputs:
            lifetime = operands[index].lifetime
            if lifetime not in (Lifetime.TEMPORARY_VARIABLE, Lifetime.SUBGRAPH_OUTPUT):
                raise BadData(f"operation {position} writes operand {index}, which is {lifetime.name}")
            if index in writer:
                raise BadData(f"operand {index} is written by operations {writer[index]} and {position}")
            writer[index] = position
    for index, operand in enumerate(operands):
        if operand.lifetime is Lifetime.SUBGRAPH_OUTPUT and index not in writer:
            raise BadData(f"operand {index} is an output, but no operation writes it")
    readers: dict[int, list[int]] = defaultdict(list)
    missing = [0] * len(operations)
    for position, operation in enumerate(operations):
        for index in operation.inputs:
            lifetime = operands[index].lifetime
            if lifetime in (Lifetime.TEMPORARY_VARIABLE, Lifetime.SUBGRAPH_OUTPUT):
                if index not in writer:
                    raise BadData(f"operation {position} reads operand {index}, which no operation writes")
                readers[index].append(position)
                missing[position] += 1
    # A sorted list is a heap.
    ready = [position for position, count in enumerate(missing) if count == 0]
    order: list[int] = []
    while ready:
        position = heappop(ready)
        order.append(position)
        for index in operations[position].outputs:
            for reader in readers[index]:
                missing[reader] -= 1
                if missing[reader] == 0:
                    heappush(ready, reader)
    if len(order) < len(operations):
        stuck = next(position for position, count in enumerate(missing) if count)
        raise BadData(f"operation {stuck} {operations[stuck].type.name} is in a cycle or depends on one")
    return order
