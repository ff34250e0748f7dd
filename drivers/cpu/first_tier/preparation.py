"""Prepares a model for the first tier: on its kernels where there are any, else on references."""

import logging
from collections.abc import Sequence

from neurald.drivers.cpu.bounded_model import whole_model
from neurald.drivers.cpu.first_tier.assembly import assemble
from neurald.drivers.cpu.first_tier.binding import BoundCall, bind
from neurald.drivers.cpu.first_tier.layout import tiles_of
from neurald.drivers.cpu.native.native_model import NativeModel
from neurald.drivers.cpu.native.thread_pool import Team
from neurald.drivers.cpu.native_segment import NativeSegment
from neurald.drivers.cpu.prepared_model import CpuPreparedModel
from neurald.drivers.cpu.segment import segments, sub_model
from neurald.drivers.cpu.target.target import Target
from neurald.hal.execution.reference_graph import Step
from neurald.hal.execution.reference_model import ReferenceModel
from neurald.hal.model.types import Model

_LOG = logging.getLogger(__name__)


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

    def native(part: Model, operations: Sequence[int]) -> NativeModel:
        calls: list[tuple[int, BoundCall]] = [
            (position, call) for position in operations for call in bound[position] or ()
        ]
        executable, constants = assemble(part, calls, target.name)
        return NativeModel(executable, codes, constants, team)

    if all(is_native):
        return whole_model(native(model, range(len(bound))), lambda: ReferenceModel(model))
    steps: list[Step] = []
    for segment in segments(model.main, is_native):
        if not segment.is_native:
            steps += segment.operations
            continue
        part = sub_model(model, model.main, segment.operations)
        steps.append(
            NativeSegment(
                operations=segment.operations,
                inputs=part.main.inputs,
                outputs=part.main.outputs,
                native=native(part, segment.operations),
            )
        )
    _LOG.debug("%d of %d operations have kernels of the first tier", sum(is_native), len(is_native))
    return ReferenceModel(model, [steps, *[None] * len(model.referenced)])
