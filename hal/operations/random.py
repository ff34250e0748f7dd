"""RANDOM_MULTINOMIAL: draws classes with given probabilities."""

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.rules import data_rows
from neurald.hal.operations.machinery.signature import Form, scalar, tensor

_WORD = 0xFFFF_FFFF


def _samples(call: Call) -> None:
    call.scalar_in("samples", 0)


def _shape(call: Call) -> tuple[Shape, ...]:
    if call.shape("seeds") != (2,):
        raise BadData(f"{call.name('seeds')} has shape {list(call.shape('seeds'))}; [2] is expected")
    return ((call.shape("logits")[0], call.scalar_in("samples", 0)),)


def _generator(call: Call) -> np.random.Generator:
    """Creates a generator. Equal seeds give equal results; two zeros select random seeds."""
    seeds = [int(seed) & _WORD for seed in call.array("seeds")]
    return np.random.Generator(
        np.random.Philox(key=seeds[0] << 32 | seeds[1]) if any(seeds) else np.random.Philox()
    )


def _draw(call: Call) -> tuple[Array, ...]:
    """Draws classes. A class with a logit that is not finite is never drawn.

    Raises:
        BadData: a row has no finite logit.
    """
    (shape,) = _shape(call)
    output = np.empty(shape, np.int32)
    generator = _generator(call)
    for index, row in enumerate(call.array("logits") if output.size else ()):
        logits = row.astype(np.float64)
        possible = np.flatnonzero(np.isfinite(logits))
        if not possible.size:
            raise BadData(
                f"{call.name('logits')}: row {index} has no finite element; at least one is expected"
            )
        weights = np.exp(logits[possible] - logits[possible].max())
        bounds = np.cumsum(weights)
        points = generator.random(shape[1]) * bounds[-1]
        # A product that is rounded up to the last bound still belongs to the last class.
        chosen = np.minimum(np.searchsorted(bounds, points, side="right"), len(possible) - 1)
        output[index] = possible[chosen]
    return (output,)


DEFINITIONS = (
    Definition(
        type=OperationType.RANDOM_MULTINOMIAL,
        is_random=True,
        forms=(
            Form(
                inputs=(
                    tensor("logits", rank=2),
                    scalar("samples"),
                    tensor("seeds", OperandType.TENSOR_INT32, rank=1),
                ),
                outputs=(tensor("output", OperandType.TENSOR_INT32, rank=2),),
            ),
        ),
        rows=data_rows(FeatureLevel.LEVEL_3),
        checks=(_samples,),
        shape=_shape,
        reference=_draw,
    ),
)
