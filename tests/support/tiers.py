"""How many of its tests a run takes: a few for a first answer, those of every day, or all there are.

A test says by itself which tier it belongs to: `@pytest.mark.quick` (the tier `quick` takes only these), no mark (the tier
`default` takes these too), `@pytest.mark.full` (only the tier `full` takes them). `sweep(..., full=...)` and `one_in`
do the same for the cases of a test.
"""

import enum
from collections.abc import Iterable, Sequence
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


def one_in(every: int, values: Iterable[Any], ids: Sequence[str] | None = None) -> list[Any]:
    """Cases for `pytest.mark.parametrize`: the first of every so many is of the tier `default`, the others of `full`.

    Args:
        every: how many cases there are to one that the tier `default` takes.
        values: a value for each case, or a tuple where there are several parameters.
        ids: the cases' names, if pytest's own do not serve.
    """
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)),
            id=None if ids is None else ids[position],
            marks=[pytest.mark.full] if position % every else [],
        )
        for position, value in enumerate(values)
    ]
