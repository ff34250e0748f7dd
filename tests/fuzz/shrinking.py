"""Shrinks an input with a finding by delta debugging over its pieces."""

from collections.abc import Callable, Sequence
from typing import Any


def shrunk(pieces: Sequence[Any], fails: Callable[[Sequence[Any]], bool], probes: int = 200) -> list[Any]:
    """Returns the fewest pieces found that still fail, in their order.

    Args:
        pieces: pieces that fail together.
        fails: returns True if the given pieces fail.
        probes: the limit on its calls.
    """
    kept = list(pieces)
    count = 2
    while len(kept) > 1:
        size = -(-len(kept) // count)
        for start in range(0, len(kept), size):
            rest = kept[:start] + kept[start + size :]
            if probes <= 0:
                return kept
            probes -= 1
            if rest and fails(rest):
                kept, count = rest, max(2, count - 1)
                break
        else:
            if size == 1:
                return kept
            count = min(len(kept), 2 * count)
    return kept
