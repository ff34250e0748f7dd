"""Computes the outputs for arrays by an execution, whose buffers grow until the outputs fit."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from neurald.hal.errors import OutputInsufficientSize
from neurald.hal.lazy_numpy import Array
from neurald.hal.model.elements import first_elements
from neurald.hal.model.types import Dimensions
from neurald.runtime.execution.compiled_model import CompiledModel
from neurald.runtime.execution.execution import Execution

#: Maximum number of times that output buffers whose size depends on the data are enlarged.
_MAX_OUTPUT_GROWTHS: Final = 8


def compute_arrays(
    compilation: CompiledModel,
    inputs: Sequence[Array | None],
    shapes: Sequence[Dimensions],
    *,
    wants_receipt: bool = False,
) -> tuple[list[Array], Execution]:
    """Computes the outputs.

    Args:
        compilation: the compiled model.
        inputs: one array for each, of its type; None for one that is omitted.
        shapes: the expected shapes of the outputs, as far as they are known.
        wants_receipt: whether the execution keeps a receipt.

    Returns:
        The outputs with their actual shapes, and the completed execution.

    Raises:
        Error: the execution failed.
    """
    operands = compilation.model.output_operands
    for _ in range(_MAX_OUTPUT_GROWTHS):
        outputs: list[Array] = [
            np.empty([d or 1 for d in shape or ()] if shape is None or 0 in shape else shape, each.type.dtype)
            for shape, each in zip(shapes, operands, strict=True)
        ]
        execution = Execution(compilation)
        if wants_receipt:
            execution.enable_receipt()
        for position, array in enumerate(inputs):
            execution.set_input(position, array)
        for position, array in enumerate(outputs):
            execution.set_output(position, array)
        try:
            execution.compute()
        except OutputInsufficientSize as error:
            shapes = list(error.dimensions)
            continue
        found = [
            first_elements(output, shape)
            for output, shape in zip(outputs, execution.output_shapes(), strict=True)
        ]
        return found, execution
    raise OutputInsufficientSize(
        f"the outputs did not fit their buffers in {_MAX_OUTPUT_GROWTHS} runs with larger and larger buffers",
        shapes,
    )
