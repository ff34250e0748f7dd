"""Small models of the kinds that caches treat differently, and their expected outputs.

Inputs have three columns.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from support.cpu.compiled_parts import FLOAT, Op, in_parts

import neurald as nd


def _scaled(rows: int) -> nd.Model:
    builder = nd.ModelBuilder()
    source, result = (builder.add_operand(FLOAT, (rows, 3)) for _ in range(2))
    weights = builder.add_operand(FLOAT, (3,))
    builder.set_operand_value(weights, np.full(3, 2, np.float32))
    activation = builder.add_operand(nd.OperandType.INT32)
    builder.set_operand_value(activation, 0)
    builder.add_operation(Op.MUL, [source, weights, activation], [result])
    builder.identify_inputs_and_outputs([source], [result])
    return builder.finish()


def _without_constants() -> nd.Model:
    builder = nd.ModelBuilder()
    source, result = (builder.add_operand(FLOAT, (2, 3)) for _ in range(2))
    builder.add_operation(Op.TANH, [source], [result])
    builder.identify_inputs_and_outputs([source], [result])
    return builder.finish()


#: A function that creates the model, and one that computes the first output for an input.
MODELS: dict[str, tuple[Callable[[], nd.Model], Callable[[Any], Any]]] = {
    "unspecified": (lambda: _scaled(0), lambda given: given * 2),
    "with constants": (lambda: _scaled(2), lambda given: given * 2),
    "without constants": (_without_constants, np.tanh),
    "in parts": (lambda: in_parts(4), lambda given: 4 * given * given),
}
