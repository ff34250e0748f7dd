"""Builds models whose operations have one result each."""

from collections.abc import Sequence
from typing import Any

import numpy as np

import neurald as nd

FLOAT, INT8, INT32 = (
    nd.OperandType.TENSOR_FLOAT32,
    nd.OperandType.TENSOR_QUANT8_ASYMM_SIGNED,
    nd.OperandType.TENSOR_INT32,
)
Shape = tuple[int, ...]


class Net:
    """Builds a model whose operations have one result each."""

    def __init__(self) -> None:
        self.builder = nd.ModelBuilder()
        self._inputs: list[int] = []
        self._random = np.random.default_rng(1)

    def input(self, shape: Shape, kind: nd.OperandType = FLOAT, scale: float = 0.0, zero: int = 0) -> int:
        self._inputs.append(self.builder.add_operand(kind, shape, scale=scale, zero_point=zero))
        return self._inputs[-1]

    def constant(self, array: Any, kind: nd.OperandType = FLOAT, scale: float = 0.0) -> int:
        values = np.asarray(array, kind.dtype)
        index = self.builder.add_operand(kind, values.shape, scale=scale)
        self.builder.set_operand_value(index, values)
        return index

    def floats(self, *shape: int) -> int:
        return self.constant(self._random.standard_normal(shape) / 4)

    def bytes(self, *shape: int, scale: float) -> int:
        return self.constant(self._random.integers(-127, 128, shape), INT8, scale)

    def number(self, value: float, kind: nd.OperandType = nd.OperandType.INT32) -> int:
        index = self.builder.add_operand(kind)
        self.builder.set_operand_value(index, value)
        return index

    def add(
        self,
        operation: nd.OperationType,
        inputs: Sequence[int],
        shape: Shape,
        kind: nd.OperandType = FLOAT,
        scale: float = 0.0,
        zero: int = 0,
    ) -> int:
        result = self.builder.add_operand(kind, shape, scale=scale, zero_point=zero)
        self.builder.add_operation(operation, inputs, [result])
        return result

    def finish(self, *outputs: int) -> nd.Model:
        self.builder.identify_inputs_and_outputs(self._inputs, outputs)
        return self.builder.finish()
