"""The operands and operations of a graph as arrays.

What is computed for each of thousands of operands in Python takes milliseconds. Operands of the
same type, dimensions and lifetime are alike, so their sizes are computed once.
"""

from collections.abc import Sequence
from itertools import chain

from msgspec import Struct

from neurald.hal.lazy_numpy import Array, np
from neurald.hal.model.types import Lifetime, OperandType, Subgraph
from neurald.runtime.costs.work import CONSTANTS, elements_of, operand_bytes

_EXCHANGED = (Lifetime.TEMPORARY_VARIABLE, Lifetime.SUBGRAPH_OUTPUT, Lifetime.SUBGRAPH_INPUT)


class GraphArrays(Struct, frozen=True, kw_only=True):
    """Facts about the operands of a graph, and which operations read and write them.

    Attributes:
        graph: the graph.
        inputs, outputs: for all operands that operations read or write, the position of the
            operation, and the operand.
        elements, bytes: by operand; see `neurald.runtime.costs.work`. A model has no bytes.
        is_read: by operand, whether an operation that has it as an input reads as many elements.
        is_exchanged: by operand, whether operations or the client may write it.
        first_types: by operation, the type of its first operand.
    """

    graph: Subgraph
    inputs: tuple[Array, Array]
    outputs: tuple[Array, Array]
    elements: Array
    bytes: Array
    is_read: Array
    is_exchanged: Array
    first_types: Sequence[OperandType]

    @classmethod
    def of(cls, graph: Subgraph) -> "GraphArrays":
        """Returns the facts about a valid graph."""
        operands, operations = graph.operands, graph.operations
        numbers: dict[object, int] = {}
        number_of = [
            numbers.setdefault((each.type, each.dimensions, each.lifetime), len(numbers)) for each in operands
        ]
        alike = np.array(number_of, np.intp)
        representatives = np.zeros(len(numbers), np.intp)
        representatives[alike] = np.arange(len(operands))
        examples = representatives.tolist()
        elements = [elements_of(operands[n].dimensions) for n in examples]
        sizes = [0 if operands[n].type is OperandType.MODEL else operand_bytes(graph, n) for n in examples]
        is_read = [operands[n].lifetime not in CONSTANTS and operands[n].type.is_tensor for n in examples]
        is_exchanged = [operands[n].lifetime in _EXCHANGED for n in examples]
        return cls(
            graph=graph,
            inputs=_flat([operation.inputs for operation in operations]),
            outputs=_flat([operation.outputs for operation in operations]),
            elements=np.array(elements, np.float64)[alike],
            bytes=np.array(sizes, np.float64)[alike],
            is_read=np.array(is_read, bool)[alike],
            is_exchanged=np.array(is_exchanged, bool)[alike],
            first_types=[
                operands[used[0]].type if (used := each.inputs or each.outputs) else OperandType.FLOAT32
                for each in operations
            ],
        )


def _flat(lists: Sequence[Sequence[int]]) -> tuple[Array, Array]:
    counts = np.fromiter(map(len, lists), np.intp, len(lists))
    operands = np.fromiter(chain.from_iterable(lists), np.intp, int(counts.sum()))
    return np.repeat(np.arange(len(lists)), counts), operands
