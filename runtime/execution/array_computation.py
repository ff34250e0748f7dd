"""Computes the outputs for arrays by an execution, whose buffers grow until the outputs fit."""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from neurald.hal.errors import OutOfMemory, OutputInsufficientSize
from neurald.hal.lazy_numpy import Array
from neurald.hal.model.elements import first_elements
from neurald.hal.model.graph import Operand
from neurald.hal.model.types import Dimensions, byte_size
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
    allows_endless_loops: bool = False,
    begin: Callable[[Execution], object] | None = None,
) -> tuple[list[Array], Execution]:
    """Computes the outputs.

    Args:
        compilation: the compiled model.
        inputs: one array for each, of its type; None for one that is omitted.
        shapes: the expected shapes of the outputs, as far as they are known.
        wants_receipt: whether the execution keeps a receipt.
        allows_endless_loops: see `ExecutionPreparation.allow_endless_loops`.
        begin: is called with each execution before it computes; None for nothing.

    Returns:
        The outputs with their actual shapes, and the completed execution.

    Raises:
        Error: the execution failed.
    """
    operands = compilation.model.output_operands
    for _ in range(_MAX_OUTPUT_GROWTHS):
        outputs = [_buffer(shape, each) for shape, each in zip(shapes, operands, strict=True)]
        execution = _bound(compilation, inputs, outputs)
        if wants_receipt:
            execution.enable_receipt()
        if allows_endless_loops:
            execution.allow_endless_loops()
        if begin is not None:
            begin(execution)
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


def _bound(compilation: CompiledModel, inputs: Sequence[Array | None], outputs: Sequence[Array]) -> Execution:
    """Returns an execution with its arguments; traces replace this function."""
    execution = Execution(compilation)
    for position, array in enumerate(inputs):
        execution.set_input(position, array)
    for position, array in enumerate(outputs):
        execution.set_output(position, array)
    return execution


def _buffer(shape: Dimensions, operand: Operand) -> Array:
    """Returns a buffer for an output, of one element along each axis of unknown length.

    Raises:
        OutOfMemory: there is no memory for it.
    """
    lengths = tuple([length or 1 for length in shape or ()])
    try:
        return np.empty(lengths, operand.type.dtype)
    except MemoryError:
        size_bytes = byte_size(operand.type, lengths)
        raise OutOfMemory(
            f"cannot allocate {size_bytes} bytes for an output of shape {list(lengths)}"
        ) from None
