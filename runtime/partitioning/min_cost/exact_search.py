"""Finds the choice of least predicted cost of a small graph.

A plan is built as it would run: one step after another, in the order in which the queues of devices
are drained (`PlacementProblem.drained`). An operation gets a device as soon as all that it reads is
written. What is known between two steps is a *state*: which operations are done, the devices of
those that are ready, when each device is free, and when the inputs of the others are there. Nothing
else matters for what follows. So of two states that differ in times only, the one that is nowhere
earlier is given up.

A part of a plan is given up, too, if no completion can be better than the best choice so far, for
one of three reasons. The load: for any weights of the devices, which add up to 1, the end of a plan
is no earlier than the weighted mean of the times at which its devices are free, and what is left
adds to it at least its weighted cost where that is least. The queue: the next step of a device
takes all operations that are ready for it. The path: what is left of a path takes at least the
shortest way to its end. None of these bounds exceeds the prediction, so what is found is optimal,
unless the search is ended by its limits.

The search must not delay an application. So it ends, too, when it has taken half a second, or as
long as a thousand runs of a better plan could save: the difference between the best choice so far
and the bound of all plans says how much one run can save at most.

The cost of moving a value out of its device depends on its later readers. So it is decided when the
writer is placed: either the value is moved, or its readers have to run on the same device.
"""

import math
import time
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import count
from operator import add, le
from typing import Final, TypeAlias

from msgspec import Struct

from neurald.runtime.partitioning.min_cost.lower_bounds import LowerBounds, bits
from neurald.runtime.partitioning.min_cost.problem import Choice, PlacementProblem

#: How many devices of operations, and moves of values, are tried before the best choice so far is
#: taken.
MAX_NODES: Final = 60_000
#: How long a search takes at most, in processor time of its thread.
MAX_S: Final = 0.5
#: It takes no longer than this number of runs of a better plan could save, but may take this long.
_RUNS: Final = 1000
_MIN_S: Final = 0.02
#: After this many nodes the time is checked.
_NODES_AT_ONCE: Final = 128
#: Choices must be better by more than rounding.
_TOLERANCE: Final = 1e-12

#: Two states with equal keys differ in times only.
_Key: TypeAlias = tuple[object, ...]
_Times: TypeAlias = tuple[float, ...]


def search(
    problem: PlacementProblem,
    best: Choice,
    best_cost: float,
    max_nodes: int = MAX_NODES,
    max_s: float = MAX_S,
) -> tuple[Choice, float, bool]:
    """Returns the best choice, its cost, and whether it is proved to be optimal.

    Args:
        problem: the problem of a small graph.
        best: a choice to begin with.
        best_cost: its predicted cost, or that of a better plan of the same choice.
        max_nodes: when to give up with up to three devices; sooner with more.
        max_s: when to give up, if it is not worth less; see the module. Without limit if infinite.
    """
    return _Search(problem, best, best_cost, max_nodes, max_s).run()


class _State(Struct, frozen=True):
    """The state of the search between two steps; sets of operations are bits.

    Attributes:
        bound: what a plan that contains these steps takes at least.
        key, times: see `_Search._is_dominated`.
        done: the operations of the steps so far.
        queues: by device, the ready operations.
        free: by device, when its steps end.
        ready: by operation, when what it reads is written.
        choice: the device of each operation that is done or ready.
        allowed: by operation, its possible devices.
        total: what all steps take.
        left: see `_Search`.
    """

    bound: float
    key: _Key
    times: _Times
    done: int
    queues: list[int]
    free: list[float]
    ready: list[float]
    choice: Choice
    allowed: list[int]
    total: float
    left: list[float]


class _Step(Struct, frozen=True):
    """A step that is being formed.

    Attributes:
        device: the device that runs it.
        start: when it begins.
        overhead: its launch and its transfers.
        own: what its operations take.
        operations: the operations that are in it so far.
        moved: the values that are moved to its device.
    """

    device: int
    start: float
    overhead: float
    own: float
    operations: int
    moved: int


