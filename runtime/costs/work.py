"""Estimates the work of an operation from its type and shapes, in multiplications.

The work of an operation is the size by which its measurements are compared: an operation of a type
that has twice the work of another takes about twice as long.
"""

import math
import time
from functools import cache
from typing import Final

from msgspec import Struct

from neurald.hal.lazy_numpy import np
from neurald.hal.model.graph import Operation, Subgraph
from neurald.hal.model.types import Dimensions, Lifetime, value_size

#: An element of an operation without multiplications takes as long as that many of them, because it
#: is read and written.
ELEMENT_WORK: Final = 16
#: The length of an unspecified dimension. The first one usually is a batch.
_OPEN_LENGTH: Final = 64
#: Elements of an operand of unknown rank.
_OPEN_ELEMENTS: Final = 1024

#: Parts of the names of operations that multiply matrices.
_PRODUCTS: Final = ("CONV", "FULLY_CONNECTED", "MATMUL", "LSTM", "RNN")
_SIZE: Final = 192
_ROUNDS: Final = 5
#: Lifetimes of operands that no operation writes.
CONSTANTS: Final = (Lifetime.CONSTANT_COPY, Lifetime.CONSTANT_POOL, Lifetime.NO_VALUE)


class OperationKind(Struct, frozen=True, kw_only=True):
    """An operation's key in a table of measurements: its type and that of its first operand."""

    operation: str
    operand: str

    @property
    def is_product(self) -> bool:
        """True if most of its time is multiplications, not moving data."""
        return any(part in self.operation for part in _PRODUCTS)


def kind_of(graph: Subgraph, operation: Operation) -> OperationKind:
    """Returns the kind of an operation."""
    first = next(iter(operation.inputs or operation.outputs), None)
    return OperationKind(
        operation=operation.type.name, operand="" if first is None else graph.operands[first].type.name
    )


def work_of(graph: Subgraph, operation: Operation) -> float:
    """Returns the multiplications of an operation, or what takes as long.

    Each weight of a convolution is used for each output position, other constants once. Unspecified
    dimensions count as 1 if they are the first, otherwise as 64.
    """
    operands = graph.operands
    written = sum(elements_of(operands[n].dimensions) for n in operation.outputs)
    read = sum(
        elements_of(operands[n].dimensions)
        for n in operation.inputs
        if operands[n].type.is_tensor and operands[n].lifetime not in CONSTANTS
    )
    name = operation.type.name
    is_product = is_matrix_product(name)
    weights: tuple[int, ...] = ()
    count = 0
    for n in operation.inputs[1:]:
        dimensions = operands[n].dimensions
        if dimensions is not None and len(dimensions) >= 2 and (elements := math.prod(dimensions)) > count:
            weights, count = dimensions, elements
    if is_product and weights:
        if "CONV" in name:
            depth = weights[-1] if "DEPTHWISE" in name else weights[0]
            return float(max(1.0, written * count / max(1, depth)))
        return float(max(1, written * (weights[-1] if "FULLY" in name else weights[-2])))
    # Rows of a table that is only looked up are not all read.
    return float(max(1, ELEMENT_WORK * (written + read)))


def operand_bytes(graph: Subgraph, index: int) -> int:
    """Returns the size of an operand in bytes; unspecified dimensions count as in `work_of`."""
    operand = graph.operands[index]
    size = value_size(operand.type, operand.dimensions)
    if size is not None:
        return size
    try:
        item = operand.type.dtype.itemsize
    except (KeyError, ValueError):
        item = 1
    return item * elements_of(operand.dimensions)


def is_matrix_product(name: str) -> bool:
    """Returns True if `work_of` counts the multiplications of a type's operations by weights."""
    return "CONV" in name or "FULLY_CONNECTED" in name or "MATMUL" in name


def elements_of(dimensions: Dimensions) -> int:
    """Returns the elements of an operand; unspecified dimensions count as in `work_of`."""
    if dimensions is None:
        return _OPEN_ELEMENTS
    if 0 not in dimensions:
        return math.prod(dimensions)
    return math.prod(
        length or (1 if position == 0 else _OPEN_LENGTH) for position, length in enumerate(dimensions)
    )


@cache
def host_multiplications_per_s() -> float:
    """Returns how many multiplications and additions this host computes in a second."""
    matrix = np.ones((_SIZE, _SIZE), np.float32)
    best_s = math.inf
    for _ in range(_ROUNDS):
        started = time.perf_counter()
        np.matmul(matrix, matrix)
        best_s = min(best_s, time.perf_counter() - started)
    return float(_SIZE**3 / max(best_s, 1e-9))
