"""Prepares models that another process compiles for the CPU device.

See `neurald.hal.compiling.contract`.
"""

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING

from msgspec import Struct

from neurald.drivers.cpu.artifact import write_artifact
from neurald.drivers.cpu.data_dependent.bounded_model import on_references, whole_model
from neurald.drivers.cpu.prepared_model import CpuPreparedModel
from neurald.hal.device import Compiler, CompileResult, ExecuteOptions
from neurald.hal.errors import OpFailed
from neurald.hal.model.model import Model
from neurald.hal.operations.machinery.call import Shape
from neurald.hal.sync.cancellation import Cancellation

if TYPE_CHECKING:
    # Most models are compiled as a whole, for known shapes.
    from neurald.drivers.cpu.caching_preparation import Restore, RestoreOpen
    from neurald.drivers.cpu.open_model import CpuOpenModel
    from neurald.hal.execution.reference_model import ReferenceModel


class _Kind(Enum):
    """Form of a compiled model."""

    WHOLE = "whole"
    #: Compiled as a whole, but executions may omit inputs and then run on references.
    WHOLE_BESIDE_REFERENCES = "whole, beside references"
    PARTS = "parts"
    #: Compiled for any lengths of its open dimensions.
    OPEN = "open"
    #: Answer for a model that can be compiled only for given lengths.
    NOT_OPEN = "not open"
    REFERENCES = "references"


def to_compiled(prepared: "CpuPreparedModel | ReferenceModel") -> CompileResult:
    """Converts a prepared model to the message that `IsolatedPreparation` reads.

    Args:
        prepared: the prepared model; it has an artifact if it can have one.
    """
    steps = prepared.steps
    if isinstance(prepared, CpuPreparedModel) and steps is None:
        kind = _Kind.WHOLE if prepared.keeps_artifact else _Kind.WHOLE_BESIDE_REFERENCES
        return CompileResult(note=kind.value, artifact=write_artifact(prepared.native))
    from neurald.drivers.cpu.parts.stored_parts import write_parts

    artifact = write_parts(steps or ())
    kind = _Kind.REFERENCES if artifact is None else _Kind.PARTS
    return CompileResult(note=kind.value, artifact=artifact)


def to_compiled_open(opened: "CpuOpenModel | None") -> CompileResult:
    """Does what `to_compiled` does, for a model that was compiled for any open lengths."""
    if opened is None:
        return CompileResult(note=_Kind.NOT_OPEN.value)
    return CompileResult(note=_Kind.OPEN.value, artifact=opened.artifact())


class IsolatedPreparation(Struct, frozen=True, kw_only=True):
    """Prepares models that another process compiles.

    Attributes:
        compiler: compiles the model in the other process.
        restore: restores a compiled model from its artifact.
        restore_open: restores one for any lengths of its open dimensions.
        keeps_artifact: True if `PreparedModel.artifact` will be called.
        deadline_s, cancellation: limits of the model's preparation.
    """

    compiler: Compiler
    restore: "Restore"
    restore_open: "RestoreOpen"
    keeps_artifact: bool
    deadline_s: float | None
    cancellation: Cancellation | None

    def prepare(
        self,
        model: Model,
        shapes: Mapping[int, Shape] | None = None,
        limits: ExecuteOptions | None = None,
    ) -> "CpuPreparedModel | ReferenceModel":
        """See `neurald.drivers.cpu.caching_preparation.Prepare`."""
        compiled = self.compiler.compile(
            shapes,
            deadline_s=self.deadline_s if limits is None else limits.deadline_s,
            cancellation=self.cancellation if limits is None else limits.cancellation,
        )
        kinds = {kind.value: kind for kind in _Kind}
        kind, artifact = kinds.get(compiled.note), compiled.artifact
        if kind is _Kind.REFERENCES:
            from neurald.drivers.cpu.parts.partly_compiled_model import PartlyCompiledModel

            return PartlyCompiledModel(model)
        if kind is None or artifact is None:
            raise OpFailed(f"the compiling process replied {compiled.note!r} without an artifact")
        if kind is _Kind.PARTS:
            from neurald.drivers.cpu.data_dependent.growing_model import model_of_parts
            from neurald.drivers.cpu.parts.stored_parts import read_parts

            return model_of_parts(model, read_parts(artifact, model, self.restore))
        return whole_model(
            self.restore(artifact),
            on_references(model),
            keeps_artifact=self.keeps_artifact and kind is _Kind.WHOLE,
            artifact=artifact,
        )

    def compile_open(
        self, model: Model, shapes: Mapping[int, Shape], limits: ExecuteOptions
    ) -> "CpuOpenModel | None":
        """See `neurald.drivers.cpu.caching_preparation.CompileOpen`."""
        compiled = self.compiler.compile(
            shapes, is_open=True, deadline_s=limits.deadline_s, cancellation=limits.cancellation
        )
        if compiled.note != _Kind.OPEN.value or compiled.artifact is None:
            return None
        return self.restore_open(model, compiled.artifact)