class _Search:
    """One search.

    The attributes that are not explained here are those of the state that is being continued.

    Attributes:
        _left: the left by weights of the bound, the weighted cost of all operations that are in no
            finished step, on their devices, or where it is least.
    """

    def __init__(
        self, problem: PlacementProblem, best: Choice, best_cost: float, max_nodes: int, max_s: float
    ) -> None:
        self._problem = problem
        self._best = best
        self._best_cost = best_cost
        self._is_sequential = problem.is_sequential
        self._bounds = bounds = LowerBounds(problem)
        # Each takes longer with more devices, and fewer searches end.
        self._nodes_left = max_nodes // max(1, len(bounds.used) - 2)
        self._max_s = max_s
        self._end_s = math.inf
        self._launches = problem.launches
        self._interpreter = problem.device_count
        self._written, self._readers = bounds.written, bounds.readers
        self._all = (1 << problem.count) - 1
        self._into: list[list[tuple[int, int, list[float]]]] = [[] for _ in range(problem.count)]
        self._out: list[list[tuple[Sequence[int], list[float]]]] = [[] for _ in range(problem.count)]
        #: The operations whose devices matter to their readers.
        self._known = 0
        if problem.has_transfers:
            self._collect_transfers()
        self._order = [-min(costs) for costs in problem.costs].__getitem__
        #: The states to continue, those first that are nearly complete for their bounds.
        self._open: list[tuple[float, int, _State]] = []
        self._number = count()
        self._times_of: dict[_Key, list[_Times]] = {}
        self._done = 0
        self._queues = [0] * (problem.device_count + 1)
        self._free = [0.0] * (problem.device_count + 1)
        self._ready = [0.0] * problem.count
        self._choice: Choice = [0] * problem.count
        self._allowed = list(bounds.options)
        self._total = 0.0
        self._left = list(bounds.all_left)

    def _collect_transfers(self) -> None:
        """Collects which values cost something when an operation reads or writes them."""
        for position in range(self._problem.count):
            for number in self._problem.reads[position]:
                value = self._problem.values[number]
                if any(value.into):
                    self._into[position].append((number, value.writer, value.into))
                    self._known |= 1 << value.writer if value.writer >= 0 else 0
            # Values with the same readers are moved together.
            together: dict[tuple[int, ...], list[float]] = {}
            for number in self._problem.writes[position]:
                value = self._problem.values[number]
                # The cost of an output of the graph is a part of the cost of its operation.
                if any(value.out) and not value.is_output:
                    costs = together.setdefault(tuple(value.readers), [0.0] * len(value.out))
                    costs[:] = map(add, costs, value.out)
            self._out[position] += together.items()

    def run(self) -> tuple[Choice, float, bool]:
        if self._max_s < math.inf:
            self._end_s = time.thread_time() + min(self._max_s, self._worth_s())
        first = [n for n, written in enumerate(self._written) if not written]
        self._place(sorted(first, key=self._order), 0, None)
        while self._open and self._nodes_left >= 0:
            _, _, state = heappop(self._open)
            if not self._is_hopeless(state.bound) and state.times in self._times_of[state.key]:
                self._continue(state)
        return self._best, self._best_cost, self._nodes_left >= 0

    def _worth_s(self) -> float:
        """Returns how long the search may take for what it can save."""
        least = self._load(None)
        if not self._is_sequential:
            least = max(least, self._longest_path())
        return max(_MIN_S, _RUNS * (self._best_cost - least))

    def _is_spent(self) -> bool:
        """Counts a node; returns True if the search has to end."""
        self._nodes_left -= 1
        if not self._nodes_left % _NODES_AT_ONCE and time.thread_time() >= self._end_s:
            self._nodes_left = -1
        return self._nodes_left < 0

    def _is_hopeless(self, bound: float) -> bool:
        return bound >= self._best_cost * (1 - _TOLERANCE)

    def _continue(self, state: _State) -> None:
        """Forms the next step of a state in all possible ways."""
        self._done, self._total = state.done, state.total
        self._queues, self._free, self._ready = state.queues.copy(), state.free.copy(), state.ready.copy()
        self._choice, self._allowed, self._left = (
            state.choice.copy(),
            state.allowed.copy(),
            state.left.copy(),
        )
        device = max(device for device, queue in enumerate(self._queues) if queue)
        start = 0.0 if self._is_sequential else self._free[device]
        self._grow(_Step(device, start, self._launches[device], 0.0, 0, 0))

    def _grow(self, step: _Step) -> None:
        """Adds the next ready operation to a step.

        The recursion is as deep as a small graph is large.
        """
        device = step.device
        queue = self._queues[device]
        if not queue or (device == self._interpreter and step.operations):
            self._finish(step)
            return
        added = queue & -queue
        position = added.bit_length() - 1
        overhead, moved = step.overhead, step.moved
        for number, writer, into in self._into[position]:
            if (writer < 0 or self._choice[writer] != device) and not moved >> number & 1:
                moved |= 1 << number
                overhead += into[device]
        grown = _Step(
            device,
            max(step.start, self._ready[position]),
            overhead,
            step.own + self._bounds.own[position][device],
            step.operations | added,
            moved,
        )
        if self._is_hopeless(grown.start + grown.overhead + grown.own):
            return
        done = self._done
        self._queues[device] = queue ^ added
        self._done = done | added
        following = [n for n in self._readers[position] if not self._written[n] & ~self._done]
        following.sort(key=self._order)
        self._move_out(position, 0, following, grown)
        self._done = done
        self._queues[device] = queue

    def _move_out(self, position: int, number: int, following: Sequence[int], step: _Step) -> None:
        """Decides which of the values that an operation writes are moved out of its device."""
        device = step.device
        out = self._out[position]
        while number < len(out) and not out[number][1][device]:
            number += 1
        if number == len(out):
            self._place(following, 0, step)
            return
        readers, costs = out[number]
        here = 1 << device
        before = [self._allowed[reader] for reader in readers]
        if any(allowed != here for allowed in before):
            overhead = step.overhead + costs[device]
            moving = _Step(device, step.start, overhead, step.own, step.operations, step.moved)
            self._move_out(position, number + 1, following, moving)
        if all(allowed & here for allowed in before):
            # Otherwise nothing would limit a search among many values.
            if self._is_spent():
                return
            for reader in readers:
                self._allowed[reader] = here
            self._move_out(position, number + 1, following, step)
            for reader, allowed in zip(readers, before, strict=True):
                self._allowed[reader] = allowed

    def _place(self, operations: Sequence[int], index: int, step: _Step | None) -> None:
        """Tries all devices for operations that have become ready, and goes on with the step."""
        if index == len(operations):
            if step is None:
                self._add_state()
            else:
                self._grow(step)
            return
        position = operations[index]
        own = 1 << position
        left, queues = self._left, self._queues
        for device, changes in self._bounds.changes[position]:
            if not self._allowed[position] >> device & 1:
                continue
            if self._is_spent():
                return
            self._choice[position] = device
            queues[device] |= own
            before = left.copy()
            for number, change in enumerate(changes):
                left[number] += change
            if not self._is_hopeless(self._load(step)) and not (
                not self._is_sequential and self._is_hopeless(self._longest_queue(step))
            ):
                self._place(operations, index + 1, step)
            left[:] = before
            queues[device] ^= own

    def _load(self, step: _Step | None) -> float:
        """Returns what a plan takes at least, because of the work that is left."""
        launches, queues = self._launches, self._queues
        opened = -1 if step is None else step.device
        least: float
        if self._is_sequential:
            least = self._total + self._left[0] + (0.0 if step is None else step.overhead)
            for device, queue in enumerate(queues):
                if queue and device != opened:
                    least += launches[device]
            return least
        least = 0.0
        begins = self._free.copy()
        for device in self._bounds.used:
            if device == opened:
                assert step is not None  # noqa: S101 - it has a device
                begins[device] = step.start + step.overhead
            elif queues[device]:
                begins[device] += launches[device]
        for weights, left in zip(self._bounds.weights, self._left, strict=True):
            for weight, begin in zip(weights, begins, strict=True):
                left += weight * begin
            if left > least:
                least = left
        return least

    def _longest_queue(self, step: _Step | None) -> float:
        """Returns what a plan takes at least, since steps take all operations that are ready."""
        end, formed, opened = 0.0, 0, -1
        longest = 0.0
        if step is not None:
            formed, opened = step.operations, step.device
            start, seconds, tail = self._queued(opened, step.start, 0, 0.0)
            end = start + seconds + step.overhead + step.own
            longest = end + tail
        for device in self._bounds.used:
            if self._queues[device] and device != opened:
                start, seconds, tail = self._queued(device, self._free[device], formed, end)
                longest = max(longest, start + seconds + self._launches[device] + tail)
        return longest

    def _queued(
        self, device: int, start: float, formed: int, formed_end: float
    ) -> tuple[float, float, float]:
        """Returns when a step of a queue begins, what its operations take, and what follows.

        Args:
            device: the device of the queue.
            start: when the device is free.
            formed, formed_end: the operations of a step that is not finished, and when it ends.
        """
        seconds = tail = 0.0
        own, tails, ready, written = self._bounds.own, self._bounds.tails, self._ready, self._written
        queue = self._queues[device]
        while queue:
            low = queue & -queue
            queue ^= low
            position = low.bit_length() - 1
            seconds += own[position][device]
            following = tails[position][device]
            if following > tail:
                tail = following
            begin = formed_end if written[position] & formed else ready[position]
            if begin > start:
                start = begin
        return start, seconds, tail

    def _finish(self, step: _Step) -> None:
        """Ends a step, which gives a complete choice or another state."""
        device = step.device
        seconds = step.overhead + step.own
        end = step.start + seconds
        total, free, ready, left = self._total, self._free[device], self._ready.copy(), self._left.copy()
        self._total += seconds
        self._free[device] = end
        for position in bits(step.operations):
            for number, weighted in enumerate(self._bounds.weighted[position][device]):
                self._left[number] -= weighted
            for reader in self._readers[position]:
                self._ready[reader] = max(self._ready[reader], end)
        if self._done != self._all:
            self._add_state()
        elif not self._is_hopeless(self._total if self._is_sequential else max(self._free)):
            self._best = self._choice.copy()
            self._best_cost = self._problem.predicted_of(self._best)
        self._total, self._free[device] = total, free
        self._ready[:], self._left[:] = ready, left

    def _add_state(self) -> None:
        bound = self._load(None)
        if not self._is_sequential:
            bound = max(bound, self._longest_path())
        if self._is_hopeless(bound):
            return
        key, times = self._compared()
        if self._is_dominated(key, times):
            return
        state = _State(
            bound,
            key,
            times,
            self._done,
            self._queues.copy(),
            self._free.copy(),
            self._ready.copy(),
            self._choice.copy(),
            self._allowed.copy(),
            self._total,
            self._left.copy(),
        )
        share_left = 1 - self._done.bit_count() / self._problem.count
        heappush(self._open, (bound * share_left, next(self._number), state))

    def _longest_path(self) -> float:
        """Returns what a plan takes at least, because of the paths that are left."""
        longest = 0.0
        free, launches, bounds = self._free, self._launches, self._bounds
        for position in bits(self._all & ~self._done):
            ready = self._ready[position]
            alone = bounds.alone[position]
            devices = bounds.devices(self._allowed[position])
            for device in devices:
                if self._queues[device] >> position & 1:
                    devices = [device]
            end = min(
                [max(ready, free[device]) + launches[device] + alone[device] for device in devices],
                default=math.inf,
            )
            longest = max(longest, end)
        return longest

    def _compared(self) -> tuple[_Key, _Times]:
        """Returns what states are compared by."""
        remaining = bits(self._all & ~self._done)
        live = 0
        for position in remaining:
            live |= self._written[position]
        known = [self._choice[position] for position in bits(live & self._done & self._known)]
        allowed = [self._allowed[position] for position in remaining]
        key = (self._done, *self._queues, *known, *allowed)
        if self._is_sequential:
            return key, (self._total,)
        free = [self._free[device] for device in self._bounds.used]
        earliest = min(free)
        # No step begins before a device is free.
        ready = [max(self._ready[position], earliest) for position in remaining]
        return key, (*free, *ready)

    def _is_dominated(self, key: _Key, times: _Times) -> bool:
        """Returns True if a known state is nowhere later; otherwise remembers these times."""
        known = self._times_of.setdefault(key, [])
        if any(all(map(le, other, times)) for other in known):
            return True
        known[:] = [other for other in known if not all(map(le, times, other))]
        known.append(times)
        return False
