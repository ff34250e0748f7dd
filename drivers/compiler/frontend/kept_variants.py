"""What is compiled for the input shapes of one execution, kept in the cache for the next process that meets them."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from neurald.hal.device import Artifact, Variants
from neurald.hal.errors import DeadObject, Error
from neurald.hal.operations.machinery.call import Shape

_LOG = logging.getLogger(__name__)

WHOLE = "whole"


class _Kept(Protocol):
    def artifact(self) -> Artifact | None: ...


_P = TypeVar("_P", bound=_Kept)


def variant_name(kind: str, shapes: Mapping[int, Shape] | None) -> bytes:
    """The name that something is kept under, such as b"whole 0:1x224x224x3": readable, since listings of the cache show it.

    Args:
        kind: of what is kept.
        shapes: of inputs, by operand; None where the model tells all.
    """
    told = () if shapes is None else sorted(shapes.items())
    return " ".join(
        [kind, *(f"{index}:{'x'.join(map(str, shape)) or 'scalar'}" for index, shape in told)]
    ).encode()


def prepared_variant(
    variants: Variants,
    shapes: Mapping[int, Shape],
    restore: Callable[[Artifact], _P],
    prepare: Callable[[], _P],
) -> _P:
    """A model prepared for inputs of these shapes, from the cache if it was prepared before.

    Args:
        variants: where it is kept.
        shapes: of inputs, by operand.
        restore: makes it of its artifact; raises an Error where that does not work.
        prepare: compiles it.

    Raises:
        Error: what `prepare` raises, and DeadObject where the device died.
    """
    name = variant_name(WHOLE, shapes)
    artifact = variants.load(name)
    if artifact is not None:
        try:
            return restore(artifact)
        except DeadObject:
            raise
        except Error as error:
            _LOG.info("what is kept for these shapes is compiled again: %s", error)
    started = time.perf_counter()
    prepared = prepare()
    compile_ms = (time.perf_counter() - started) * 1e3
    try:
        made = prepared.artifact()
    except DeadObject:
        raise
    except Error as error:
        _LOG.info("what was compiled for these shapes is not kept: %s", error)
        return prepared
    if made is not None:
        variants.store(name, made, compile_ms)
    return prepared
