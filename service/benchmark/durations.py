"""Writes durations for tables."""

import math
from typing import Final

#: How many digits of a short duration are written; of a long one, three after the point.
_DIGITS: Final = 3
_MAX_DECIMALS: Final = 6


def milliseconds(duration_ms: float) -> str:
    """Returns a duration in ms with three decimals, or three digits if below 0.1 ms."""
    if not 0 < duration_ms < 1:
        return f"{duration_ms:.{_DIGITS}f}"
    decimals = _DIGITS - 1 - math.floor(math.log10(duration_ms))
    return f"{duration_ms:.{min(max(decimals, _DIGITS), _MAX_DECIMALS)}f}"
