"""The places where conformance cases run on the CPU device.

These are compiled in this process, and on the references through a socket.
"""

from collections.abc import Iterable
from typing import Any

PLACES = ("in process", "socket")


def in_places(values: Iterable[Any], ids: Iterable[str]) -> tuple[list[Any], list[str]]:
    """Returns cases of parameters and a place, and their names: each value in each place.

    With an odd number for `support.tiers.one_in`, the cases of the tier `default` alternate between
    the places.
    """
    cases = [
        (*(value if isinstance(value, tuple) else (value,)), place) for value in values for place in PLACES
    ]
    return cases, [f"{name}-{place}" for name in ids for place in PLACES]
