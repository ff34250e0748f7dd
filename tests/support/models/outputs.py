"""Models that have nothing but outputs."""

from typing import Any

import numpy as np

from neurald.hal.model.graph import Operand, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.types import Lifetime, OperandType


def model_of(*outputs: np.ndarray[Any, Any]) -> Model:
    """Returns a model whose outputs are these."""
    operands = tuple(
        Operand(type=OperandType.TENSOR_FLOAT32, dimensions=each.shape, lifetime=Lifetime.SUBGRAPH_OUTPUT)
        for each in outputs
    )
    indexes = tuple(range(len(outputs)))
    return Model(main=Subgraph(operands=operands, operations=(), inputs=(), outputs=indexes))
