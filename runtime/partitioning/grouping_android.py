"""Groups placed operations into steps, by Android's rules.

A graph whose operations are all on one device is one step. Otherwise each device, and interpreted
control flow, has a queue of ready operations. The queue of control flow is always drained first,
otherwise that of the last device with a non-empty queue. Draining a device's queue creates one
step. Operations that become ready in the meantime are added to the queues of their devices, which
may be the queue that is being drained. Each graph of interpreted control flow is grouped in the
same way.
"""

from collections import deque
from collections.abc import Mapping, Sequence

from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.runtime.model.boundary import readers_by_operand, written_inputs
from neurald.runtime.model.branches import MAIN, graph_of, referenced_graphs
from neurald.runtime.partitioning.groups import Group, IfGroup, StepGroup, WhileGroup
from neurald.runtime.partitioning.placement import INTERPRETER, Placement


def group_into_steps(model: Model, placements: Mapping[int, Sequence[Placement]]) -> tuple[Group, ...]:
    """Groups the operations of the main graph into steps, in execution order.

    Args:
        model: the model whose operations were placed.
        placements: the placement of each operation, by graph number.
    """
    return _Grouping(model, placements).groups(MAIN)


class _Grouping:
    """Groups the operations of each graph of a model once."""

    def __init__(self, model: Model, placements: Mapping[int, Sequence[Placement]]) -> None:
        self._model = model
        self._placements = placements
        self._known: dict[int, tuple[Group, ...]] = {}

    def groups(self, number: int) -> tuple[Group, ...]:
        if number not in self._known:
            self._known[number] = self._whole(number) or self._drain(number)
        return self._known[number]

    def _whole(self, number: int) -> tuple[Group, ...]:
        devices = {placement.device for placement in self._placements[number]}
        if len(devices) != 1 or INTERPRETER in devices:
            return ()
        operations = tuple(range(len(self._placements[number])))
        return (StepGroup(graph=number, device=devices.pop(), operations=operations),)

    def _drain(self, number: int) -> tuple[Group, ...]:
        ready = _ReadyQueues(self._model, number, self._placements[number])
        groups: list[Group] = []
        while (device := ready.next_device()) is not None:
            operations = ready.drain(device)
            if device == INTERPRETER:
                groups += (self._interpreted(number, position) for position in operations)
            else:
                groups.append(StepGroup(graph=number, device=device, operations=operations))
        return tuple(groups)

    def _interpreted(self, number: int, position: int) -> Group:
        graph = graph_of(self._model, number)
        operation = graph.operations[position]
        first, second = (self.groups(branch) for branch in referenced_graphs(graph, operation))
        if operation.type is OperationType.IF:
            return IfGroup(graph=number, operation=position, then_groups=first, else_groups=second)
        return WhileGroup(graph=number, operation=position, condition_groups=first, body_groups=second)


class _ReadyQueues:
    """The operations of a graph whose operands have been written, in one queue per device."""

    def __init__(self, model: Model, number: int, placements: Sequence[Placement]) -> None:
        self._graph = graph_of(model, number)
        self._placements = placements
        self._readers = readers_by_operand(self._graph)
        self._missing = [len(written_inputs(self._graph, n)) for n in range(len(placements))]
        self._queues: dict[int, deque[int]] = {}
        for position, count in enumerate(self._missing):
            if not count:
                self._put(position)

    def next_device(self) -> int | None:
        """Returns the device whose queue to drain next; None if no operation is ready."""
        waiting = [device for device, queue in self._queues.items() if queue]
        return INTERPRETER if INTERPRETER in waiting else max(waiting, default=None)

    def drain(self, device: int) -> tuple[int, ...]:
        """Removes operations from a device's queue until it is empty, and returns them in order."""
        taken: list[int] = []
        queue = self._queues[device]
        while queue:
            position = queue.popleft()
            taken.append(position)
            for index in self._graph.operations[position].outputs:
                for reader in self._readers.get(index, ()):
                    self._missing[reader] -= 1
                    if not self._missing[reader]:
                        self._put(reader)
        return tuple(taken)

    def _put(self, position: int) -> None:
        self._queues.setdefault(self._placements[position].device, deque()).append(position)
