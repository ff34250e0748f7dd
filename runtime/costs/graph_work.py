"""The kinds and the work of all operations of a graph at once, as arrays.

`neurald.runtime.costs.work` takes microseconds for one operation, and graphs have a thousand
operations. Sums over the operands of all operations are NumPy's, and operations of the
same kind and size have the same cost for a unit of work.
"""

import math
from collections.abc import Sequence

from neurald.hal.lazy_numpy import Array, np
from neurald.hal.model.graph import Operation, Subgraph
from neurald.hal.model.types import OperandType
from neurald.runtime.costs.estimate import DeviceCosts, OperationCost
from neurald.runtime.costs.graph_arrays import GraphArrays
from neurald.runtime.costs.table import MAX_BAND, SOURCES, bands_of
from neurald.runtime.costs.work import (
    ELEMENT_WORK,
    OperationKind,
    is_matrix_product,
    kind_of,
    work_of,
)


class GraphWork:
    """The kinds and the work of a graph's operations.

    Control flow has the work of its operands, which means nothing.

    Args:
        arrays: the arrays of the graph.

    Attributes:
        work: by operation.
        kinds: without repetitions, with the types of the first operands.
        kind_numbers: by operation, the index of its kind.
    """

    def __init__(self, arrays: GraphArrays) -> None:
        graph = arrays.graph
        operations = graph.operations
        (writers, written), (readers, read) = arrays.outputs, arrays.inputs
        moved = np.bincount(writers, arrays.elements[written], len(operations))
        moved += np.bincount(readers, (arrays.elements * arrays.is_read)[read], len(operations))
        self.work = np.maximum(1.0, ELEMENT_WORK * moved)
        self.kind_numbers = numbers = arrays.kind_numbers
        examples = np.zeros(len(arrays.kinds), np.intp)
        examples[numbers] = np.arange(len(operations))
        self.kinds: list[tuple[OperationKind, OperandType]] = [
            (kind_of(graph, operations[n]), operand)
            for n, (_, operand) in zip(examples.tolist(), arrays.kinds, strict=True)
        ]
        is_product = np.array([is_matrix_product(operation.name) for operation, _ in arrays.kinds], bool)
        known: dict[tuple[object, ...], float] = {}
        # A product without weights has the work of its operands.
        matrices = np.bincount(readers, arrays.is_matrix[read], len(operations))
        for position in np.flatnonzero(is_product[numbers] & (matrices > 0)).tolist():
            self.work[position] = _work_once(graph, operations[position], int(numbers[position]), known)

    def costs_on(self, devices: Sequence[DeviceCosts], *, relaxed: bool) -> "OperationCosts":
        """Returns what the operations cost on devices.

        Args:
            devices: the devices.
            relaxed: whether float32 may be computed in float16.
        """
        codes = self.kind_numbers * (MAX_BAND + 1) + bands_of(self.work)
        is_used = np.zeros(len(self.kinds) * (MAX_BAND + 1), bool)
        is_used[codes] = True
        different = np.flatnonzero(is_used)
        places = (np.cumsum(is_used) - 1)[codes]
        numbers, bands = np.divmod(different, MAX_BAND + 1)
        units = [device.units(self.kinds, numbers, bands, relaxed=relaxed) for device in devices]
        seconds, energies, sources = (np.array(each)[:, places].T for each in zip(*units, strict=True))
        return OperationCosts(seconds * self.work[:, None], energies * self.work[:, None], sources)


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
            OperationCost(seconds=seconds, source=SOURCES[source], energy=energy)
            for seconds, energy, source in zip(
                self.seconds[position].tolist(),
                self.energies[position].tolist(),
                self._sources[position].tolist(),
                strict=True,
            )
        )


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
