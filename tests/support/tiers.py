"""Tiers of tests: a few for a first answer, those of every change, or all.

A test is marked `@pytest.mark.quick` (runs in every tier), not at all (runs in `default` and
`full`), or `@pytest.mark.full` (runs in `full` only). `sweep(..., full=...)` and `one_in` do the
same for the cases of a test, and `spread` for what a case consists of.
"""

import enum
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import pytest

_Value = TypeVar("_Value")


class Tier(enum.Enum):
    """Each tier includes the previous one."""

    QUICK = "quick"
    DEFAULT = "default"
    FULL = "full"


_tier = Tier.DEFAULT


def current_tier() -> Tier:
    """Returns the tier of this run."""
    return _tier


def set_tier(tier: Tier) -> None:
    """Sets the tier of this run, before tests are collected."""
    global _tier
    _tier = tier


def is_taken(item: pytest.Item, tier: Tier) -> bool:
    """Returns True if a tier includes a test."""
    if tier is Tier.FULL:
        return True
    if item.get_closest_marker("full") is not None:
        return False
    return tier is Tier.DEFAULT or item.get_closest_marker("quick") is not None


def spread(most: int, values: Sequence[_Value]) -> Sequence[_Value]:
    """Returns at most so many of the values, evenly spread; in the tier `full`, all of them."""
    if _tier is Tier.FULL:
        return values
    return values[:: max(1, -(-len(values) // most))]


def one_in(every: int, values: Iterable[Any], ids: Sequence[str] | None = None) -> list[Any]:
    """Returns cases for `pytest.mark.parametrize`, of which the tier `default` runs a fraction.

    Args:
        every: the tier `default` runs the first of every so many cases, `full` the others as well.
        values: one value per case, or a tuple if there are several parameters.
        ids: names of the cases; None for pytest's own.
    """
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)),
            id=None if ids is None else ids[position],
            marks=[pytest.mark.full] if position % every else [],
        )
        for position, value in enumerate(values)
    ]
