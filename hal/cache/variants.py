"""The entries of a cache beside that of a model: what its device keeps later, or in another way than as one artifact."""

import logging
import time
from collections.abc import Callable
from functools import cached_property

from neurald.hal.cache.entry import Origin, describe
from neurald.hal.cache.key import KeyParts, key_parts
from neurald.hal.cache.store import Cache, Miss, default_directory
from neurald.hal.device import Artifact, CacheFilesNeeded, Device, Kept, PrepareOptions
from neurald.hal.errors import Error
from neurald.hal.model.types import Model

_LOG = logging.getLogger(__name__)


class CachedVariants:
    """Implements `neurald.hal.device.Variants`: each variant is an entry of its own.

    Args:
        cache: where they are kept.
        find_parts: gives those of the model's key; called once, when something is looked for.
        needed: what an artifact of the device has.
        model: the model in a few words.
        why_not_kept: tells, after something was compiled, why it must not be kept; "" if it may.
        warn: is told when a cache cannot be written.

    Attributes:
        kept: the entry that was loaded or stored last; None if there is none.
    """

    def __init__(
        self,
        cache: Cache,
        find_parts: Callable[[], KeyParts],
        needed: CacheFilesNeeded,
        model: str,
        why_not_kept: Callable[[], str],
        warn: Callable[[str], None],
    ) -> None:
        self._cache = cache
        self._find_parts = find_parts
        self._needed = needed
        self._model = model
        self._why_not_kept = why_not_kept
        self._warn = warn
        self.kept: Kept | None = None

    @cached_property
    def _parts(self) -> KeyParts:
        return self._find_parts()

    def load(self, name: bytes) -> Artifact | None:
        """See `Variants.load`."""
        found = self._cache.load(self._parts.for_variant(name).key(), self._needed)
        if isinstance(found, Miss):
            return None
        origin = found.manifest.origin
        self.kept = Kept(key=found.manifest.key, was_there=True, compile_ms=origin.compile_ms)
        return found.artifact

    def store(self, name: bytes, artifact: Artifact, compile_ms: float) -> None:
        """See `Variants.store`."""
        self.kept = None
        if self._why_not_kept():
            return
        parts = self._parts.for_variant(name)
        origin = Origin(model=self._model, compile_ms=compile_ms, created_s=time.time())
        try:
            self._cache.store(parts, artifact, origin)
        except Exception as error:
            # The model is ready, whatever a disk does now.
            self._warn(f"what was compiled is not cached: {error}")
        else:
            self.kept = Kept(key=parts.key().hex(), was_there=False, compile_ms=compile_ms)


def daemon_variants(device: Device, model: Model, options: PrepareOptions) -> CachedVariants | None:
    """Where a daemon itself keeps variants: in the cache of the user that it runs as; None where there is no place for one.

    A client cannot keep them, since it learns nothing of what is compiled for shapes, or needs the model to be of use again. What
    a client names as the key is taken for a token: the model itself is a part of the entry's key, so no client can have another
    one served with what belongs to a different model.

    Args:
        device: that the daemon serves.
        model: a valid model, whose constants cannot change any more.
        options: with the key under which the client caches.
    """
    try:
        cache = Cache(default_directory())
    except Error as error:
        _LOG.info("the daemon keeps nothing by itself: %s", error)
        return None
    return CachedVariants(
        cache,
        lambda: key_parts(model, device, options, token=options.cache_key),
        device.cache_files_needed,
        describe(model),
        lambda: "",
        _LOG.warning,
    )
