"""Further cache entries of a model, for example one for each set of input shapes."""

import logging
import time
from collections.abc import Callable
from functools import cached_property

from neurald.hal.cache.entry import Origin, describe
from neurald.hal.cache.key import KeyParts, key_parts
from neurald.hal.cache.store import Cache, CacheLocation, Miss, default_directory
from neurald.hal.device import Artifact, CacheFilesNeeded, CacheRecord, Device, PrepareOptions
from neurald.hal.errors import Error
from neurald.hal.model.graph import Subgraph
from neurald.hal.model.model import Model

logger = logging.getLogger(__name__)

#: Stands for all models in the keys of what they share.
_NO_MODEL = Model(main=Subgraph(operands=(), operations=(), inputs=(), outputs=()))


class VariantCache:
    """Implements `neurald.hal.device.Variants`: each variant is a separate entry.

    Args:
        cache: the cache.
        find_parts: returns the key parts of the model; called once, on first use.
        needed: the files of an artifact of the device.
        describe_model: returns a short description of the model; called once, on first use.
        why_not_stored: the function that says, after compiling, why the result must not be stored;
            "" if it may.
        warn: the function that is called when storing failed.

    Attributes:
        record: the entry that was last loaded or stored; None if there is none.
    """

    def __init__(
        self,
        cache: Cache,
        find_parts: Callable[[], KeyParts],
        needed: CacheFilesNeeded,
        describe_model: Callable[[], str],
        why_not_stored: Callable[[], str],
        warn: Callable[[str], None],
    ) -> None:
        self._cache = cache
        self._find_parts = find_parts
        self._needed = needed
        self._describe_model = describe_model
        self._why_not_stored = why_not_stored
        self._warn = warn
        self.record: CacheRecord | None = None

    def __repr__(self) -> str:
        return f"<VariantCache, {'nothing used' if self.record is None else f'last {self.record.key[:12]}'}>"

    @cached_property
    def parts(self) -> KeyParts:
        """The key parts of the model."""
        return self._find_parts()

    @cached_property
    def model(self) -> str:
        """A short description of the model."""
        return self._describe_model()

    def may_store(self) -> bool:
        """Returns whether results may be stored."""
        return not self._why_not_stored()

    def parts_of(self, name: bytes) -> KeyParts:
        """Returns the key parts of a variant."""
        return self.parts.for_variant(name)

    def load(self, name: bytes) -> Artifact | None:
        """See `Variants.load`."""
        found = self._cache.load(self.parts_of(name).key(), self._needed)
        if isinstance(found, Miss):
            return None
        origin = found.manifest.origin
        self.record = CacheRecord(key=found.manifest.key, was_there=True, compile_ms=origin.compile_ms)
        return found.artifact

    def store(self, name: bytes, artifact: Artifact, compile_ms: float) -> None:
        """See `Variants.store`."""
        self.record = None
        if self._why_not_stored():
            return
        parts = self.parts_of(name)
        origin = Origin(model=self.model, compile_ms=compile_ms, created_s=time.time())
        try:
            self._cache.store(parts, artifact, origin)
        except Exception as error:
            # The model is ready regardless of what the disk does now.
            self._warn(f"the compiled result is not cached: {error}")
        else:
            self.record = CacheRecord(key=parts.key().hex(), was_there=False, compile_ms=compile_ms)


class SharedCache(VariantCache):
    """Implements `neurald.hal.device.Variants` for what all models of a device share.

    Args:
        cache: the cache.
        device: the device, whose version is a part of the keys.
        warn: the function that is called when storing failed.
    """

    def __init__(self, cache: Cache, device: Device, warn: Callable[[str], None]) -> None:
        super().__init__(
            cache,
            lambda: key_parts(_NO_MODEL, device, PrepareOptions()),
            device.cache_files_needed,
            lambda: "shared by models",
            lambda: "",
            warn,
        )

    @property
    def location(self) -> CacheLocation:
        """The arguments with which another process opens the cache."""
        return self._cache.location


def daemon_variants(device: Device, model: Model, options: PrepareOptions) -> VariantCache | None:
    """Returns the daemon's own storage of variants, in the cache of its user; None without a cache.

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
        logger.info("the daemon has no cache of its own: %s", error)
        return None
    return VariantCache(
        cache,
        lambda: key_parts(model, device, options, token=options.cache_key),
        device.cache_files_needed,
        lambda: describe(model),
        lambda: "",
        logger.warning,
    )
