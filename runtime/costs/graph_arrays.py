"""The operands and operations of a graph as arrays.

A computation in Python for each of thousands of operands takes milliseconds. Operands of the
same type, dimensions and lifetime are alike, so their sizes are computed once.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Final

from msgspec import Struct

from neurald.hal.lazy_numpy import Array, np
from neurald.hal.model.graph import Subgraph
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Lifetime, OperandType
from neurald.runtime.costs.work import CONSTANTS, elements_of, operand_bytes

#: No operand.
_NONE: Final = -1
#: More than any type of an operand; types of operations and operands have less than 32 bits.
_TYPES: Final = 1 << 32
_EXCHANGED = (Lifetime.TEMPORARY_VARIABLE, Lifetime.SUBGRAPH_OUTPUT, Lifetime.SUBGRAPH_INPUT)


class GraphArrays(Struct, frozen=True, kw_only=True):
    """Facts about the operands of a graph, and which operations read and write them.

    Attributes:
        graph: the graph.
        inputs, outputs: for all operands that operations read or write, the position of the
            operation, and the operand.
        elements, bytes: by operand; see `neurald.runtime.costs.work`. A model has no bytes.
        is_read: by operand, whether an operation that has it as an input reads as many elements.
        is_matrix: by operand, whether it has two dimensions or more.
        is_exchanged: by operand, whether operations or the client may write it.
        kind_numbers: by operation, the index of its kind.
        kinds: the different kinds: the type of the operation, and that of its first operand.
    """

    graph: Subgraph
    inputs: tuple[Array, Array]
    outputs: tuple[Array, Array]
    elements: Array
    bytes: Array
    is_read: Array
    is_matrix: Array
    is_exchanged: Array
    kind_numbers: Array
    kinds: Sequence[tuple[OperationType, OperandType]]

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
        is_matrix = [len(operands[n].dimensions or ()) >= 2 for n in examples]
        is_exchanged = [operands[n].lifetime in _EXCHANGED for n in examples]
        inputs = flat([operation.inputs for operation in operations])
        outputs = flat([operation.outputs for operation in operations])
        # The first operand is an input, if there is one.
        first = np.full(len(operations), _NONE)
        for users, used in (outputs, inputs):
            first[users[::-1]] = used[::-1]
        types = np.array([operands[n].type for n in examples], np.intp)[alike]
        first_types = np.where(first == _NONE, OperandType.FLOAT32, types[first]) if len(types) else first
        codes = np.fromiter([operation.type for operation in operations], np.intp, len(operations))
        codes = codes * _TYPES + first_types
        kinds = different(codes)
        return cls(
            graph=graph,
            inputs=inputs,
            outputs=outputs,
            elements=np.array(elements, np.float64)[alike],
            bytes=np.array(sizes, np.float64)[alike],
            is_read=np.array(is_read, bool)[alike],
            is_matrix=np.array(is_matrix, bool)[alike],
            is_exchanged=np.array(is_exchanged, bool)[alike],
            kind_numbers=np.searchsorted(kinds, codes),
            kinds=[(OperationType(code // _TYPES), OperandType(code % _TYPES)) for code in kinds.tolist()],
        )


def different(codes: Array) -> Array:
    """Returns numbers in ascending order without repetitions, much faster than `np.unique`."""
    ordered = np.sort(codes)
    is_first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    found: Array = ordered[is_first]
    return found


def flat(lists: Sequence[Sequence[int]]) -> tuple[Array, Array]:
    """Returns the operation's position, and the operand, for all operands in the lists."""
    counts = np.fromiter(map(len, lists), np.intp, len(lists))
    operands = np.fromiter(chain.from_iterable(lists), np.intp, int(counts.sum()))
    return np.repeat(np.arange(len(lists)), counts), operands
