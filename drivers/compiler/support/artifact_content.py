"""Artifacts of compiled models: MessagePack with a digest in one file, constants in another.

The first file decides what is executed: damaged machine code or offsets could crash the process or
worse. So a digest protects it, also where nobody has verified the artifact. The second file decides
values only, and is used in place.
"""

from typing import TYPE_CHECKING, TypeVar

import msgspec

from neurald.hal.decoding import from_msgpack
from neurald.hal.device import Artifact
from neurald.hal.digests import DIGEST_BYTES, digest_of
from neurald.hal.errors import BadData
from neurald.hal.memory.pool import HostMemory
from neurald.hal.records import DECODE_ERRORS

if TYPE_CHECKING:
    from neurald.hal.lazy_numpy import Array

_T = TypeVar("_T")

#: The second file of artifacts that have no constants.
_NO_CONSTANTS = b"-"


def artifact_of(
    magic: bytes, content: object, constants: "Array | memoryview | bytearray | bytes" = _NO_CONSTANTS
) -> Artifact:
    """Returns the artifact that `content_of` reads.

    Args:
        magic: identifies the kind and the version of the first file.
        content: its content.
        constants: the content of the second file.
    """
    encoded = msgspec.msgpack.encode(content)
    return Artifact(model=(HostMemory(magic + digest_of(encoded) + encoded),), data=(HostMemory(constants),))


def content_of(artifact: Artifact, magic: bytes, kind: type[_T], origin: str) -> _T:
    """Returns the content of the first file of an artifact.

    Args:
        artifact: the artifact.
        magic: see `artifact_of`.
        kind: the type of the content.
        origin: what writes such files, for messages.

    Raises:
        BadData: the files are damaged, or of another origin.
    """
    if len(artifact.model) != 1 or len(artifact.data) != 1:
        raise BadData(
            f"expected one model and one data cache file of {origin}, got {len(artifact.model)} and "
            f"{len(artifact.data)}"
        )
    memory = artifact.model[0].view()
    start = len(magic) + DIGEST_BYTES
    digest, encoded = memory[len(magic) : start], memory[start:]
    is_damaged = not artifact.is_verified and digest != digest_of(encoded)
    if memory[: len(magic)] != magic or is_damaged:
        raise BadData(f"these cache files are damaged or not from {origin}")
    try:
        return from_msgpack(encoded, kind)
    except DECODE_ERRORS as error:
        raise BadData(f"these cache files are not from {origin}: {error}") from None
