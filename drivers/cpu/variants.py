"""What cannot be kept as one artifact of a model, because it takes the model, or shapes that executions tell, to go on with it.

That is a model that is compiled in parts, and what is compiled for each set of input shapes that comes.
"""

import logging
import time
from collections.abc import Callable, Mapping
from typing import TypeAlias

from neurald.drivers.compiler.frontend.kept_variants import WHOLE, variant_name
from neurald.drivers.cpu.native.native_model import NativeModel
from neurald.drivers.cpu.parts import read_parts, write_parts
from neurald.drivers.cpu.prepared_model import CpuPreparedModel
from neurald.drivers.cpu.reference_model import ReferenceModel
from neurald.hal.device import Artifact, ExecuteOptions, Variants
from neurald.hal.errors import BadData
from neurald.hal.model.types import Model
from neurald.hal.operations.machinery.call import Shape

_LOG = logging.getLogger(__name__)

#: Prepares a model, for shapes of inputs by operand where it leaves them open, and within the limits of the execution that has them.
Prepare: TypeAlias = Callable[
    [Model, Mapping[int, Shape] | None, ExecuteOptions | None], CpuPreparedModel | ReferenceModel
]
#: Makes a compiled model of its artifact again; BadData where it is none.
Restore: TypeAlias = Callable[[Artifact], NativeModel]

_PARTS = "parts"


class CachedVariants:
    """Prepares models from the cache, where they were prepared before.

    Args:
        variants: where what was compiled is kept.
        prepare: compiles what is not there. What it makes for shapes must keep an artifact, if it can.
        restore: takes artifacts back.
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
    ) -> CpuPreparedModel | ReferenceModel:
        """See `Prepare`. The artifact of a whole model of known shapes is not looked for: others keep that."""
        try:
            found = self._found(model, shapes)
        except BadData as error:
            _LOG.info("what is kept of the model is compiled again: %s", error)
            found = None
        if found is not None:
            return found
        started = time.perf_counter()
        prepared = self._prepare(model, shapes, limits)
        compile_ms = (time.perf_counter() - started) * 1e3
        if isinstance(prepared, ReferenceModel):
            kind, artifact = _PARTS, write_parts(prepared.steps)
        else:
            kind, artifact = WHOLE, None if shapes is None else prepared.artifact()
        if artifact is not None:
            self._variants.store(variant_name(kind, shapes), artifact, compile_ms)
        return prepared

    def _found(
        self, model: Model, shapes: Mapping[int, Shape] | None
    ) -> CpuPreparedModel | ReferenceModel | None:
        if shapes is not None:
            artifact = self._variants.load(variant_name(WHOLE, shapes))
            if artifact is not None:
                return CpuPreparedModel(self._restore(artifact), lambda: ReferenceModel(model))
        artifact = self._variants.load(variant_name(_PARTS, shapes))
        return None if artifact is None else ReferenceModel(model, read_parts(artifact, model, self._restore))
