"""Makes an input that shows a finding smaller: delta debugging over its pieces."""

from collections.abc import Callable, Sequence
from typing import Any


def shrunk(pieces: Sequence[Any], fails: Callable[[Sequence[Any]], bool], probes: int = 200) -> list[Any]:
    """The fewest pieces found that still fail, in their order.

    Args:
        pieces: that fail together.
        fails: whether some of them do.
        probes: how often that may be asked.
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
