"""Reads W3C's trace context, with which a client says to which trace its request belongs."""

import re
from typing import Final

# Later versions may append more, and version ff never is.
_TRACEPARENT: Final = re.compile(
    rb"(?!ff)[0-9a-f]{2}-((?!0{32})[0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?"
)


def trace_id_of(traceparent: bytes) -> str:
    """Returns the trace's id, 32 hexadecimal digits; empty for a missing or invalid header."""
    match = _TRACEPARENT.fullmatch(traceparent)
    return "" if match is None else match.group(1).decode()
