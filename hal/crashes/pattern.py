"""Patterns of operations, by which a model that killed a driver is recognised.

The signature of an operation consists of all that usually decides which code a driver runs for it:
its type, the types and shapes of its operands, and the values of its scalars and small integer
constants. Weights and scales are not part of it. The pattern of a model is the multiset of the
signatures of all its operations, in any order, so a step that contains the same operations in
another place of another model has the same pattern.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Final

import msgspec

from neurald.hal.accounting.pacing import paced
from neurald.hal.errors import BadData
from neurald.hal.model.extension import code_of, extension_of
from neurald.hal.model.graph import Operand, Operation, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Lifetime, OperandType

#: How many different operations a pattern lists. One with more is `is_partial`.
MAX_OPERATIONS: Final = 512
_DIGEST_BYTES: Final = 16
#: Length of a readable name, and how many operations of a pattern have one.
_MAX_NAME: Final = 120
_MAX_NAMES: Final = 32
#: Larger constants are not part of a signature.
_MAX_VALUE_BYTES: Final = 256
_INTEGERS: Final = (
    OperandType.TENSOR_INT32,
    OperandType.TENSOR_INT64,
    OperandType.TENSOR_UINT32,
    OperandType.TENSOR_BOOL8,
)
#: How many operations `CrashPattern.text` names.
_SHOWN: Final = 3


class PatternOperation(msgspec.Struct, frozen=True, array_like=True):
    """An operation of a pattern.

    Attributes:
        digest: the digest of its signature, in hexadecimal.
        count: how often it occurs.
        name: the name for display; empty for most operations of a large pattern.
    """

    digest: str
    count: int
    name: str = ""


class CrashPattern(msgspec.Struct, frozen=True, array_like=True):
    """The multiset of the operations of a model or of a part of it.

    Attributes:
        operations: the operations in the order in which they occur first.
        is_partial: True if there are more operations than are listed.
    """

    operations: tuple[PatternOperation, ...]
    is_partial: bool = False

    @property
    def digest(self) -> str:
        """Identifies the pattern: 16 hexadecimal digits."""
        content = sorted((each.digest, each.count) for each in self.operations)
        return hashlib.blake2b(msgspec.msgpack.encode((content, self.is_partial)), digest_size=8).hexdigest()

    @property
    def text(self) -> str:
        """Returns its operations in words."""
        total = sum(each.count for each in self.operations)
        named = [each for each in self.operations if each.name]
        shown = [f"{each.count} x {each.name}" if each.count > 1 else each.name for each in named[:_SHOWN]]
        left = total - sum(each.count for each in named[:_SHOWN])
        if left > 0 or self.is_partial:
            shown.append(f"{left or 'some'} more")
        return ", ".join(shown)

    def check(self) -> None:
        """Raises an error unless its numbers and texts are within their limits.

        Raises:
            BadData: one is not.
        """
        hexadecimal = frozenset("0123456789abcdef")
        if not 0 < len(self.operations) <= MAX_OPERATIONS:
            raise BadData(
                f"a pattern has {len(self.operations)} operations; 1 to {MAX_OPERATIONS} are expected"
            )
        for each in self.operations:
            is_digest = len(each.digest) == 2 * _DIGEST_BYTES and hexadecimal.issuperset(each.digest)
            if not is_digest or not 0 < each.count < 1 << 31:
                raise BadData("a pattern has an operation with an invalid digest or count")
            if len(each.name) > _MAX_NAME or not each.name.isprintable():
                raise BadData("a pattern has an operation with an invalid name")


class ModelSignatures:
    """The signatures of all operations of a valid model.

    Args:
        model: only read here.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._known: dict[tuple[object, ...], str] = {}
        self._names: dict[str, tuple[Subgraph, Operation]] = {}
        self._graphs = [self._digests(graph) for graph in (model.main, *model.referenced)]

    def pattern(self) -> CrashPattern:
        """Returns the pattern of the model."""
        counts = Counter(digest for graph in self._graphs for digest in graph)
        operations = [
            PatternOperation(
                digest=digest,
                count=counts[digest],
                name=self._name(digest) if number < _MAX_NAMES else "",
            )
            for number, digest in enumerate(islice(counts, MAX_OPERATIONS))
        ]
        return CrashPattern(operations=tuple(operations), is_partial=len(counts) > MAX_OPERATIONS)

    def contains(self, pattern: CrashPattern) -> bool:
        """Returns whether the model contains all operations of a pattern."""
        counts = Counter(digest for graph in self._graphs for digest in graph)
        return all(counts[each.digest] >= each.count for each in pattern.operations)

    def positions(self, pattern: CrashPattern) -> frozenset[int]:
        """Returns the operations of the main graph that belong to a pattern.

        An IF or WHILE belongs to it if an operation of its graphs does.
        """
        if pattern.is_partial:
            return frozenset(range(len(self._model.main.operations)))
        wanted = {each.digest for each in pattern.operations}
        affected = {number for number, graph in enumerate(self._graphs) if not wanted.isdisjoint(graph)}
        return frozenset(
            position
            for position, operation in enumerate(self._model.main.operations)
            if self._graphs[0][position] in wanted or not affected.isdisjoint(self._reached(operation))
        )

    def _reached(self, operation: Operation) -> set[int]:
        """Returns the numbers of the graphs that an operation of the main graph runs."""
        reached: set[int] = set()
        pending = list(_subgraphs(self._model.main, operation))
        while pending:
            number = pending.pop() + 1
            if number not in reached:
                reached.add(number)
                graph = self._model.referenced[number - 1]
                for each in graph.operations:
                    pending += _subgraphs(graph, each)
        return reached

    def _digests(self, graph: Subgraph) -> list[str]:
        operands = [self._operand(operand) for operand in paced(graph.operands)]
        return [self._digest(graph, operands, operation) for operation in paced(graph.operations)]

    def _digest(self, graph: Subgraph, operands: list[tuple[object, ...]], operation: Operation) -> str:
        signature = (
            _type(operation.type),
            tuple(operands[index] for index in operation.inputs),
            tuple(operands[index][:2] for index in operation.outputs),
        )
        found = self._known.get(signature)
        if found is None:
            content = msgspec.msgpack.encode(signature)
            found = self._known[signature] = hashlib.blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()
            self._names[found] = graph, operation
        return found

    def _operand(self, operand: Operand) -> tuple[object, ...]:
        kind, dimensions = _type(operand.type), operand.dimensions
        shape = None if dimensions is None else tuple(map(int, dimensions))
        quant = operand.channel_quant
        axis = None if quant is None else int(quant.dimension)
        if operand.subgraph is not None:
            return kind, shape, "graph", len(self._model.referenced[operand.subgraph].operations)
        if not operand.lifetime.is_constant:
            is_absent = operand.lifetime is Lifetime.NO_VALUE
            return kind, shape, "absent" if is_absent else "value", axis
        return kind, shape, "constant", axis, self._value(operand)

    def _value(self, operand: Operand) -> bytes:
        if operand.type.is_tensor and operand.type not in _INTEGERS:
            return b""
        if operand.lifetime is Lifetime.CONSTANT_COPY:
            return operand.value if len(operand.value) <= _MAX_VALUE_BYTES else b""
        place = operand.location
        if place is None or place.length > _MAX_VALUE_BYTES:
            return b""
        return bytes(self._model.pools[place.pool].view(place.offset, place.length))

    def _name(self, digest: str) -> str:
        graph, operation = self._names[digest]
        tensors = [
            graph.operands[index] for index in operation.inputs if graph.operands[index].type.is_tensor
        ]
        text = " ".join([operation.type.name, *map(_operand_name, tensors)])
        text = "".join(each if each.isprintable() else "?" for each in text)
        return text if len(text) <= _MAX_NAME else f"{text[: _MAX_NAME - 4]} ..."


def _subgraphs(graph: Subgraph, operation: Operation) -> Iterable[int]:
    """Returns the numbers of the referenced graphs that an operation names."""
    numbers = (graph.operands[index].subgraph for index in operation.inputs)
    return [number for number in numbers if number is not None]


def _operand_name(operand: Operand) -> str:
    sizes = "?" if operand.dimensions is None else ",".join(str(size or "?") for size in operand.dimensions)
    return f"{operand.type.name.removeprefix('TENSOR_')}[{sizes}]"


def _type(kind: OperationType | OperandType) -> object:
    """Returns a process-independent representation of a type."""
    extension = extension_of(kind)
    return int(kind) if extension is None else (extension.name, code_of(kind))
