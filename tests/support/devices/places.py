"""Where the conformance cases of the CPU device run: compiled in this process, and on its references through a socket."""

from collections.abc import Iterable
from typing import Any

PLACES = ("in process", "socket")


def in_places(values: Iterable[Any], ids: Iterable[str]) -> tuple[list[Any], list[str]]:
    """Cases of parameters and a place, with their names: each value, or tuple of values, in each place.

    An odd one of so many (`support.tiers.one_in`) lets the values that it takes take turns between the places.
    """
    cases = [
        (*(value if isinstance(value, tuple) else (value,)), place) for value in values for place in PLACES
    ]
    return cases, [f"{name}-{place}" for name in ids for place in PLACES]
