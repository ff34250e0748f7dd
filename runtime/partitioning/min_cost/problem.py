"""A graph's placement as numbers: costs of operations, launches and transfers by device.

A *choice* gives each operation a device, by its index among the candidates; one more index stands
for the interpreter of control flow. Values are in host memory when they are between devices: a
device is charged for its inputs that another device or the client has written, and for its outputs
that another device or the client reads.
"""

from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from typing import Final, TypeAlias

from msgspec import Struct

from neurald.hal.lazy_numpy import Array, np
from neurald.runtime.costs.estimate import DeviceCosts
from neurald.runtime.costs.graph_arrays import different
from neurald.runtime.partitioning.min_cost.value_graph import ValueGraph

#: The index of each operation's device.
Choice: TypeAlias = list[int]

#: A plan: its steps, each with a device and operations.
Steps: TypeAlias = Sequence[tuple[int, Sequence[int]]]

#: For each value that an operation writes: whether the client reads it, its readers, and what
#: moving it out costs.
_Results: TypeAlias = list[tuple[bool, list[int], list[float]]]

#: Plans of this many operations, with what they read if moving it counts, are predicted by loops.
_FEW: Final = 150


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
        graph: what the operations exchange.
        costs: by operation and device, and on the interpreter as the last one; infinite where an
            operation cannot run.
        devices: what each candidate costs.
        is_sequential: whether steps run one after another, so that their costs add up.

    Attributes:
        count: the count of the operations.
        device_count: the device count of the candidates; the interpreter has this number.
        step_s: by device, what the runtime needs for a step in a plan of several.
        launches: by device, of a step in a plan of several; with what the runtime needs.
        has_transfers: whether moving values costs anything.
    """

    def __init__(
        self, graph: ValueGraph, costs: Array, devices: Sequence[DeviceCosts], *, is_sequential: bool
    ) -> None:
        self.graph = graph
        self.cost_array = costs
        self.devices = devices
        self.is_sequential = is_sequential
        self.count = graph.count
        self.device_count = len(devices)
        # The interpreter takes as long as the slowest device, without a launch.
        self.step_s = [device.step_s for device in devices]
        self.step_s.append(max(self.step_s))
        self.launches = [device.launch_s + device.step_s for device in devices] + self.step_s[-1:]
        per_byte_in = [1 / device.link.input_bytes_per_s for device in devices] + [0.0]
        per_byte_out = [1 / device.link.output_bytes_per_s for device in devices] + [0.0]
        self.has_transfers = any(per_byte_in) or any(per_byte_out)
        self.per_byte_in, self.per_byte_out = np.array(per_byte_in), np.array(per_byte_out)

    @cached_property
    def costs(self) -> list[list[float]]:
        """By operation and device."""
        found: list[list[float]] = self.cost_array.tolist()
        return found

    @cached_property
    def costs_with_client(self) -> Array:
        """By operation and device, with what moving the client's values takes."""
        if not self.has_transfers:
            return self.cost_array
        graph = self.graph
        is_given = graph.sources < 0
        given = np.bincount(graph.read_by[is_given], graph.bytes[graph.read[is_given]], self.count)
        (taken,) = np.nonzero(graph.is_output & (graph.writer >= 0))
        out = np.bincount(graph.writer[taken], graph.bytes[taken], self.count)
        found: Array = self.cost_array + np.outer(given, self.per_byte_in) + np.outer(out, self.per_byte_out)
        return found

    @cached_property
    def edge_bytes(self) -> Array:
        """The size of what each edge moves."""
        graph = self.graph
        found: Array = graph.bytes[graph.read[graph.sources >= 0]]
        return found

    @cached_property
    def per_byte_between(self) -> Array:
        """Returns what a byte takes from one device to another one; nothing within a device."""
        found: Array = self.per_byte_out[:, None] + self.per_byte_in
        np.fill_diagonal(found, 0.0)
        return found

    @cached_property
    def values(self) -> list[CostedValue]:
        """All values, also those that no operation of the graph writes or reads."""
        graph = self.graph
        into = np.outer(graph.bytes, self.per_byte_in).tolist()
        out = np.outer(graph.bytes, self.per_byte_out).tolist()
        found = [
            CostedValue(writer, [], is_output, *moves)
            for writer, is_output, *moves in zip(
                graph.writer.tolist(), graph.is_output.tolist(), into, out, strict=True
            )
        ]
        for reader, value in zip(graph.read_by.tolist(), graph.read.tolist(), strict=True):
            found[value].readers.append(reader)
        return found

    @cached_property
    def reads(self) -> list[list[int]]:
        """By operation, the values that it reads, without repetitions."""
        found: list[list[int]] = [[] for _ in range(self.count)]
        for reader, value in zip(self.graph.read_by.tolist(), self.graph.read.tolist(), strict=True):
            found[reader].append(value)
        return found

    @cached_property
    def writes(self) -> list[list[int]]:
        """By operation, the values that it writes and another operation or the client reads."""
        graph = self.graph
        is_used = graph.is_output.copy()
        is_used[graph.read] = True
        found: list[list[int]] = [[] for _ in range(self.count)]
        (used,) = np.nonzero(is_used & (graph.writer >= 0))
        for value, writer in zip(used.tolist(), graph.writer[used].tolist(), strict=True):
            found[writer].append(value)
        return found

    def contracted(self, groups: Array, count: int) -> "PlacementProblem":
        """Returns the problem of groups of operations; see `ValueGraph.contracted`."""
        costs = np.array([np.bincount(groups, column, count) for column in self.cost_array.T]).T
        graph = self.graph.contracted(groups, count)
        return PlacementProblem(graph, costs, self.devices, is_sequential=self.is_sequential)

    def uniform(self, device: int) -> bool:
        """Returns True if a device can run all operations."""
        return bool(np.isfinite(self.cost_array[:, device]).all())

    def predicted_alone(self, device: int) -> float:
        """Returns what a plan of one step takes, on a device that can run all operations."""
        seconds = self.launches[device] - (0.0 if self.is_sequential else self.step_s[device])
        seconds += float(self.cost_array[:, device].sum())
        if self.has_transfers:
            graph = self.graph
            given = different(graph.read[graph.sources < 0])
            seconds += float(graph.bytes[given].sum()) * float(self.per_byte_in[device])
            written = graph.is_output & (graph.writer >= 0)
            seconds += float(graph.bytes[written].sum()) * float(self.per_byte_out[device])
        return seconds

    def least_of(self, devices: Array) -> float:
        """Returns what plans take at least: the load of one device, or of all together.

        Args:
            devices: the devices of each operation.
        """
        loads = np.bincount(devices, self._costs_of(devices))
        return float(loads.sum() if self.is_sequential else loads.max())

    def _costs_of(self, devices: Array) -> Array:
        """Returns what each operation costs on its device."""
        found: Array = self._flat_costs.take(self._rows + devices)
        return found

    @cached_property
    def _flat_costs(self) -> Array:
        return self.cost_array.reshape(-1)

    @cached_property
    def _rows(self) -> Array:
        """The place of each operation's costs among all."""
        found: Array = np.arange(self.count) * self.cost_array.shape[1]
        return found

    def least_sequential(self) -> float:
        """Returns what a plan of several steps takes at least, if they run one after another."""
        return float(self.cost_array.min(axis=1).sum()) + sum(sorted(self.launches[: self.device_count])[:2])

    def drained(self, choice: Choice) -> list[tuple[int, list[int]]]:
        """Returns the steps of a choice, each with its device, as Android's queues form them.

        See `neurald.runtime.partitioning.grouping_android`. Each interpreted operation is a step.
        """
        interpreter = self.device_count
        first = choice[0] if choice else interpreter
        if first != interpreter and choice.count(first) == len(choice):
            return [(first, list(range(len(choice))))]
        missing = self.graph.missing.copy()
        queues: list[list[int]] = [[] for _ in range(interpreter + 1)]
        for position in self.graph.first:
            queues[choice[position]].append(position)
        steps: list[tuple[int, list[int]]] = []
        followers = self.graph.followers
        left = len(choice)
        while left:
            device = interpreter
            while device >= 0 and not queues[device]:
                device -= 1
            queue = queues[device]
            # The queue grows while it is drained.
            for position in queue:
                for reader in followers[position]:
                    if (count := missing[reader]) > 1:
                        missing[reader] = count - 1
                    else:
                        queues[choice[reader]].append(reader)
            left -= len(queue)
            queues[device] = []
            if device == interpreter:
                steps += ((device, [position]) for position in queue)
            else:
                steps.append((device, queue))
        return steps

    def predicted(self, steps: Steps) -> float:
        """Returns what a plan takes: its critical path, or the sum of sequential steps.

        A step begins when its inputs are there and its device has finished the steps before it.

        Args:
            steps: each with its device and its operations, in the order of the plan.
        """
        visited = self.count + (len(self.graph.read) if self.has_transfers else 0)
        return (self._predicted_by_loops if visited <= _FEW else self._predicted_by_arrays)(steps)

    def predicted_of(self, choice: Choice) -> float:
        """Returns what the plan of a choice takes."""
        return self.predicted(self.drained(choice))

    @cached_property
    def written_reads(self) -> list[list[int]]:
        """By operation, the operations that write what it reads, without repetitions."""
        found: list[list[int]] = [[] for _ in range(self.count)]
        sources, targets = self.graph.edges
        for code in different(targets * self.count + sources).tolist():
            found[code // self.count].append(code % self.count)
        return found

    @cached_property
    def _moves(self) -> tuple[list[list[tuple[int, int, list[float]]]], list[_Results]]:
        """Collects once for all plans what `_predicted_by_loops` looks up by operation."""
        if not self.has_transfers:
            return [], []
        values = self.values
        given = [[(n, values[n].writer, values[n].into) for n in numbers] for numbers in self.reads]
        results = [
            [(values[n].is_output, values[n].readers, values[n].out) for n in numbers]
            for numbers in self.writes
        ]
        return given, results

    def _predicted_by_loops(self, steps: Steps) -> float:
        total = 0.0
        costs = self.costs
        device_of = [0] * self.count
        for device, operations in steps:
            for position in operations:
                device_of[position] = device
        free = [0.0] * (self.device_count + 1)
        ready = [0.0] * self.count
        written_reads, (given, results) = self.written_reads, self._moves
        has_transfers, is_sequential = self.has_transfers, self.is_sequential
        # A plan of one step needs nothing of what a plan of several does.
        overhead_s = self.step_s[steps[0][0]] if len(steps) == 1 and not is_sequential else 0.0
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

    def _predicted_by_arrays(self, steps: Steps) -> float:
        """Predicts like `_predicted_by_loops`, in less time if there are many operations."""
        count = len(steps)
        lengths = [len(operations) for _, operations in steps]
        order = np.fromiter(chain.from_iterable(operations for _, operations in steps), np.intp, self.count)
        step_of = np.empty(self.count, np.intp)
        step_of[order] = np.repeat(np.arange(count), lengths)
        device_of_step = np.array([device for device, _ in steps])
        device_of = device_of_step[step_of]
        durations = np.array(self.launches)[device_of_step]
        if count == 1 and not self.is_sequential:
            durations = durations - np.array(self.step_s)[device_of_step]
        durations += np.bincount(step_of, self._costs_of(device_of), count)
        if self.has_transfers:
            durations += self._transfers(step_of, device_of_step, device_of)
        if self.is_sequential:
            return float(durations.sum())
        sources, targets = self.graph.edges
        sources, targets = step_of[sources], step_of[targets]
        crossing = different((targets * count + sources)[sources != targets])
        needed: list[list[int]] = [[] for _ in range(count)]
        for code in crossing.tolist():
            needed[code // count].append(code % count)
        free = [0.0] * (self.device_count + 1)
        ends: list[float] = []
        for (device, _), duration, before in zip(steps, durations.tolist(), needed, strict=True):
            start = free[device]
            for step in before:
                start = max(start, ends[step])
            free[device] = start + duration
            ends.append(free[device])
        return max(ends)

    def _transfers(self, step_of: Array, device_of_step: Array, device_of: Array) -> Array:
        """Returns by step what it takes to move its inputs in and its outputs out."""
        graph = self.graph
        count, values = len(device_of_step), len(graph.bytes)
        sources = graph.sources
        is_moved = (sources < 0) | (device_of[sources] != device_of[graph.read_by])
        once = different(step_of[graph.read_by[is_moved]] * values + graph.read[is_moved])
        steps, moved = once // values, once % values
        found = np.bincount(steps, graph.bytes[moved] * self.per_byte_in[device_of_step[steps]], count)
        is_read = graph.is_output.copy()
        is_read[graph.read[is_moved]] = True
        (moved,) = np.nonzero(is_read & (graph.writer >= 0))
        steps = step_of[graph.writer[moved]]
        found += np.bincount(steps, graph.bytes[moved] * self.per_byte_out[device_of_step[steps]], count)
        return found
