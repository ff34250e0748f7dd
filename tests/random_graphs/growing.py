"""Graph that grows by one operation at a time, which is checked and evaluated when added."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from random_graphs.reference import Evaluation, call_of

from neurald.hal.errors import BadData, OpFailed
from neurald.hal.model.elements import array_to_store
from neurald.hal.model.graph import Operand, Operation, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import Lifetime, OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array, UnknownValue
from neurald.hal.records import replace

#: Values with more elements are not used further.
_MOST_ELEMENTS = 4000
#: Values with larger elements are rarely used: they lead to infinities.
_LARGE = 1e4
#: Reasons why an operation cannot be added.
REFUSALS = (BadData, OpFailed, UnknownValue)


@dataclass(slots=True)
class Making:
    """Shared state of the graphs of a model under construction."""

    rng: random.Random
    referenced: list[Subgraph] = field(default_factory=list)

    def generator(self) -> np.random.Generator:
        """Creates a generator of random arrays."""
        return np.random.default_rng(self.rng.getrandbits(64))


class Growing:
    """Operands and operations, with the value of every operand.

    Args:
        making: the model's state.
        most_inputs: the limit on inputs.
    """

    def __init__(self, making: Making, most_inputs: int = 5) -> None:
        self.making = making
        self.rng = making.rng
        self.operands: list[Operand] = []
        self.values: dict[int, Array] = {}
        self.operations: list[Operation] = []
        self.inputs: list[int] = []
        #: Values that operations may read, and those that none has read yet.
        self.readable: list[int] = []
        self.unread: set[int] = set()
        self._most_inputs = most_inputs

    def operand(self, operand: Operand, value: Array | None = None) -> int:
        """Adds an operand; returns its index."""
        self.operands.append(operand)
        index = len(self.operands) - 1
        if value is not None:
            self.values[index] = value
        return index

    def constant(self, operand: Operand, value: Array) -> int:
        """Adds a constant of the type and quantisation of an operand."""
        array = np.asarray(value, operand.type.dtype)
        stored = array_to_store(array, operand.type).tobytes()
        constant = replace(
            operand, dimensions=array.shape, lifetime=Lifetime.CONSTANT_COPY, value=stored, location=None
        )
        return self.operand(constant, array)

    def number(self, value: bool | int | float) -> int:
        """Adds a scalar of the corresponding type."""
        kind = {bool: OperandType.BOOL, int: OperandType.INT32}.get(type(value), OperandType.FLOAT32)
        return self.constant(Operand(type=kind), np.asarray(value))

    def integers(self, values: Sequence[int]) -> int:
        """Adds a TENSOR_INT32 of rank 1."""
        return self.constant(Operand(type=OperandType.TENSOR_INT32), np.array(list(values), np.int32))

    def input(self, operand: Operand, value: Array) -> int:
        """Adds an input of the graph.

        A constant if there are enough inputs, or the value is empty.
        """
        if len(self.inputs) >= self._most_inputs or not value.size:
            return self.constant(operand, value)
        entering = replace(operand, dimensions=value.shape, lifetime=Lifetime.SUBGRAPH_INPUT, value=b"")
        index = self.operand(entering, value)
        self.inputs.append(index)
        self.readable.append(index)
        return index

    def read(self, index: int) -> int:
        """Records that something reads a value."""
        self.unread.discard(index)
        return index

    def add(self, kind: OperationType, inputs: Sequence[int], *outputs: Operand) -> list[int]:
        """Adds an operation and evaluates it; returns the indices of its outputs.

        Raises:
            BadData, OpFailed, UnknownValue: the call is not valid. The graph is unchanged.
        """
        first = len(self.operands)
        self.operands += outputs
        indexes = range(first, first + len(outputs))
        operation = Operation(type=kind, inputs=tuple(inputs), outputs=tuple(indexes))
        definition = DEFINITIONS[kind]
        try:
            binding = definition.bind(operation, self.operands)
            runner = Evaluation(Model(main=_NOTHING, referenced=tuple(self.making.referenced)))
            call = call_of(binding, self.operands, self.values, self.making.referenced, runner)
            definition.check(call)
            # The output shapes of control flow are only known after running it.
            if kind not in (OperationType.IF, OperationType.WHILE):
                definition.output_shapes(call)
            with np.errstate(all="ignore"):
                results = definition.reference(call)
        except REFUSALS:
            del self.operands[first:]
            raise
        self.operations.append(operation)
        for index, result in zip(indexes, results, strict=True):
            value = np.ascontiguousarray(result, self.operands[index].type.dtype).reshape(np.shape(result))
            self.values[index] = value
            self.operands[index] = replace(self.operands[index], dimensions=value.shape)
            self.readable.append(index)
            self.unread.add(index)
        return list(indexes)

    def attempt(self) -> "_Mark":
        """Returns a mark for `undo`."""
        return _Mark(
            operands=len(self.operands),
            operations=len(self.operations),
            inputs=len(self.inputs),
            readable=len(self.readable),
            unread=frozenset(self.unread),
            referenced=len(self.making.referenced),
        )

    def undo(self, mark: "_Mark") -> None:
        """Removes everything that was added since the mark."""
        del self.operands[mark.operands :]
        del self.operations[mark.operations :]
        del self.inputs[mark.inputs :]
        del self.readable[mark.readable :]
        del self.making.referenced[mark.referenced :]
        self.unread = set(mark.unread)
        self.values = {index: value for index, value in self.values.items() if index < mark.operands}

    def usable(self) -> list[int]:
        """Returns the values that are worth using."""
        return [index for index in self.readable if _is_usable(self.values[index])]

    def finish(self, outputs: Sequence[int]) -> Subgraph:
        """Returns the graph with these outputs, which must not be inputs or constants."""
        ends = dict.fromkeys(outputs, Lifetime.SUBGRAPH_OUTPUT)
        operands = [
            replace(operand, lifetime=ends.get(index, operand.lifetime))
            for index, operand in enumerate(self.operands)
        ]
        return Subgraph(
            operands=tuple(operands),
            operations=tuple(self.operations),
            inputs=tuple(self.inputs),
            outputs=tuple(outputs),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mark:
    operands: int
    operations: int
    inputs: int
    readable: int
    unread: frozenset[int]
    referenced: int


_NOTHING = Subgraph(operands=(), operations=(), inputs=(), outputs=())


def _is_usable(value: Array) -> bool:
    if value.size > _MOST_ELEMENTS:
        return False
    if value.dtype.kind in "fc" and value.size:
        return bool(np.all(np.isfinite(value)) and np.abs(value).max() < _LARGE)
    return True
