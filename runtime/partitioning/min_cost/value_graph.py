"""Describes by arrays what the operations of a graph exchange, and contracts operations to groups.

A *value* is an operand that operations exchange, or that the client gives or gets. An *edge* is one
operation that reads what another one writes.
"""

from functools import cached_property
from itertools import pairwise

from msgspec import Struct

from neurald.hal.lazy_numpy import Array, np
from neurald.hal.model.types import Lifetime, Subgraph
from neurald.runtime.costs.work import operand_bytes

_EXCHANGED = (
    Lifetime.TEMPORARY_VARIABLE,
    Lifetime.SUBGRAPH_OUTPUT,
    Lifetime.SUBGRAPH_INPUT,
)
_CLIENT = -1


class ValueGraph(Struct, frozen=True, kw_only=True, dict=True):
    """The values of a graph, and who writes and reads them.

    Attributes:
        count: of the operations.
        writer: by value, the operation that writes it; -1 for the client.
        is_output: by value, whether the client reads it.
        bytes: by value, its size.
        read_by, read: for each operand that an operation reads, the operation and the value;
            without repetitions, in the order of the operations.
    """

    count: int
    writer: Array
    is_output: Array
    bytes: Array
    read_by: Array
    read: Array

    @classmethod
    def of(cls, graph: Subgraph, inputs: tuple[Array, Array], outputs: tuple[Array, Array]) -> "ValueGraph":
        """Returns the values of a graph; each operand has the number of its value.

        Args:
            graph: valid.
            inputs, outputs: see `neurald.runtime.costs.graph_work.flat_operands`.
        """
        operands = graph.operands
        writer = np.full(len(operands), _CLIENT)
        writer[outputs[1]] = outputs[0]
        is_output = np.zeros(len(operands), bool)
        is_output[list(graph.outputs)] = True
        is_exchanged = np.fromiter((each.lifetime in _EXCHANGED for each in operands), bool, len(operands))
        is_exchanged |= writer >= 0
        known: dict[tuple[object, object], int] = {}
        sizes = np.zeros(len(operands))
        for index in np.flatnonzero(is_exchanged).tolist():
            operand = operands[index]
            key = operand.type, operand.dimensions
            size = known.get(key)
            if size is None:
                size = known[key] = operand_bytes(graph, index)
            sizes[index] = size
        read_by, read = inputs
        kept = is_exchanged[read]
        read_by, read = _without_repetitions(read_by[kept], read[kept], len(operands))
        return cls(
            count=len(graph.operations),
            writer=writer,
            is_output=is_output,
            bytes=sizes,
            read_by=read_by,
            read=read,
        )

    @cached_property
    def sources(self) -> Array:
        """The operation that writes each read value; -1 for the client."""
        found: Array = self.writer[self.read]
        return found

    @cached_property
    def edges(self) -> tuple[Array, Array]:
        """The writers and readers of the values that operations exchange."""
        kept = self.sources >= 0
        return self.sources[kept], self.read_by[kept]

    @cached_property
    def followers(self) -> list[list[int]]:
        """For each operation the operations that read what it writes, once for each value."""
        sources, targets = self.edges
        order = np.argsort(sources, kind="stable")
        ordered = targets[order].tolist()
        ends = np.cumsum(np.bincount(sources, minlength=self.count)).tolist()
        return [ordered[start:end] for start, end in pairwise([0, *ends])]

    @cached_property
    def missing(self) -> list[int]:
        """For each operation how many values it reads that other operations write."""
        found: list[int] = np.bincount(self.edges[1], minlength=self.count).tolist()
        return found

    def contracted(self, groups: Array, count: int) -> "ValueGraph":
        """Returns the graph in which groups of operations are operations.

        Args:
            groups: the group of each operation; every path between two operations of a group stays
                in it.
            count: of the groups.
        """
        writer = np.where(self.writer < 0, _CLIENT, groups[self.writer])
        read_by = groups[self.read_by]
        kept = writer[self.read] != read_by
        read_by, read = _without_repetitions(read_by[kept], self.read[kept], len(writer))
        return ValueGraph(
            count=count,
            writer=writer,
            is_output=self.is_output,
            bytes=self.bytes,
            read_by=read_by,
            read=read,
        )


def _without_repetitions(read_by: Array, read: Array, values: int) -> tuple[Array, Array]:
    codes = np.unique(read_by * values + read)
    return codes // max(1, values), codes % max(1, values)
