"""Prepares a model for the first tier: on its kernels where there are any, else on references."""

import logging
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from neurald.drivers.cpu.bounded_model import whole_model
from neurald.drivers.cpu.first_tier.assembly import BoundPart, assemble
from neurald.drivers.cpu.first_tier.binding import bind
from neurald.drivers.cpu.first_tier.layout import tiles_of
from neurald.drivers.cpu.native.native_model import NativeModel
from neurald.drivers.cpu.native.thread_pool import Team
from neurald.drivers.cpu.native_segment import NativeSegment
from neurald.drivers.cpu.prepared_model import CpuPreparedModel
from neurald.drivers.cpu.segment import segments
from neurald.drivers.cpu.target.executable import Executable
from neurald.drivers.cpu.target.target import Target
from neurald.hal.execution.reference_graph import Step
from neurald.hal.execution.reference_model import ReferenceModel
from neurald.hal.model.types import Lifetime, Model, Subgraph

_LOG = logging.getLogger(__name__)

#: Lifetimes of operands that are computed, or given.
_VARIABLES: Final = (Lifetime.SUBGRAPH_INPUT, Lifetime.SUBGRAPH_OUTPUT, Lifetime.TEMPORARY_VARIABLE)


def prepare(
    model: Model, target: Target, codes: Sequence[bytes], team: Team
) -> CpuPreparedModel | ReferenceModel:
    """Prepares a model.

    Args:
        model: every operation has a reference.
        target: the target of the code.
        codes: the code of the library.
        team: the threads that run the model.
    """
    bound = bind(model, tiles_of(target))
    is_native = [calls is not None for calls in bound]
    if not any(is_native):
        return ReferenceModel(model)

    consumers = _consumers(model.main)

    def segment(operations: Sequence[int]) -> NativeSegment:
        inputs, outputs = _boundary(model.main, operations, consumers)
        calls = [(position, call) for position in operations for call in bound[position] or ()]
        part = BoundPart(model=model, inputs=inputs, outputs=outputs, calls=calls)
        native = NativeModel(*_with_codes(part, target, codes), team)
        return NativeSegment(operations=tuple(operations), inputs=inputs, outputs=outputs, native=native)

    if all(is_native):
        main = model.main
        calls = [(position, call) for position, each in enumerate(bound) for call in each or ()]
        whole = BoundPart(model=model, inputs=main.inputs, outputs=main.outputs, calls=calls)
        return whole_model(
            NativeModel(*_with_codes(whole, target, codes), team), lambda: ReferenceModel(model)
        )
    steps: list[Step] = []
    for each in segments(model.main, is_native):
        if each.is_native:
            steps.append(segment(each.operations))
        else:
            steps += each.operations
    _LOG.debug("%d of %d operations have kernels of the first tier", sum(is_native), len(is_native))
    return ReferenceModel(model, [steps, *[None] * len(model.referenced)])


def _with_codes(
    part: BoundPart, target: Target, codes: Sequence[bytes]
) -> tuple[Executable, Sequence[bytes], np.ndarray]:
    executable, constants = assemble(part, target.name)
    return executable, codes, constants


def _consumers(graph: Subgraph) -> Mapping[int, set[int]]:
    """Returns the positions of the operations that read each operand."""
    found: dict[int, set[int]] = {}
    for position, operation in enumerate(graph.operations):
        for index in operation.inputs:
            found.setdefault(index, set()).add(position)
    return found


def _boundary(
    graph: Subgraph, operations: Sequence[int], consumers: Mapping[int, set[int]]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the operands that operations need from others, and that others need from them."""
    own = set(operations)
    produced = [index for position in operations for index in graph.operations[position].outputs]
    read = dict.fromkeys(index for position in operations for index in graph.operations[position].inputs)
    results, made = set(graph.outputs), set(produced)
    inputs = tuple(
        index for index in read if graph.operands[index].lifetime in _VARIABLES and index not in made
    )
    outputs = tuple(index for index in produced if index in results or consumers.get(index, set()) - own)
    return inputs, outputs
