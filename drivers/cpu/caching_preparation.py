"""Caches compilations that do not fit a single artifact of the model.

These are models compiled in parts, and compilations for input shapes that only executions specify.
"""

import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from neurald.drivers.compiler.frontend.variants.variant_cache import WHOLE, variant_name
from neurald.drivers.cpu.data_dependent.bounded_model import on_references, whole_model
from neurald.drivers.cpu.native.native_model import NativeModel
from neurald.drivers.cpu.prepared_model import CpuPreparedModel
from neurald.hal.device import Artifact, ExecuteOptions, Variants
from neurald.hal.errors import BadData
from neurald.hal.model.model import Model
from neurald.hal.operations.machinery.call import Shape

if TYPE_CHECKING:
    # Most models are compiled as a whole, for known shapes.
    from neurald.drivers.cpu.open_model import CpuOpenModel
    from neurald.hal.execution.reference_model import ReferenceModel

_LOG = logging.getLogger(__name__)

#: Prepares a model for the shapes of inputs that it leaves open, by operand, within the limits of
#: the execution that specifies them.
Prepare: TypeAlias = (
    "Callable[[Model, Mapping[int, Shape] | None, ExecuteOptions | None], CpuPreparedModel | ReferenceModel]"
)
#: Returns a model for the shapes of inputs that it leaves open, by operand, from the cache; None if
#: it is not there.
Kept: TypeAlias = "Callable[[Model, Mapping[int, Shape]], CpuPreparedModel | ReferenceModel | None]"
#: Restores a compiled model from its artifact; raises BadData if it cannot.
Restore: TypeAlias = Callable[[Artifact], NativeModel]
#: Compiles a model for any lengths of its open dimensions; see `OpenModels.get`.
CompileOpen: TypeAlias = "Callable[[Model, Mapping[int, Shape], ExecuteOptions], CpuOpenModel | None]"
#: Restores such a model from its artifact; raises BadData if it cannot.
RestoreOpen: TypeAlias = "Callable[[Model, Artifact], CpuOpenModel]"

_PARTS = "parts"


class CachingPreparation:
    """Prepares models, from the cache if possible.

    Args:
        variants: the cache.
        prepare: compiles what is not cached. Models that it prepares for given shapes must keep an
            artifact if they can.
        restore: restores artifacts.
    """

    def __init__(self, variants: Variants, prepare: Prepare, restore: Restore) -> None:
        self._variants = variants
        self._prepare = prepare
        self._restore = restore

    def prepare(
        self,
        model: Model,
        shapes: Mapping[int, Shape] | None = None,
        limits: ExecuteOptions | None = None,
    ) -> "CpuPreparedModel | ReferenceModel":
        """See `Prepare`.

        A whole model with fixed shapes is not looked up here, because the runtime caches it.
        """
        try:
            found = self._found(model, shapes)
        except BadData as error:
            _LOG.info("recompiling the model, because its cached parts are unusable: %s", error)
            found = None
        if found is not None:
            return found
        started = time.perf_counter()
        prepared = self._prepare(model, shapes, limits)
        compile_ms = (time.perf_counter() - started) * 1e3
        steps = prepared.steps
        if steps is not None:
            from neurald.drivers.cpu.parts.stored_parts import write_parts

            # With the model, executions can also run on references.
            kind, artifact = _PARTS, write_parts(steps)
        else:
            kind, artifact = WHOLE, None if shapes is None else prepared.artifact()
        if artifact is not None:
            self._variants.store(variant_name(kind, shapes), artifact, compile_ms)
        return prepared

    def kept(self, model: Model, shapes: Mapping[int, Shape]) -> "CpuPreparedModel | ReferenceModel | None":
        """Returns the model for given shapes from the cache; None if it is not there."""
        try:
            return self._found(model, shapes)
        except BadData:
            return None  # `prepare` says why, and compiles.

    def _found(
        self, model: Model, shapes: Mapping[int, Shape] | None
    ) -> "CpuPreparedModel | ReferenceModel | None":
        if shapes is not None:
            artifact = self._variants.load(variant_name(WHOLE, shapes))
            if artifact is not None:
                return whole_model(self._restore(artifact), on_references(model))
        artifact = self._variants.load(variant_name(_PARTS, shapes))
        if artifact is None:
            return None
        from neurald.drivers.cpu.data_dependent.growing_model import model_of_parts
        from neurald.drivers.cpu.parts.stored_parts import read_parts

        return model_of_parts(model, read_parts(artifact, model, self._restore))
