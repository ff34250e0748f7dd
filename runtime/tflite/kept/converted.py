"""Keeps models converted from `.tflite` files in the cache, so that a file is converted only once.

An entry holds the graphs of a model, the values of its variables and the memories that the
conversion added, but not the file, which is mapped. It is found by the state of the file
(`neurald.hal.memory.mapped_file`), or the digest of bytes that are no file, and the digest of the
sources that convert. Like every entry of the cache it is authenticated with the installation's
secret before anything is read from it: it holds what this installation has validated.

Without a usable cache, files are converted each time.
"""

import time
from collections.abc import Callable
from typing import TypeAlias, TypeVar

import msgspec

from neurald._version import __version__
from neurald.hal.cache.entry import Origin, describe
from neurald.hal.cache.key import KeyParts
from neurald.hal.cache.sources import sources_digest
from neurald.hal.cache.store import Cache, Miss, default_directory
from neurald.hal.device import Artifact, CacheFilesNeeded
from neurald.hal.digests import hex_digest_of
from neurald.hal.errors import Error
from neurald.hal.memory.mapped_file import FileMemory, FileState
from neurald.hal.memory.pool import HostMemory, Memory, SharedMemory
from neurald.hal.model.types import Model

#: Folders whose sources affect the conversion.
CONVERSION_SOURCES = ("runtime/tflite", "hal/cache", "hal/model", "hal/operations", "hal/validation")
_FILES = CacheFilesNeeded(model=1, data=1)
#: Models whose added memories have more bytes are converted each time.
_MAX_ADDED_BYTES = 1 << 28


#: Bytes that are no file are only identified, by a digest, if they are at most as many.
_MAX_DIGESTED_BYTES = 16 << 20

_T = TypeVar("_T")

#: Returns what was converted, from its bytes, the file, and the joined memories that the conversion
#: added; None if it is of another version.
Restore: TypeAlias = Callable[[bytes | memoryview, Memory, Memory], _T | None]


class ConvertedFile:
    """The place of a file's converted model in the default cache.

    Args:
        memory: the mapped file, or its bytes.
        what: tells apart what is converted from a file: a value for MessagePack.
    """

    def __init__(self, memory: Memory, what: object) -> None:
        self._memory = memory
        self._identity = _known(memory.first_state) if isinstance(memory, FileMemory) else _digest(memory)
        self._cache: Cache | None = None
        if self._identity is not None:
            try:
                self._cache = Cache(default_directory())
            except Error:
                return
            self._parts = _parts(self._identity, what)

    def load(self, restore: Restore[_T]) -> _T | None:
        """Returns what was converted; None if it is not in the cache."""
        if self._cache is None:
            return None
        # Drivers get the added memories with the model.
        found = self._cache.load(self._parts.key(), _FILES, is_shared=True)
        if isinstance(found, Miss):
            return None
        artifact = found.artifact
        return restore(artifact.model[0].view(), self._memory, artifact.data[0])

    def store(self, model: Model, stored: Callable[[], tuple[bytes, bytes] | None]) -> None:
        """Stores what was converted from the file, unless that is not possible.

        Args:
            model: the model in it.
            stored: returns it as bytes, and the joined memories besides the file; None if it cannot
                be stored.
        """
        if self._cache is None or sum(pool.size for pool in model.pools[1:]) > _MAX_ADDED_BYTES:
            return
        encoded = stored()
        if encoded is None:
            return
        content, added = encoded
        # The model was read from the file in this state if the state is still the same.
        if isinstance(self._memory, FileMemory) and _known(self._memory.state()) != self._identity:
            return
        artifact = Artifact(model=(HostMemory(content),), data=(HostMemory(added),))
        origin = Origin(model=describe(model), compile_ms=0.0, created_s=time.time())
        try:
            self._cache.store(self._parts, artifact, origin)
        except Error:
            return  # A cache that is full or cannot be written is no reason to fail.


def _known(state: FileState | None) -> tuple[object, ...] | None:
    """Returns what identifies a file at rest; None for any other."""
    return None if state is None else msgspec.structs.astuple(state)


def _digest(memory: Memory) -> tuple[object, ...] | None:
    """Returns what identifies bytes that nobody can change; None without reading much."""
    if isinstance(memory, SharedMemory) and memory.readonly and memory.size <= _MAX_DIGESTED_BYTES:
        return (hex_digest_of(memory.view()),)
    return None


def _parts(identity: tuple[object, ...], what: object) -> KeyParts:
    content = msgspec.msgpack.encode((identity, what))
    return KeyParts(
        token="",
        graphs=hex_digest_of(b"neurald converted file 1\0" + content),
        constants="",
        device="conversion of .tflite files",
        device_version=f"neurald {__version__}, sources {sources_digest(*CONVERSION_SOURCES)}",
        preference="",
        priority="",
        threads=None,
        neurald=__version__,
    )
