"""Operations that are added to a flat graph to compute lengths and indices for another one."""

from collections.abc import Callable, Sequence

import numpy as np

from neurald.drivers.compiler.frontend.control_flow.graph.flat_graph import FlatGraph
from neurald.drivers.compiler.ir.value import Shape
from neurald.hal.model.graph import Operand, Operation
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FusedActivation, Lifetime, OperandType
from neurald.hal.operations import DEFINITIONS

#: Adds an operation whose results have these shapes.
Append = Callable[[Operation, Sequence[Shape]], None]


class AddedOperations:
    """Adds operations and constants.

    Args:
        flat: the graph.
        append: adds an operation to it.
        number: the number of the operation on whose behalf they are added, for messages.
    """

    def __init__(self, flat: FlatGraph, append: Append, number: int | None) -> None:
        self._flat, self._append, self._number = flat, append, number

    def constant(self, value: object, kind: OperandType) -> int:
        """Adds a constant, and returns its operand."""
        array = np.array(value, kind.dtype)
        return self._flat.add_operand(
            Operand(type=kind, dimensions=array.shape, lifetime=Lifetime.CONSTANT_COPY, value=array.tobytes())
        )

    def no_activation(self) -> int:
        """Adds the constant for no fused activation."""
        return self.constant(FusedActivation.NONE, OperandType.INT32)

    def limited(self, index: int) -> int:
        """Returns integers as INT32; those that do not fit become the closest ones that do."""
        kind = self._flat.operands[index].type
        if kind is OperandType.TENSOR_INT32:
            return index
        limits = np.iinfo(np.int32)
        for each, limit in (
            (OperationType.TFLITE_MINIMUM, limits.max),
            (OperationType.TFLITE_MAXIMUM, limits.min),
        ):
            index = self.computed(each, (index, self.constant([limit], kind)), kind)
        return self.computed(OperationType.TFLITE_CAST, (index,), OperandType.TENSOR_INT32)

    def computed(self, kind: OperationType, inputs: Sequence[int], result: OperandType) -> int:
        """Adds an operation, and returns its result."""
        return self.computed_as(kind, inputs, Operand(type=result, dimensions=None))

    def computed_as(self, kind: OperationType, inputs: Sequence[int], result: Operand) -> int:
        """Adds an operation whose result is like an operand of any shape, and returns it."""
        output = self._flat.add_operand(result)
        self.add(kind, inputs, output)
        return output

    def add(self, kind: OperationType, inputs: Sequence[int], output: int) -> None:
        """Adds an operation with an existing operand as its result."""
        added = Operation(type=kind, inputs=tuple(inputs), outputs=(output,), number=self._number)
        self._append(added, DEFINITIONS[kind].output_shapes(self._flat.call(added)))
