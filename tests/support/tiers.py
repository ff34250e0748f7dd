"""How many of its tests a run takes: a few for a first answer, those of every day, or all there are.

A test says by itself which tier it belongs to: `@pytest.mark.quick` (the tier `quick` takes only these), no mark (the tier
`default` takes these too), `@pytest.mark.full` (only the tier `full` takes them). `sweep(..., full=...)` and `only_in_full`
do the same for the cases of a test.
"""

import enum
from collections.abc import Iterable
from typing import Any

import pytest


class Tier(enum.Enum):
    """Each takes all that the one before it takes."""

    QUICK = "quick"
    DEFAULT = "default"
    FULL = "full"


_tier = Tier.DEFAULT


def current_tier() -> Tier:
    """The tier of this run."""
    return _tier


def set_tier(tier: Tier) -> None:
    """Sets the tier of this run, before tests are collected."""
    global _tier
    _tier = tier


def is_taken(item: pytest.Item, tier: Tier) -> bool:
    """Whether a run of the tier has the test."""
    if tier is Tier.FULL:
        return True
    if item.get_closest_marker("full") is not None:
        return False
    return tier is Tier.DEFAULT or item.get_closest_marker("quick") is not None


def only_in_full(values: Iterable[Any]) -> list[Any]:
    """Cases for `pytest.mark.parametrize`, a value or a tuple of values each, that only the tier `full` takes."""
    return [
        pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.full)
        for value in values
    ]
