"""Compression of answers over HTTP, for clients that ask for it."""

import asyncio
import zlib
from typing import Final

#: How zlib is told the format of each encoding.
_WINDOWS: Final = {b"gzip": zlib.MAX_WBITS | 16, b"deflate": zlib.MAX_WBITS}
_FASTEST: Final = 1
#: Larger answers are compressed in a thread.
_SMALL_BYTES: Final = 1 << 14


def chosen_encoding(accepted: bytes) -> bytes:
    """Returns the encoding that a client prefers among those that there are; empty for none.

    Args:
        accepted: the header Accept-Encoding.
    """
    best, best_weight = b"", 0.0
    for part in accepted.split(b","):
        name, _, parameters = part.partition(b";")
        name = name.strip().lower()
        if name not in _WINDOWS:
            continue
        weight = 1.0
        key, _, text = parameters.partition(b"=")
        if key.strip() == b"q":
            try:
                weight = float(text)
            except ValueError:
                continue
        if weight > best_weight:
            best, best_weight = name, weight
    return best


async def compressed(content: bytes, encoding: bytes) -> bytes:
    """Returns content in an encoding of `chosen_encoding`."""
    if len(content) <= _SMALL_BYTES:
        return _compressed(content, encoding)
    return await asyncio.to_thread(_compressed, content, encoding)


def _compressed(content: bytes, encoding: bytes) -> bytes:
    deflater = zlib.compressobj(_FASTEST, zlib.DEFLATED, _WINDOWS[encoding])
    return deflater.compress(content) + deflater.flush()
