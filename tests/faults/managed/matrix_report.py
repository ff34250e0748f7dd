"""Results of the cells of the kill matrix, together and for each."""

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class PlayedCell:
    """One time that a fault struck in a phase.

    Attributes:
        fault, phase: of the cell.
        call_s: how long after the fault the call ended; None if the cell was not played to there.
        recovery_s: how long after the fault the device was used again; None likewise.
        wrong: what must not have happened.
        log: if anything is wrong, what manager and driver wrote meanwhile.
    """

    fault: str
    phase: str
    call_s: float | None = None
    recovery_s: float | None = None
    wrong: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """True if it was played to its end."""
        return self.recovery_s is not None


@dataclass(slots=True)
class MatrixReport:
    """All cells that were played.

    Attributes:
        cells: in any order.
        wrong: what must not have happened outside of cells.
    """

    cells: list[PlayedCell] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def played(self) -> int:
        """The number of those played to their end."""
        return sum(each.is_complete for each in self.cells)

    @property
    def all_wrong(self) -> list[str]:
        """Events that must not have happened."""
        return [line for each in self.cells for line in each.wrong] + self.wrong

    def document(self) -> dict[str, Any]:
        """Returns it for JSON: seconds by fault, and the number and worst of each cell."""
        return {
            "cells": self.played,
            "call_s": _by_fault(self.cells, lambda each: each.call_s),
            "recovery_s": _by_fault(self.cells, lambda each: each.recovery_s),
            "each": self._each(),
            "wrong": self.all_wrong,
            "logs": {each.wrong[0]: each.log for each in self.cells if each.wrong and each.log},
        }

    def _each(self) -> dict[str, dict[str, float]]:
        groups: dict[str, list[PlayedCell]] = defaultdict(list)
        for cell in self.cells:
            groups[f"{cell.fault}, {cell.phase}"].append(cell)
        return {
            name: {
                "played": sum(each.is_complete for each in group),
                "wrong": sum(bool(each.wrong) for each in group),
                "worst_call_s": _worst(each.call_s for each in group),
                "worst_recovery_s": _worst(each.recovery_s for each in group),
            }
            for name, group in sorted(groups.items())
        }


def _worst(values: Iterable[float | None]) -> float:
    return round(max((value for value in values if value is not None), default=0.0), 3)


def _by_fault(
    cells: Iterable[PlayedCell], value: Callable[[PlayedCell], float | None]
) -> dict[str, dict[str, float]]:
    values: dict[str, list[float]] = defaultdict(list)
    for cell in cells:
        if (found := value(cell)) is not None:
            values[cell.fault].append(found)
    return {fault: summary(each) for fault, each in values.items()}


def summary(values: Sequence[float]) -> dict[str, float]:
    """Returns the median, the 95th percentile and the maximum."""
    ordered = sorted(values)
    return {
        "median": round(statistics.median(ordered), 3),
        "p95": round(ordered[math.ceil(0.95 * len(ordered)) - 1], 3),
        "max": round(ordered[-1], 3),
    }
