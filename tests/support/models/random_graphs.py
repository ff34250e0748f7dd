"""Random graphs of element-wise operations, and drivers with disjoint sets of operations."""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
from support.devices.misbehaving import SampleDevice

import neurald as nd
from neurald.hal.device import Verdict
from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.graph import Operation

MAX_OPERATIONS = 100

T = nd.OperationType
FUSED = (T.ADD, T.SUB, T.MUL)
BINARY = (T.MAXIMUM, T.MINIMUM)
UNARY = (T.RELU, T.RELU1, T.RELU6, T.TANH, T.LOGISTIC, T.ABS, T.NEG, T.FLOOR)

#: A unit of support: an operation with one fused activation (None if it has none).
Signature = tuple[nd.OperationType, int | None]
SIGNATURES: list[Signature] = [
    *((kind, activation) for kind in FUSED for activation in range(4)),
    *((kind, None) for kind in (*BINARY, *UNARY)),
]


def signature(model: nd.Model, operation: Operation) -> Signature:
    if operation.type not in FUSED:
        return operation.type, None
    value = model.constant(model.main.operands[operation.inputs[2]])
    assert value is not None
    return operation.type, int(value)


class Driver(SampleDevice):
    """A device that supports some signatures only."""

    def __init__(self, name: str, signatures: Sequence[Signature]) -> None:
        super().__init__(name)
        self._signatures = frozenset(signatures)

    def supported_operations(self, model: nd.Model) -> Sequence[Verdict]:
        return tuple(
            Verdict(ok=signature(model, operation) in self._signatures, reason="not one of its signatures")
            for operation in model.main.operations
        )


class RandomModel:
    """A graph of element-wise operations on matrices of one shape."""

    def __init__(self, rng: random.Random) -> None:
        self.shape = (rng.randint(1, 8), rng.randint(1, 8))
        self._rng = rng
        self._builder = nd.ModelBuilder()
        self._pool = HostMemory(self._values(8))
        inputs = [self._operand(self.shape) for _ in range(rng.randint(1, 4))]
        readable = list(inputs)
        unread: list[int] = []
        outputs: list[int] = []
        for _ in range(rng.randint(2, MAX_OPERATIONS)):
            output = self._operation(readable, unread)
            # A dead operation: its output is neither read nor an output of the model.
            if rng.random() >= 0.2:
                readable.append(output)
                unread.append(output)
                if rng.random() < 0.1:
                    outputs.append(output)
        outputs += [index for index in unread if index not in outputs] or [self._operation(readable, unread)]
        self._builder.identify_inputs_and_outputs(inputs, outputs)
        self.inputs = len(inputs)
        self.model = self._builder.finish()

    def _values(self, count: int) -> "np.ndarray[Any, Any]":
        generator = np.random.default_rng(self._rng.randrange(2**32))
        return generator.uniform(-3, 3, (count, *self.shape)).astype(np.float32)

    def _operand(self, shape: tuple[int, ...]) -> int:
        return self._builder.add_operand(nd.OperandType.TENSOR_FLOAT32, shape)

    def _intermediate(self) -> int:
        rows, columns = self.shape
        if self._rng.random() < 0.25:
            return self._operand(self._rng.choice([(0, columns), (rows, 0), (0, 0), ()]))
        return self._operand(self.shape)

    def _argument(self, readable: list[int], unread: list[int]) -> int:
        if self._rng.random() < 0.15:
            constant = self._operand(self.shape)
            size = self.shape[0] * self.shape[1] * 4
            if self._rng.random() < 0.5:
                self._builder.set_operand_value(constant, self._values(1)[0])
            else:
                offset = self._rng.randrange(8) * size
                self._builder.set_operand_value_from_memory(constant, self._pool, offset, size)
            return constant
        index = self._rng.choice(readable)
        if index in unread:
            unread.remove(index)
        return index

    def _operation(self, readable: list[int], unread: list[int]) -> int:
        kind, activation = self._rng.choice(SIGNATURES)
        inputs = [self._argument(readable, unread)]
        if kind not in UNARY:
            inputs.append(self._argument(readable, unread))
        if activation is not None:
            scalar = self._builder.add_operand(nd.OperandType.INT32)
            self._builder.set_operand_value(scalar, activation)
            inputs.append(scalar)
        output = self._intermediate()
        self._builder.add_operation(kind, inputs, [output])
        return output

    def arrays(self) -> list["np.ndarray[Any, Any]"]:
        return list(self._values(self.inputs))
