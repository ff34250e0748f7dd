"""The report of plans that ran under faults."""

from collections import Counter
from dataclasses import dataclass, field
from statistics import median
from typing import Any


@dataclass(slots=True)
class PlanReport:
    """Counts calls and faults, and keeps the longest times.

    Attributes:
        calls: by what was called and how it ended, if not with a result, how many ended.
        faults: how often each fault struck.
        on_devices: how many calls of devices succeeded, as receipts tell.
        substituted: how many calls of devices failed, so that the CPU device stood in.
        longest_s: the longest call, while processes were killed.
        longest_halted_s: the longest one that began before a process was stopped or hung, or
            meanwhile.
        longest_waiting_s: the longest one that failed for want of a driver that nothing replaces.
        longest_of_s: the longest calls by what was called, to find what takes so long.
        late_s: by how much an execution ended after its deadline or cancellation, at most.
        used_s: after each fault, when the device ran a step again.
        found_runs: how many executions of devices there were until these were found to be wrong.
        wrong: what must not have happened.
    """

    calls: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    on_devices: Counter[str] = field(default_factory=Counter)
    substituted: int = 0
    longest_s: float = 0.0
    longest_halted_s: float = 0.0
    longest_waiting_s: float = 0.0
    longest_of_s: dict[str, float] = field(default_factory=dict)
    late_s: float = 0.0
    used_s: list[float] = field(default_factory=list)
    found_runs: list[int] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """Returns the report for JSON."""
        return {
            "calls": dict(sorted(self.calls.items())),
            "faults": dict(sorted(self.faults.items())),
            "on_devices": dict(sorted(self.on_devices.items())),
            "substituted": self.substituted,
            "longest_s": round(self.longest_s, 3),
            "longest_halted_s": round(self.longest_halted_s, 3),
            "longest_waiting_s": round(self.longest_waiting_s, 3),
            "longest_of_s": {what: round(each, 3) for what, each in sorted(self.longest_of_s.items())},
            "late_s": round(self.late_s, 3),
            "used_s": _summary(self.used_s),
            "found_runs": _summary(self.found_runs),
            "wrong": self.wrong,
        }


def _summary(numbers: list[float] | list[int]) -> dict[str, float]:
    if not numbers:
        return {}
    return {"count": len(numbers), "median": round(median(numbers), 3), "max": round(max(numbers), 3)}
