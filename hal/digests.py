"""The hash function of keys, seals and checksums: BLAKE2b, with results of 32 bytes.

It is as secure as SHA-256 and HMAC, and Python has it without OpenSSL, which takes 2 ms and 4 MiB
to load: modules that a start from the cache imports use neither `hashlib` nor `hmac`.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hashlib import blake2b, blake2s
    from hmac import compare_digest
else:
    # `hmac` takes its function from here if there is no OpenSSL.
    from _operator import _compare_digest as compare_digest

    try:
        from _blake2 import blake2b, blake2s
    except ImportError:  # An interpreter that is built without it has OpenSSL's.
        from hashlib import blake2b, blake2s

DIGEST_BYTES: Final = 32


def new_digest() -> blake2b:
    """Returns an object for content that comes in parts."""
    return blake2b(digest_size=DIGEST_BYTES)


def digest_of(content: bytes | memoryview) -> bytes:
    """Returns the digest of bytes."""
    return blake2b(content, digest_size=DIGEST_BYTES).digest()


def hex_digest_of(content: bytes | memoryview) -> str:
    """Returns the digest of bytes, in hexadecimal."""
    return blake2b(content, digest_size=DIGEST_BYTES).hexdigest()


def name_of(text: str, size_bytes: int) -> str:
    """Returns a short digest of a text, in hexadecimal, as (a part of) a name."""
    return blake2s(text.encode(), digest_size=size_bytes).hexdigest()


def mac_of(key: bytes, content: bytes | memoryview) -> bytes:
    """Returns the message authentication code of bytes, which only who has the key can make."""
    return blake2b(content, key=key, digest_size=DIGEST_BYTES).digest()


def are_equal(first: bytes | memoryview, second: bytes | memoryview) -> bool:
    """Returns whether two message authentication codes are equal, in constant time."""
    return compare_digest(first, second)
