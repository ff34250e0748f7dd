"""Reads files whose sizes are limited, with memory for what is there rather than for the limit."""

from typing import Protocol

#: Bytes that are asked for at once: a file object allocates as many.
_PART_BYTES = 1 << 16


class Readable(Protocol):
    """A file, a pipe or an answer of a server, of which bytes are read."""

    def read(self, size: int, /) -> bytes:
        """Returns at most this many bytes; none at the end."""
        ...


def read_at_most(file: Readable, limit: int) -> bytes:
    """Returns the content up to a limit, and one byte more if there is more."""
    parts: list[bytes] = []
    left = limit + 1
    while left > 0 and (part := file.read(min(left, _PART_BYTES))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
