"""Keeps models converted from `.tflite` files in the cache, so that a file is converted only once.

An entry holds the graphs of a model, the values of its variables and the memories that the
conversion added, but not the file, which is mapped. It is found by the state of the file
(`neurald.hal.memory.mapped_file`) and the digest of the sources that convert. Like every entry of
the cache it is authenticated with the installation's secret before anything is read from it: it
holds what this installation has validated.

Without a usable cache, files are converted each time.
"""

import time

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
from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.types import (
    Model,
)
from neurald.runtime.tflite.stored_model import restored_model, stored_model

#: Folders whose sources affect the conversion.
CONVERSION_SOURCES = ("runtime/tflite", "hal/cache", "hal/model", "hal/operations", "hal/validation")
_FILES = CacheFilesNeeded(model=1, data=1)
#: Models whose added memories have more bytes are converted each time.
_MAX_ADDED_BYTES = 1 << 28


class ConvertedFile:
    """The place of a file's converted model in the default cache.

    Args:
        memory: the mapped file.
        signature: the entry point to load, as for `load_tflite`.
    """

    def __init__(self, memory: FileMemory, signature: str | None) -> None:
        self._memory = memory
        self._state = memory.state()
        self._cache: Cache | None = None
        if self._state is not None:
            try:
                self._cache = Cache(default_directory())
            except Error:
                return
            self._parts = _parts(self._state, signature)

    def load(self) -> Model | None:
        """Returns the converted model; None if it is not in the cache."""
        if self._cache is None:
            return None
        found = self._cache.load(self._parts.key(), _FILES)
        if isinstance(found, Miss):
            return None
        artifact = found.artifact
        return restored_model(artifact.model[0].view(), self._memory, artifact.data[0])

    def store(self, model: Model) -> None:
        """Stores a model that was converted from the file, unless that is not possible."""
        if self._cache is None or sum(pool.size for pool in model.pools[1:]) > _MAX_ADDED_BYTES:
            return
        stored = stored_model(model)
        if stored is None:
            return
        content, added = stored
        # The model was read from the file in this state if the state is still the same.
        if self._memory.state() != self._state:
            return
        artifact = Artifact(model=(HostMemory(content),), data=(HostMemory(added),))
        origin = Origin(model=describe(model), compile_ms=0.0, created_s=time.time())
        try:
            self._cache.store(self._parts, artifact, origin)
        except Error:
            return  # A cache that is full or cannot be written is no reason to fail.


def _parts(state: FileState, signature: str | None) -> KeyParts:
    content = msgspec.msgpack.encode((msgspec.structs.astuple(state), signature))
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
