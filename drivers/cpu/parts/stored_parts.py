"""Cache artifact of a model compiled in parts: the operations and the artifact of each part.

As for a whole model (`neurald.drivers.cpu.artifact`) there are two files: one with a digest, which
decides what is executed, and one with the page-aligned constants of all parts. The model itself is
not included.
"""

import mmap
from collections.abc import Callable, Sequence
from typing import cast

import msgspec

from neurald.drivers.compiler.support.artifact_content import artifact_of, content_of
from neurald.drivers.cpu.artifact import write_artifact
from neurald.drivers.cpu.native.native_model import NativeModel
from neurald.drivers.cpu.parts.native_segment import NativeSegment
from neurald.hal.device import Artifact
from neurald.hal.errors import BadData
from neurald.hal.execution.reference_graph import Step
from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.graph import Subgraph
from neurald.hal.model.model import Model

_MAGIC = b"nprt0002"


class _Part(msgspec.Struct, frozen=True, array_like=True):
    """A compiled part: operations, boundary operands, artifact, and the range of its constants."""

    operations: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    artifact: bytes
    start: int
    size: int


#: Steps of each graph: compiled parts, and positions of operations that run on references.
_Stored = tuple[tuple[int | _Part, ...], ...]


def write_parts(graphs: Sequence[Sequence[Step]]) -> Artifact | None:
    """Writes an artifact for `read_parts`; None if nothing is compiled.

    Args:
        graphs: the steps of each graph of a model.
    """
    constants = bytearray()
    stored: list[tuple[int | _Part, ...]] = []
    for steps in graphs:
        kept: list[int | _Part] = []
        for step in steps:
            if isinstance(step, int):
                kept.append(step)
                continue
            # This driver makes no other segments.
            artifact = write_artifact(cast("NativeSegment", step).native)
            (model,), (data,) = artifact.model, artifact.data
            constants += bytes(-len(constants) % mmap.PAGESIZE)
            kept.append(
                _Part(
                    operations=step.operations,
                    inputs=step.inputs,
                    outputs=step.outputs,
                    artifact=bytes(model.view()),
                    start=len(constants),
                    size=data.size,
                )
            )
            constants += data.view()
        stored.append(tuple(kept))
    if not any(isinstance(step, _Part) for steps in stored for step in steps):
        return None
    return artifact_of(_MAGIC, stored, constants)


def read_parts(
    artifact: Artifact, model: Model, restore: Callable[[Artifact], NativeModel]
) -> list[list[Step]]:
    """Reads the steps of each graph of a model.

    Args:
        artifact: an artifact from `write_parts`.
        model: the model.
        restore: restores a compiled step from its artifact; raises BadData if it cannot.

    Raises:
        BadData: it is not an artifact of this driver or this model.
    """
    stored = content_of(artifact, _MAGIC, _Stored, "a model in parts")
    (constants,) = artifact.data
    graphs = (model.main, *model.referenced)
    if len(stored) != len(graphs):
        raise BadData(f"the cache files have steps of {len(stored)} graphs; the model has {len(graphs)}")
    found: list[list[Step]] = []
    for graph, steps in zip(graphs, stored, strict=True):
        _check(graph, steps)
        found.append([])
        for step in steps:
            if isinstance(step, int):
                found[-1].append(step)
                continue
            part = Artifact(
                model=(HostMemory(step.artifact),),
                data=(HostMemory(constants.view(step.start, step.size)),),
                is_verified=True,
            )
            native = restore(part)
            counts = len(native.executable.inputs), len(native.executable.visible_outputs)
            if counts != (len(step.inputs), len(step.outputs)):
                raise BadData(
                    f"a part lists {len(step.inputs)} inputs and {len(step.outputs)} outputs, but its code has {counts}"
                )
            found[-1].append(
                NativeSegment(
                    operations=step.operations, inputs=step.inputs, outputs=step.outputs, native=native
                )
            )
    return found


def _check(graph: Subgraph, steps: Sequence[int | _Part]) -> None:
    """Checks that every operation is in exactly one step and that operands exist."""
    operations: list[int] = []
    for step in steps:
        operations += (step,) if isinstance(step, int) else step.operations
        ends = () if isinstance(step, int) else (*step.inputs, *step.outputs)
        if any(not 0 <= index < len(graph.operands) for index in ends):
            raise BadData(f"a part refers to operands {list(ends)}; there are {len(graph.operands)}")
    if sorted(operations) != list(range(len(graph.operations))):
        raise BadData(f"the steps cover {len(operations)} operations; the graph has {len(graph.operations)}")
