"""From a step model to an executable: graph, transformations, fusion, choice of kernels, places in memory, program."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from neurald.drivers.compiler.build import build_graph
from neurald.drivers.compiler.fusion import fuse
from neurald.drivers.compiler.graph import Shape
from neurald.drivers.compiler.kernel import Kernel
from neurald.drivers.compiler.placement import Placement, place
from neurald.drivers.compiler.transformations import transform
from neurald.drivers.opencl.executable import Call, Executable
from neurald.drivers.opencl.kernels import candidates
from neurald.drivers.opencl.platform import DeviceFacts
from neurald.drivers.opencl.precision import Precision, lower_precision
from neurald.drivers.opencl.program_text import kernel_name, program_text
from neurald.drivers.opencl.render import render
from neurald.drivers.opencl.source import Source
from neurald.hal.types import Model

#: Values begin at multiples of so many bytes, for vectors and for whole cache lines.
ALIGNMENT = 256

#: Picks one of the sources of each kernel.
Choose = Callable[[Sequence[Sequence[Source]]], Sequence[Source]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Compiled:
    """An executable, and the contents of its constants."""

    executable: Executable
    constants: np.ndarray


def compile_model(
    model: Model,
    input_shapes: Mapping[int, Shape],
    facts: DeviceFacts,
    *,
    precision: Precision,
    choose: Choose,
    is_fused: bool = True,
) -> Compiled:
    """Compiles a model, every operation of which has a lowering.

    Args:
        model: of which a graph can be made.
        input_shapes: of inputs, by operand, where the model leaves them open.
        facts: the device.
        precision: of what is computed in floating point.
        choose: picks among the sources of each kernel.
        is_fused: whether nodes are joined to larger kernels.

    Raises:
        BadData: an operation has no lowering.
    """
    graph = build_graph(model, input_shapes)
    transform(graph)
    lower_precision(graph, precision)
    fused = fuse(graph, enabled=is_fused)
    kernels = tuple(kernel for kernel in fused.kernels if kernel.output.count)
    chosen = choose(
        [
            candidates(kernel, facts, relaxed=precision is not Precision.F32) or (render(kernel),)
            for kernel in kernels
        ]
    )
    placement = place(
        fused, [source.arguments for source in chosen], alignment=max(ALIGNMENT, facts.alignment_bytes)
    )
    return _assembled(model, placement, list(zip(kernels, chosen, strict=True)), facts)


def _assembled(
    model: Model, placement: Placement, chosen: Sequence[tuple[Kernel, Source]], facts: DeviceFacts
) -> Compiled:
    calls, uses = [], []
    arena_bytes = workspace = placement.arena_bytes
    workspace_bytes = max((source.workspace_bytes for _, source in chosen), default=0)
    arena_bytes += -(-workspace_bytes // ALIGNMENT) * ALIGNMENT
    for kernel, source in chosen:
        places = placement.of(source.arguments)
        bases = tuple(each.base for each in places)
        uses.append((source, bases))
        status = None
        if kernel.requirements:
            status, arena_bytes = arena_bytes, arena_bytes + ALIGNMENT
        calls.append(
            Call(
                kernel=kernel_name(source, bases),
                places=places,
                groups=source.groups,
                local_size=source.local_size,
                status=status,
                workspace=workspace if source.workspace_bytes else None,
                messages=tuple(text for _, text in kernel.requirements),
                label=source.label,
                operations=source.operations,
            )
        )
    inputs, outputs = placement.ports(model)
    return Compiled(
        executable=Executable(
            calls=tuple(calls),
            inputs=inputs,
            outputs=outputs,
            arena_bytes=arena_bytes,
            constants_bytes=placement.constants.nbytes,
            unshared_bytes=placement.unshared_bytes,
            workspace=workspace,
            workspace_bytes=workspace_bytes,
            text=program_text(uses, has_fp64=facts.has_fp64),
        ),
        constants=placement.constants,
    )
