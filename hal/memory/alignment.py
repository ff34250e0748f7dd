"""The alignment of arguments inside a pool."""

#: Alignment and padding of arguments inside a pool, in bytes (Android's default for requests).
ALIGNMENT = 64


def align(size_bytes: int) -> int:
    """Rounds up to a multiple of `ALIGNMENT`."""
    return -(-size_bytes // ALIGNMENT) * ALIGNMENT
