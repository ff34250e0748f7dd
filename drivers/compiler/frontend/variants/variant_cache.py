"""Caches models compiled for particular input shapes. Processes share the cache."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from neurald.hal.device import Artifact, Variants
from neurald.hal.errors import DeadObject, Error
from neurald.hal.operations.machinery.call import Shape

_LOG = logging.getLogger(__name__)

#: Kind of a cached object that is a whole prepared model.
WHOLE = "whole"


class _HasArtifact(Protocol):
    def artifact(self) -> Artifact | None: ...


_P = TypeVar("_P", bound=_HasArtifact)


def variant_name(kind: str, shapes: Mapping[int, Shape] | None) -> bytes:
    """Returns a cache key such as b"whole 0:1x224x224x3", readable in listings of the cache.

    Args:
        kind: the kind of the cached object.
        shapes: the input shapes, by operand; None if the model specifies all shapes.
    """
    specified = () if shapes is None else sorted(shapes.items())
    return " ".join(
        [kind, *(f"{index}:{'x'.join(map(str, shape)) or 'scalar'}" for index, shape in specified)]
    ).encode()


def prepared_variant(
    variants: Variants,
    shapes: Mapping[int, Shape],
    restore: Callable[[Artifact], _P],
    prepare: Callable[[], _P],
) -> _P:
    """Returns a model prepared for these input shapes, from the cache if possible.

    Args:
        variants: the cache.
        shapes: the input shapes, by operand.
        restore: restores a model from its artifact; raises an Error if it cannot.
        prepare: compiles the model.

    Raises:
        DeadObject: the device died.
        Error: `prepare` raised it.
    """
    name = variant_name(WHOLE, shapes)
    artifact = variants.load(name)
    if artifact is not None:
        try:
            return restore(artifact)
        except DeadObject:
            raise
        except Error as error:
            _LOG.info(
                "recompiling for these input shapes, because the cached artifact is unusable: %s", error
            )
    started = time.perf_counter()
    prepared = prepare()
    compile_ms = (time.perf_counter() - started) * 1e3
    try:
        made = prepared.artifact()
    except DeadObject:
        raise
    except Error as error:
        _LOG.info("not caching the compilation for these input shapes: %s", error)
        return prepared
    if made is not None:
        variants.store(name, made, compile_ms)
    return prepared
