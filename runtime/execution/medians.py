"""Medians of few times.

The module `statistics` takes 2 ms to import, and processes that start need nothing else of it.
"""

from collections.abc import Iterable


def median(values: Iterable[float]) -> float:
    """Returns the median of at least one value."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def low_median(values: Iterable[float]) -> float:
    """Returns the median of values, or the lower one of the two in the middle."""
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 2]
