"""Further cache entries of a model.

Results that its device compiles later, or keeps in another form.
"""

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
    """Implements `neurald.hal.device.Variants`: each variant is a separate entry.

    Args:
        cache: the cache.
        find_parts: returns the key parts of the model; called once, on first use.
        needed: the files of an artifact of the device.
        model: short description of the model.
        why_not_kept: called after compiling; returns why the result must not be stored, "" if it
            may.
        warn: called when storing failed.

    Attributes:
        kept: the entry that was last loaded or stored; None if there is none.
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
            # The model is ready regardless of what the disk does now.
            self._warn(f"what was compiled is not cached: {error}")
        else:
            self.kept = Kept(key=parts.key().hex(), was_there=False, compile_ms=compile_ms)


def daemon_variants(device: Device, model: Model, options: PrepareOptions) -> CachedVariants | None:
    """Returns the daemon's own storage of variants, in the cache of its user.

    None if there is none.

    A client cannot store them: it does not see the results compiled for shapes, and some are
    useless without the model. The key that a client names is only used as a token: the model itself
    is part of the entry's key, so no client can make the daemon serve another one with results of a
    different model.

    Args:
        device: device that the daemon serves.
        model: a valid model with immutable constants.
        options: options with the client's cache key.
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
