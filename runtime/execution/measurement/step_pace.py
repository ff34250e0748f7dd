"""Divides the time limit of an execution over the steps of its plan.

Each step leaves the steps after it as much time as they take at least, which is the shortest time
that each of them has taken so far. So an execution that cannot keep its limit ends with the step
that has used the time up, and not when the time is over: later steps do not even begin.
"""

from collections.abc import Sequence

from neurald.runtime.plan.plan import ExecutionStep, PlanStep


class StepPace:
    """The shortest times of a plan's steps. Races between threads only lose a measurement.

    Args:
        program: the program of the plan.
        waits_for: for each step, the positions of those that it waits for; empty if the steps run
            one after another.
    """

    def __init__(self, program: Sequence[PlanStep], waits_for: Sequence[frozenset[int]]) -> None:
        self._is_divisible = all(isinstance(step, ExecutionStep) for step in program)
        self._waits_for = waits_for or [frozenset({n - 1} if n else ()) for n in range(len(program))]
        self._shortest_s = [0.0] * len(program)

    def record(self, position: int, seconds: float) -> None:
        """Notes how long the step at a position took."""
        known = self._shortest_s[position]
        self._shortest_s[position] = seconds if not known else min(known, seconds)

    def shortest_s(self, position: int) -> float:
        """Returns the shortest time of the step at a position; 0 if it has not run."""
        return self._shortest_s[position]

    def after(self) -> list[float]:
        """Returns for each step how long the steps after it take at least; 0 with control flow."""
        rests = [0.0] * len(self._shortest_s)
        if self._is_divisible:
            for position in reversed(range(len(rests))):
                needed = rests[position] + self._shortest_s[position]
                for earlier in self._waits_for[position]:
                    rests[earlier] = max(rests[earlier], needed)
        return rests
