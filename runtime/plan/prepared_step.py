"""Prepared models of steps, and how devices obtained them."""

from collections.abc import Callable
from enum import Enum
from typing import Any, Final

from msgspec import Struct

from neurald.hal.cache.variants import VariantCache
from neurald.hal.device import PreparedModel

#: Reason of a miss if compilation is deferred to executions, so that no lookup took place.
DEFERRED_COMPILATION: Final = (
    "the shapes of its inputs are only known to executions, so it is compiled and cached for each set "
    "of shapes"
)

#: Reason why no cache is used for a device that compiles nothing.
NOTHING_TO_CACHE: Final = "the device needs no cache files"


class CacheOutcome(Enum):
    """The role of the cache in a preparation: not used, entry found, or no usable entry."""

    OFF = "off"
    HIT = "hit"
    MISS = "miss"


class PreparationReport(Struct, frozen=True, kw_only=True):
    """The way in which a device obtained a prepared model.

    Attributes:
        device: name of the device.
        milliseconds: total time until the prepared model was available, including compilation
            unless the cache had an entry.
        cache: whether the prepared model was compiled or loaded from the cache.
        reason: why the cache was not used or had no usable entry; empty after a hit.
        compile_ms: time of the compilation alone; after a hit, that of the compilation that created
            the entry.
        key: the key of the cache entry, in hexadecimal.
        is_stored: whether the cache has an entry now.
        variants: the cache of what the device compiles for the shapes of executions; None if it
            compiled the model at once, or is in another process. Pickles do not have it, since it
            belongs to this process.
    """

    device: str
    milliseconds: float
    cache: CacheOutcome
    reason: str = ""
    compile_ms: float | None = None
    key: str = ""
    is_stored: bool = False
    variants: VariantCache | None = None

    @property
    def is_later(self) -> bool:
        """True if compilation is deferred, because only executions know the input shapes."""
        return self.reason == DEFERRED_COMPILATION

    def __reduce__(self) -> tuple[Callable[..., "PreparationReport"], tuple[dict[str, Any]]]:
        fields = {name: getattr(self, name) for name in self.__struct_fields__ if name != "variants"}
        return _unpickled_report, (fields,)


def _unpickled_report(fields: dict[str, Any]) -> PreparationReport:
    return PreparationReport(**fields)


class PreparedStep(Struct, frozen=True, kw_only=True):
    """A prepared model and its report.

    Attributes:
        is_first_tier: True if it is only used until the device has compiled the model. It may then
            be one of the CPU device.
    """

    prepared_model: PreparedModel
    report: PreparationReport
    is_first_tier: bool = False
