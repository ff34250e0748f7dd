"""Keeps models converted from `.tflite` files in the cache, so that a file is converted only once.

An entry holds the outline of a model and the values of its variables, and a second one the graphs
and the memories that the conversion added, which a start of a compiled model does not read. Neither
holds the file, which is mapped. They are found by the state of the file
(`neurald.hal.memory.mapped_file`), or the digest of bytes that are not a file, and the digest of
the sources that convert. Like every entry of the cache they are authenticated with the
installation's secret before anything is read from them: they hold what this installation has
validated. If the second entry is missing when it is needed, the file is converted again.

Without a usable cache, files are converted each time.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import TypeAlias, TypeVar

import msgspec

from neurald._version import __version__
from neurald.hal.cache.entry import Origin, describe
from neurald.hal.cache.key import KeyParts
from neurald.hal.cache.sources import sources_digest
from neurald.hal.cache.store import Cache, Miss, default_directory
from neurald.hal.device import Artifact, CacheFilesNeeded
from neurald.hal.digests import hex_digest_of
from neurald.hal.errors import BadState, Error
from neurald.hal.memory.mapped_file import FileMemory, FileState
from neurald.hal.memory.pool import HostMemory, Memory, SharedMemory
from neurald.hal.model.model import Model
from neurald.hal.process.threads.postponed import POSTPONED
from neurald.runtime.tflite.kept.stored_model import ReadGraphs, StoredModel

#: Folders whose sources affect the conversion.
CONVERSION_SOURCES = ("runtime/tflite", "hal/cache", "hal/model", "hal/operations", "hal/validation")
_OUTLINE_FILES = CacheFilesNeeded(model=1, data=0)
_GRAPHS_FILES = CacheFilesNeeded(model=1, data=1)
#: The variant that is the second entry.
_GRAPHS = b"graphs"
#: Models whose added memories have more bytes are converted each time.
_MAX_ADDED_BYTES = 1 << 28


#: Bytes that are not a file are only identified, by a digest, if they are at most as many.
_MAX_DIGESTED_BYTES = 16 << 20

_T = TypeVar("_T")

#: Returns what was converted, from its outline, the file, and what reads its graphs; None if it is
#: of another version.
Restore: TypeAlias = Callable[[bytes | memoryview, Memory, ReadGraphs], _T | None]


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
            content = msgspec.msgpack.encode((self._identity, what))
            self._content = hex_digest_of(b"neurald converted file 2\0" + content)
            self._place = str(self._cache.path), self._content

    def load(self, restore: Restore[_T], convert: Callable[[], StoredModel | None]) -> _T | None:
        """Returns what was converted; None if it is not in the cache.

        Args:
            restore: returns it from what was stored.
            convert: converts the file again, if its graphs are no longer in the cache; returns what
                `store` is given.
        """
        if self._cache is None:
            return None
        POSTPONED.finish(self._place)
        if not self._cache.has_entries():
            return None  # The first start of a user or a container need not read the sources.
        parts = _parts(self._content)
        found = self._cache.load(parts.key(), _OUTLINE_FILES)
        if isinstance(found, Miss):
            return None
        read = partial(_graphs, self._cache, parts.for_variant(_GRAPHS), convert)
        return restore(found.artifact.model[0].view(), self._memory, read)

    def store(self, model: Model, stored: Callable[[], StoredModel | None]) -> None:
        """Stores what was converted from the file, unless that is not possible.

        That is postponed, since only later loads need it.

        Args:
            model: the model in it.
            stored: returns it as bytes; None if it cannot be stored.
        """
        if self._cache is None or sum(pool.size for pool in model.pools[1:]) > _MAX_ADDED_BYTES:
            return
        POSTPONED.postpone(self._place, partial(self._store, self._cache, model, stored))

    def _store(self, cache: Cache, model: Model, stored: Callable[[], StoredModel | None]) -> None:
        encoded = stored()
        if encoded is None:
            return
        # The model was read from the file in this state if the state is still the same.
        if isinstance(self._memory, FileMemory) and _known(self._memory.state()) != self._identity:
            return
        origin = Origin(model=describe(model), compile_ms=0.0, created_s=time.time())
        graphs = Artifact(model=(HostMemory(encoded.graphs),), data=(encoded.added,))
        outline = Artifact(model=(HostMemory(encoded.outline),), data=())
        try:
            parts = _parts(self._content)
            cache.store(parts.for_variant(_GRAPHS), graphs, origin)
            cache.store(parts, outline, origin)
        except Error:
            return  # A cache that is full or cannot be written is no reason to fail.


def _graphs(
    cache: Cache, parts: KeyParts, convert: Callable[[], StoredModel | None]
) -> tuple[bytes | memoryview, Memory]:
    """Reads the graphs of a model that was converted earlier, or converts it again."""
    # Drivers get the added memories with the model.
    found = cache.load(parts.key(), _GRAPHS_FILES, is_shared=True)
    if not isinstance(found, Miss):
        return found.artifact.model[0].view(), found.artifact.data[0]
    converted = convert()
    if converted is None:
        raise BadState("the cache has lost the graphs of a model, and its file cannot be converted again")
    return converted.graphs, converted.added


def _known(state: FileState | None) -> tuple[object, ...] | None:
    """Returns what identifies a file at rest; None for any other."""
    return None if state is None else msgspec.structs.astuple(state)


def _digest(memory: Memory) -> tuple[object, ...] | None:
    """Returns what identifies bytes that cannot change; None without reading much."""
    if isinstance(memory, SharedMemory) and memory.readonly and memory.size <= _MAX_DIGESTED_BYTES:
        return (hex_digest_of(memory.view()),)
    return None


def _parts(graphs: str) -> KeyParts:
    """Returns the parts of a key.

    Args:
        graphs: a digest of what identifies the file and what is converted from it.
    """
    return KeyParts(
        token="",
        graphs=graphs,
        constants="",
        device="conversion of .tflite files",
        device_version=f"neurald {__version__}, sources {sources_digest(*CONVERSION_SOURCES)}",
        preference="",
        priority="",
        threads=None,
        neurald=__version__,
    )
