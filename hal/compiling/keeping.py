"""Compiles a model to the cache for later processes, as if an application had compiled it."""

import logging
import time
from typing import Any, Final

from neurald.hal.cache.entry import Origin
from neurald.hal.cache.store import Cache, CacheLocation, Miss
from neurald.hal.cache.variants import SharedCache, VariantCache
from neurald.hal.compiling.job import Keep
from neurald.hal.device import Artifact, PrepareOptions
from neurald.hal.model.model import Model
from neurald.hal.model.types import Preference, Priority

logger = logging.getLogger(__name__)

#: How long to wait for another process that compiles the same model, in seconds. The program that
#: has left the model may still hold the lock while it exits.
_LOCK_WAIT_S: Final = 10.0


def compile_and_keep(device: Any, model: Model | None, keep: Keep, location: CacheLocation) -> None:
    """Compiles a model unless the cache or another process has begun it, and stores the result.

    A program that is started again and again would otherwise leave more and more processes that
    wait for the first one. Nothing is compiled either for a cache in which no file can be created.

    Args:
        device: implements `neurald.hal.compiling.contract.CompilesApart`, and its models
            `PreparesForShapes` where shapes are given.
        model: the model that the key is of; None for the code that all models need.
        keep: where the result is kept.
        location: the location of the cache.

    Raises:
        Error: it cannot be compiled or stored.
    """
    cache, parts, needed = Cache.at(location), keep.parts, device.cache_files_needed
    key = parts.key()
    with cache.lock(key, _LOCK_WAIT_S, is_background=True) as is_held:
        if not is_held or not isinstance(cache.load(key, needed), Miss):
            return
        started = time.perf_counter()
        if model is None:
            artifact: Artifact | None = device.compile_common()
        else:
            options = PrepareOptions(
                preference=Preference[parts.preference],
                priority=Priority[parts.priority],
                threads=parts.threads,
                cache_key=key,
                shared=SharedCache(cache, device, logger.warning),
                variants=VariantCache(
                    cache, lambda: parts, needed, lambda: keep.model, lambda: "", logger.warning
                ),
            )
            prepared = device.prepare_model(model, options)
            for shapes in keep.shapes:
                prepared.prepare_for(shapes)
            artifact = prepared.artifact()
        # A model that is not compiled as a whole has been stored as variants.
        if artifact is not None:
            compile_ms = (time.perf_counter() - started) * 1e3
            origin = Origin(model=keep.model, compile_ms=compile_ms, created_s=time.time())
            cache.store(parts, artifact, origin)
