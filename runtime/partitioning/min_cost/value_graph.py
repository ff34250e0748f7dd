"""Describes the values between operations of a graph by arrays, and contracts operations to groups.

A *value* is an operand that operations exchange, or that the client gives or gets. An *edge* is one
operation that reads what another one writes.
"""

from functools import cached_property
from itertools import pairwise

from msgspec import Struct

from neurald.hal.lazy_numpy import Array, np
from neurald.runtime.costs.graph_arrays import GraphArrays, different

_CLIENT = -1


class ValueGraph(Struct, frozen=True, kw_only=True, dict=True):
    """The values of a graph, and who writes and reads them.

    Attributes:
        count: the count of the operations.
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
    def of(cls, arrays: GraphArrays) -> "ValueGraph":
        """Returns the values of a graph; each operand has the number of its value."""
        count = len(arrays.graph.operands)
        writer = np.full(count, _CLIENT)
        writer[arrays.outputs[1]] = arrays.outputs[0]
        is_output = np.zeros(count, bool)
        is_output[list(arrays.graph.outputs)] = True
        is_exchanged = arrays.is_exchanged | (writer >= 0)
        read_by, read = arrays.inputs
        kept = is_exchanged[read]
        read_by, read = _without_repetitions(read_by[kept], read[kept], count)
        return cls(
            count=len(arrays.graph.operations),
            writer=writer,
            is_output=is_output,
            bytes=np.where(is_exchanged, arrays.bytes, 0.0),
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

    @cached_property
    def first(self) -> list[int]:
        """The operations that read nothing that other operations write."""
        found: list[int] = np.flatnonzero(np.bincount(self.edges[1], minlength=self.count) == 0).tolist()
        return found

    def contracted(self, groups: Array, count: int) -> "ValueGraph":
        """Returns the graph in which groups of operations are operations.

        Values that only one group writes and reads are left out, and those that one group reads of
        another one are joined, so that values have new numbers.

        Args:
            groups: the group of each operation; every path between two operations of a group stays
                in it.
            count: the count of the groups.
        """
        writer = np.where(self.writer < 0, _CLIENT, groups[self.writer])
        read_by = groups[self.read_by]
        kept = writer[self.read] != read_by
        read_by, read = _without_repetitions(read_by[kept], self.read[kept], len(writer))
        # All operands that one group writes and one other group reads count as one value.
        readers = np.bincount(read, minlength=len(writer))
        is_single = (readers == 1) & ~self.is_output & (writer >= 0)
        reader = np.empty(len(writer), np.intp)
        reader[read] = read_by
        (single,) = np.nonzero(is_single)
        (other,) = np.nonzero(~is_single & (self.is_output | (readers > 0)))
        pair_codes = writer[single] * count + reader[single]
        pairs = different(pair_codes)
        pair_of = np.searchsorted(pairs, pair_codes)
        sizes = np.bincount(pair_of, self.bytes[single], len(pairs))
        number_of = np.empty(len(writer), np.intp)
        number_of[single] = pair_of
        number_of[other] = len(pairs) + np.arange(len(other))
        read_by, read = _without_repetitions(read_by, number_of[read], len(pairs) + len(other))
        return ValueGraph(
            count=count,
            writer=np.concatenate((pairs // count, writer[other])),
            is_output=np.concatenate((np.zeros(len(pairs), bool), self.is_output[other])),
            bytes=np.concatenate((sizes, self.bytes[other])),
            read_by=read_by,
            read=read,
        )


def _without_repetitions(read_by: Array, read: Array, values: int) -> tuple[Array, Array]:
    return np.divmod(different(read_by * values + read), max(1, values))
