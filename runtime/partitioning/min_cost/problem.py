"""The placement of one graph as numbers: what operations, launches and transfers cost on each device.

A *choice* gives each operation a device, by its index among the candidates; one more index stands
for the interpreter of control flow. A *value* is an operand that operations exchange, or that the
client gives or gets. Values are in host memory when they are between devices: a device is charged
for its inputs that another device or the client has written, and for its outputs that another
device or the client reads.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from msgspec import Struct

from neurald.hal.model.types import Lifetime, Model
from neurald.runtime.costs.estimate import STEP_S, DeviceCosts
from neurald.runtime.costs.work import operand_bytes
from neurald.runtime.model.branches import graph_of

#: For each operation the index of its device.
Choice: TypeAlias = list[int]

#: Returns the cost of the operation at a position on a device; infinite if it cannot run there.
CostOf: TypeAlias = Callable[[int], list[float]]

_CLIENT: Final = -1
_EXCHANGED: Final = (
    Lifetime.TEMPORARY_VARIABLE,
    Lifetime.SUBGRAPH_OUTPUT,
    Lifetime.SUBGRAPH_INPUT,
)


class CostedValue(Struct, frozen=True):
    """A value that crosses the boundaries of operations.

    Attributes:
        writer: the operation that writes it; -1 for the client.
        readers: the operations that read it.
        is_output: whether the client reads it.
        into, out: the costs of moving it to each device, and back.
    """

    writer: int
    readers: list[int]
    is_output: bool
    into: list[float]
    out: list[float]


class PlacementProblem:
    """A graph whose operations are to be placed.

    Args:
        model: of the graph.
        number: of the graph.
        devices: what each candidate costs.
        cost_of: returns the cost of an operation on each device, and on the interpreter as the last.
        is_sequential: whether steps run one after another, so that their costs add up.

    Attributes:
        count: of the operations.
        device_count: of the candidates; the interpreter has this number.
        costs: by operation and device.
        values: all values.
        reads: by operation, the values that it reads, without repetitions.
        writes: by operation, the values that it writes.
        launches: by device, of a step in a plan of several.
        has_transfers: whether moving values costs anything.
    """

    def __init__(
        self,
        model: Model,
        number: int,
        devices: Sequence[DeviceCosts],
        cost_of: CostOf,
        *,
        is_sequential: bool,
    ) -> None:
        graph = graph_of(model, number)
        operands = graph.operands
        self.is_sequential = is_sequential
        self.device_count = len(devices)
        self.costs = [cost_of(position) for position in range(len(graph.operations))]
        self.count = len(self.costs)
        self.launches = [device.launch_s + STEP_S for device in devices] + [STEP_S]
        self.values: list[CostedValue] = []
        self.reads: list[list[int]] = []
        self.writes: list[list[int]] = []
        known: dict[int, int] = {}
        outputs = set(graph.outputs)
        per_byte_in = [1 / device.link.input_bytes_per_s for device in devices] + [0.0]
        per_byte_out = [1 / device.link.output_bytes_per_s for device in devices] + [0.0]
        self.has_transfers = any(per_byte_in) or any(per_byte_out)
        nothing = [0.0] * len(per_byte_in)
        by_size: dict[int, tuple[list[float], list[float]]] = {}

        def add(index: int, writer: int) -> int:
            into = out = nothing
            if self.has_transfers:
                size = operand_bytes(graph, index)
                if size not in by_size:
                    by_size[size] = (
                        [size * each for each in per_byte_in],
                        [size * each for each in per_byte_out],
                    )
                into, out = by_size[size]
            known[index] = len(self.values)
            self.values.append(CostedValue(writer, [], index in outputs, into, out))
            return known[index]

        for position, operation in enumerate(graph.operations):
            reads = []
            for index in operation.inputs:
                found = known.get(index)
                if found is None:
                    if operands[index].lifetime not in _EXCHANGED:
                        continue
                    found = add(index, _CLIENT)
                readers = self.values[found].readers
                if not readers or readers[-1] != position:
                    readers.append(position)
                    reads.append(found)
            self.reads.append(reads)
            self.writes.append([add(index, position) for index in operation.outputs])
        # Plans are predicted often, so what does not depend on them is collected before.
        values = self.values
        self._written_reads = [
            [values[number].writer for number in reads if values[number].writer >= 0] for reads in self.reads
        ]
        self._missing = [len(writers) for writers in self._written_reads]
        self._followers = [
            [reader for number in numbers for reader in values[number].readers] for numbers in self.writes
        ]
        self._given = [
            [(number, values[number].writer, values[number].into) for number in reads] for reads in self.reads
        ]
        self._results = [
            [(values[number].is_output, values[number].readers, values[number].out) for number in numbers]
            for numbers in self.writes
        ]

    def uniform(self, device: int) -> bool:
        """Returns True if a device can run all operations."""
        return all(costs[device] < math.inf for costs in self.costs)

    def predicted_alone(self, device: int) -> float:
        """Returns what a plan of one step takes, on a device that can run all operations."""
        seconds = self.launches[device] - (0.0 if self.is_sequential else STEP_S)
        for costs in self.costs:
            seconds += costs[device]
        if self.has_transfers:
            for value in self.values:
                if value.writer < 0:
                    seconds += value.into[device]
                if value.is_output and value.writer >= 0:
                    seconds += value.out[device]
        return seconds

    def least_sequential(self) -> float:
        """Returns what a plan of several steps takes at least, if they run one after another."""
        return sum(map(min, self.costs)) + sum(sorted(self.launches[: self.device_count])[:2])

    def drained(self, choice: Choice) -> list[tuple[int, list[int]]]:
        """Returns the steps of a choice, each with its device, as Android's queues form them.

        See `neurald.runtime.partitioning.grouping_android`. Each interpreted operation is a step.
        """
        interpreter = self.device_count
        first = choice[0] if choice else interpreter
        if first != interpreter and choice.count(first) == len(choice):
            return [(first, list(range(len(choice))))]
        missing = self._missing.copy()
        queues: list[list[int]] = [[] for _ in range(interpreter + 1)]
        for position, count in enumerate(missing):
            if not count:
                queues[choice[position]].append(position)
        steps: list[tuple[int, list[int]]] = []
        followers = self._followers
        left = len(choice)
        while left:
            device = interpreter
            while device >= 0 and not queues[device]:
                device -= 1
            queue = queues[device]
            # The queue grows while it is drained.
            for position in queue:
                for reader in followers[position]:
                    missing[reader] -= 1
                    if not missing[reader]:
                        queues[choice[reader]].append(reader)
            left -= len(queue)
            queues[device] = []
            if device == interpreter:
                steps += ((device, [position]) for position in queue)
            else:
                steps.append((device, queue))
        return steps

    def predicted(self, steps: Sequence[tuple[int, Sequence[int]]]) -> float:
        """Returns what a plan takes: its critical path, or the sum of its steps if they are sequential.

        A step begins when its inputs are there and its device has finished the steps before it.

        Args:
            steps: each with its device and its operations, in the order of the plan.
        """
        total = 0.0
        costs = self.costs
        device_of = [0] * self.count
        for device, operations in steps:
            for position in operations:
                device_of[position] = device
        free = [0.0] * (self.device_count + 1)
        ready = [0.0] * self.count
        written_reads, given, results = self._written_reads, self._given, self._results
        has_transfers, is_sequential = self.has_transfers, self.is_sequential
        # A plan of one step needs nothing of what a plan of several does.
        overhead_s = STEP_S if len(steps) == 1 and not is_sequential else 0.0
        for device, operations in steps:
            start = 0.0 if is_sequential else free[device]
            duration = self.launches[device] - overhead_s
            seen: set[int] = set()
            for position in operations:
                duration += costs[position][device]
                for writer in written_reads[position]:
                    if ready[writer] > start:
                        start = ready[writer]
                if not has_transfers:
                    continue
                for number, writer, into in given[position]:
                    if (writer < 0 or device_of[writer] != device) and number not in seen:
                        seen.add(number)
                        duration += into[device]
                for is_output, readers, out in results[position]:
                    if is_output:
                        duration += out[device]
                        continue
                    for reader in readers:
                        if device_of[reader] != device:
                            duration += out[device]
                            break
            if is_sequential:
                total += duration
                continue
            end = start + duration
            free[device] = end
            for position in operations:
                ready[position] = end
            if end > total:
                total = end
        return total

    def predicted_of(self, choice: Choice) -> float:
        """Returns what the plan of a choice takes."""
        return self.predicted(self.drained(choice))
