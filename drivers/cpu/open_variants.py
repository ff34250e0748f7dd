"""Compiles models for any lengths of their open dimensions, or takes them from the cache."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from neurald.drivers.cpu.open_model import CpuOpenModel
from neurald.hal.device import Artifact, ExecuteOptions, Variants
from neurald.hal.errors import BadData
from neurald.hal.model.types import Model
from neurald.hal.operations.machinery.call import Shape

_LOG = logging.getLogger(__name__)

#: Compiles a model; see `OpenModels.compile`.
CompileOpen: TypeAlias = Callable[[Model, Mapping[int, Shape], ExecuteOptions], CpuOpenModel | None]
#: Restores a model from its artifact; raises BadData if it cannot.
RestoreOpen: TypeAlias = Callable[[Model, Artifact], CpuOpenModel]


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenVariants:
    """Implements `neurald.drivers.compiler.frontend.shape_specialization.OpenModels`.

    Attributes:
        model: the model.
        compile_open: compiles it.
        restore: restores it.
        variants: the cache; None if there is none.
    """

    model: Model
    compile_open: CompileOpen
    restore: RestoreOpen
    variants: Variants | None

    def load(self, number: int) -> CpuOpenModel | None:
        """See `OpenModels.load`."""
        artifact = None if self.variants is None else self.variants.load(_name(number))
        if artifact is None:
            return None
        try:
            return self.restore(self.model, artifact)
        except BadData as error:
            _LOG.info("recompiling for open dimensions, because the cached artifact is unusable: %s", error)
            return None

    def compile(
        self, number: int, shapes: Mapping[int, Shape], limits: ExecuteOptions
    ) -> CpuOpenModel | None:
        """See `OpenModels.compile`."""
        started = time.perf_counter()
        found = self.compile_open(self.model, shapes, limits)
        if found is not None and self.variants is not None:
            compile_ms = (time.perf_counter() - started) * 1e3
            self.variants.store(_name(number), found.artifact(), compile_ms)
        return found


def _name(number: int) -> bytes:
    return f"open {number}".encode()
