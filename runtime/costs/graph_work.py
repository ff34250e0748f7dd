"""The kinds and the work of all operations of a graph at once, as arrays.

What `neurald.runtime.costs.work` computes for one operation takes microseconds, and graphs have a
thousand operations. Elements are counted once for each shape, and sums over the operands of all
operations are NumPy's.
"""

import math
from collections.abc import Sequence
from itertools import chain
from typing import Final

from neurald.hal.lazy_numpy import Array, np
from neurald.hal.model.types import OperandType, Operation, Subgraph
from neurald.runtime.costs.estimate import DeviceCosts, OperationCost
from neurald.runtime.costs.table import MAX_BAND, CostSource, bands_of
from neurald.runtime.costs.work import (
    CONSTANTS,
    ELEMENT_WORK,
    OperationKind,
    elements_of,
    is_matrix_product,
    kind_of,
    work_of,
)

_SOURCES: Final = tuple(CostSource)


class GraphWork:
    """The kinds and the work of a graph's operations.

    Control flow has the work of its operands, which means nothing.

    Args:
        graph: valid.
        inputs, outputs: see `flat_operands`.

    Attributes:
        work: by operation.
        kinds: without repetitions, with the types of the first operands.
        kind_numbers: by operation, the index of its kind.
    """

    def __init__(self, graph: Subgraph, inputs: tuple[Array, Array], outputs: tuple[Array, Array]) -> None:
        operands, operations = graph.operands, graph.operations
        count = len(operations)
        known: dict[tuple[int, ...] | None, int] = {}
        elements = []
        for operand in operands:
            dimensions = operand.dimensions
            found = known.get(dimensions)
            if found is None:
                found = known[dimensions] = elements_of(dimensions)
            elements.append(found)
        sizes = np.array(elements, np.float64)
        is_read = np.array([each.lifetime not in CONSTANTS and each.type.is_tensor for each in operands])
        moved = np.bincount(outputs[0], sizes[outputs[1]], count)
        moved += np.bincount(inputs[0], (sizes * is_read)[inputs[1]], count)
        self.work = np.maximum(1.0, ELEMENT_WORK * moved)
        types = [operand.type for operand in operands]
        self.kinds: list[tuple[OperationKind, OperandType]] = []
        numbers: dict[tuple[int, int], int] = {}
        products: set[int] = set()
        shapes: dict[tuple[object, ...], float] = {}
        found_numbers = []
        for position, operation in enumerate(operations):
            used = operation.inputs or operation.outputs
            operand_type = types[used[0]] if used else OperandType.FLOAT32
            key = operation.type, operand_type
            number = numbers.get(key)
            if number is None:
                number = numbers[key] = len(self.kinds)
                self.kinds.append((kind_of(graph, operation), operand_type))
                if is_matrix_product(operation.type.name):
                    products.add(number)
            found_numbers.append(number)
            if number in products:
                self.work[position] = _work_once(graph, operation, number, shapes)
        self.kind_numbers = np.array(found_numbers, np.intp)

    def costs_on(self, devices: Sequence[DeviceCosts], *, relaxed: bool) -> "OperationCosts":
        """Returns what the operations cost on devices.

        Args:
            devices: the devices.
            relaxed: whether float32 may be computed in float16.
        """
        codes = self.kind_numbers * (MAX_BAND + 1) + bands_of(self.work)
        different, places = np.unique(codes, return_inverse=True)
        shape = len(devices), len(different)
        units, energies = np.empty(shape), np.empty(shape)
        sources = np.empty(shape, np.int8)
        pairs = [divmod(code, MAX_BAND + 1) for code in different.tolist()]
        for row, device in enumerate(devices):
            for column, (number, band) in enumerate(pairs):
                kind, operand = self.kinds[number]
                unit = device.unit(kind, operand, band, relaxed=relaxed)
                units[row, column] = unit.seconds
                energies[row, column] = unit.energy
                sources[row, column] = _SOURCES.index(unit.source)
        return OperationCosts(
            (units[:, places] * self.work).T, (energies[:, places] * self.work).T, sources[:, places].T
        )


class OperationCosts:
    """The costs of operations, by operation and device.

    Attributes:
        seconds, energies: arrays of the figures; infinite for types that a device does not list.
    """

    def __init__(self, seconds: Array, energies: Array, sources: Array) -> None:
        self.seconds = seconds
        self.energies = energies
        self._sources = sources

    def of(self, position: int) -> tuple[OperationCost, ...]:
        """Returns the costs of one operation, by device."""
        return tuple(
            OperationCost(seconds=seconds, source=_SOURCES[source], energy=energy)
            for seconds, energy, source in zip(
                self.seconds[position].tolist(),
                self.energies[position].tolist(),
                self._sources[position].tolist(),
                strict=True,
            )
        )


def flat_operands(lists: Sequence[Sequence[int]]) -> tuple[Array, Array]:
    """Returns for all operands of operations the position of the operation, and the operand."""
    counts = np.fromiter(map(len, lists), np.intp, len(lists))
    total = int(counts.sum())
    operands = np.fromiter(chain.from_iterable(lists), np.intp, total)
    return np.repeat(np.arange(len(lists)), counts), operands


def _work_once(
    graph: Subgraph, operation: Operation, number: int, known: dict[tuple[object, ...], float]
) -> float:
    operands = graph.operands
    key = (
        number,
        tuple([operands[n].dimensions for n in operation.inputs]),
        tuple([operands[n].dimensions for n in operation.outputs]),
    )
    found = known.get(key)
    if found is None:
        found = known[key] = work_of(graph, operation)
    return found if math.isfinite(found) else float(2**128)
