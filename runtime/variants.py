"""The entries of a cache beside that of a model: what its device keeps later, or in another way than as one artifact."""

import time
from collections.abc import Callable

from neurald.hal.cache import Cache, Miss
from neurald.hal.cache_entry import Manifest, Origin
from neurald.hal.cache_key import KeyParts
from neurald.hal.device import Artifact, CacheFilesNeeded


class CachedVariants:
    """Implements `neurald.hal.device.Variants`: each variant is an entry of its own.

    Args:
        cache: where they are kept.
        parts: of the model's key.
        needed: what an artifact of the device has.
        model: the model in a few words.
        why_not_kept: tells, after something was compiled, why it must not be kept; "" if it may.
        warn: is told when a cache cannot be written.

    Attributes:
        loaded: what the entry is that was taken last, where nothing was stored since.
        stored: the key of the entry that was stored last, in hexadecimal; "" if none was.
    """

    def __init__(
        self,
        cache: Cache,
        parts: KeyParts,
        needed: CacheFilesNeeded,
        model: str,
        why_not_kept: Callable[[], str],
        warn: Callable[[str], None],
    ) -> None:
        self._cache = cache
        self._parts = parts
        self._needed = needed
        self._model = model
        self._why_not_kept = why_not_kept
        self._warn = warn
        self.loaded: Manifest | None = None
        self.stored = ""

    def load(self, name: bytes) -> Artifact | None:
        """See `Variants.load`."""
        found = self._cache.load(self._parts.variant(name).key(), self._needed)
        if isinstance(found, Miss):
            return None
        self.loaded = found.manifest
        return found.artifact

    def store(self, name: bytes, artifact: Artifact, compile_ms: float) -> None:
        """See `Variants.store`."""
        self.loaded = None
        if self._why_not_kept():
            return
        parts = self._parts.variant(name)
        origin = Origin(model=self._model, compile_ms=compile_ms, created_s=time.time())
        try:
            self._cache.store(parts, artifact, origin)
        except Exception as error:
            # The model is ready, whatever a disk does now.
            self._warn(f"what was compiled is not cached: {error}")
        else:
            self.stored = parts.key().hex()
