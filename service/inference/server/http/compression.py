"""Compression over HTTP: of requests, and of answers for clients that ask for it."""

import asyncio
import zlib
from typing import Final

from neurald.service.inference.protocol.errors import ServiceError, Status

#: How zlib is told the format of each encoding.
_WINDOWS: Final = {b"gzip": zlib.MAX_WBITS | 16, b"deflate": zlib.MAX_WBITS}
_FASTEST: Final = 1
#: Larger answers are compressed in a thread.
_SMALL_BYTES: Final = 1 << 14
#: The names of the encodings of requests; the first is an old one of gzip.
_ENCODINGS: Final = {b"x-gzip": b"gzip", b"gzip": b"gzip", b"deflate": b"deflate"}
IDENTITY: Final = b"identity"
#: Larger bodies are decompressed in a thread: a byte of them may be a thousand.
_SMALL_COMPRESSED_BYTES: Final = 1 << 10
#: How many pieces, compressed one by one, a body in gzip may have, and how much of it is taken at a
#: time.
_MAX_MEMBERS: Final = 4096
_SLICE_BYTES: Final = 1 << 14


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


def encoding_of(named: bytes) -> bytes:
    """Returns the encoding of a request that its header Content-Encoding names.

    Raises:
        ServiceError: it is not known.
    """
    name = named.strip().lower()
    if name in (b"", IDENTITY):
        return IDENTITY
    found = _ENCODINGS.get(name)
    if found is None:
        raise ServiceError(
            Status.UNIMPLEMENTED,
            "Unsupported compression type: content-encoding has to be identity, gzip or deflate",
        )
    return found


async def decompressed(content: bytes, encoding: bytes, most: int) -> bytes:
    """Returns the content that was compressed; one byte more than `most` if it has more.

    Args:
        content: the content of a request.
        encoding: the encoding of `encoding_of`, but `IDENTITY`.
        most: how many bytes there may be.

    Raises:
        ServiceError: it is not compressed as it says.
    """
    if len(content) <= _SMALL_COMPRESSED_BYTES:
        return _decompressed(content, encoding, most)
    return await asyncio.to_thread(_decompressed, content, encoding, most)


def _decompressed(content: bytes, encoding: bytes, most: int) -> bytes:
    view = memoryview(content)
    parts: list[bytes] = []
    at, left = 0, most + 1
    for _ in range(_MAX_MEMBERS):
        # Both formats are recognised by their first bytes.
        inflater = zlib.decompressobj(zlib.MAX_WBITS | 32)
        while at < len(content) and not inflater.eof:
            part = view[at : at + _SLICE_BYTES]
            try:
                parts.append(inflater.decompress(part, left))
            except zlib.error as error:
                raise ServiceError(
                    Status.INVALID, f"the body is not compressed as it says: {error}"
                ) from None
            left -= len(parts[-1])
            if not left:
                return b"".join(parts)
            at += len(part) - len(inflater.unused_data)
        if not inflater.eof:
            raise ServiceError(Status.INVALID, "the compressed body is incomplete")
        if at == len(content):
            return b"".join(parts)
        if encoding != b"gzip":
            break
    raise ServiceError(
        Status.INVALID, f"{len(content) - at} bytes follow the compressed body; it ends with the request"
    )
