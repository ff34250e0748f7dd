"""Compiles models for any lengths of their open dimensions, or takes them from the cache."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from msgspec import Struct

from neurald.hal.device import Artifact, ExecuteOptions, Variants
from neurald.hal.errors import BadData, DeadObject, Error
from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.model import Model

if TYPE_CHECKING:
    # A warm start does not import it.
    from neurald.hal.operations.machinery.call import Shape

_LOG = logging.getLogger(__name__)

#: Cached for a model that cannot be compiled for open dimensions.
_NOT_OPEN = b"not open"


class _HasArtifact(Protocol):
    def artifact(self) -> Artifact: ...


#: The models, which implement
#: `neurald.drivers.compiler.frontend.variants.open_models.OpenModel`.
_M = TypeVar("_M", bound=_HasArtifact)


class OpenVariants(Struct, Generic[_M], frozen=True, kw_only=True):
    """Implements `neurald.drivers.compiler.frontend.variants.open_models.OpenModels`.

    Attributes:
        model: the model.
        compile_open: compiles it for an example of shapes; None if it cannot. See `OpenModels.get`.
        restore: restores it from its artifact; raises BadData if it cannot.
        variants: the cache; None if there is none.
    """

    model: Model
    compile_open: "Callable[[Model, Mapping[int, Shape], ExecuteOptions], _M | None]"
    restore: Callable[[Model, Artifact], _M]
    variants: Variants | None

    def get(
        self, number: int, examples: "Iterable[Mapping[int, Shape]]", limits: ExecuteOptions
    ) -> _M | None:
        """See `OpenModels.get`. That no example can be compiled is cached, too."""
        artifact = self._load(number)
        if artifact is not None:
            if _is_not_open(artifact):
                return None
            try:
                return self.restore(self.model, artifact)
            except BadData as error:
                _LOG.info("recompiling for open dimensions: the cached artifact is unusable: %s", error)
        started = time.perf_counter()
        compiled = (self.compile_open(self.model, shapes, limits) for shapes in examples)
        found = next((each for each in compiled if each is not None), None)
        if self.variants is not None:
            compile_ms = (time.perf_counter() - started) * 1e3
            made = Artifact(model=(HostMemory(_NOT_OPEN),), data=(HostMemory(b"-"),))
            try:
                made = made if found is None else found.artifact()
            except DeadObject:
                raise
            except Error as error:
                _LOG.info("not caching the compilation for open dimensions: %s", error)
            else:
                self.variants.store(_name(number), made, compile_ms)
        return found

    def kept(self, number: int) -> _M | None:
        """See `OpenModels.kept`."""
        artifact = self._load(number)
        if artifact is None or _is_not_open(artifact):
            return None
        try:
            return self.restore(self.model, artifact)
        except BadData:
            return None  # `get` says why, and compiles.

    def _load(self, number: int) -> Artifact | None:
        return None if self.variants is None else self.variants.load(_name(number))


def _name(number: int) -> bytes:
    return f"open {number}".encode()


def _is_not_open(artifact: Artifact) -> bool:
    return bytes(artifact.model[0].view()) == _NOT_OPEN
