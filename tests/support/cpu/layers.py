"""Builds models of one operation, and compares the first tier with references."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from support.cpu.first_tier import prepared, results

import neurald as nd
from neurald.drivers.cpu.prepared_model import CpuPreparedModel
from neurald.hal.execution.reference_model import ReferenceModel
from neurald.hal.records import replace

FLOAT, INT32 = nd.OperandType.TENSOR_FLOAT32, nd.OperandType.TENSOR_INT32
UNSIGNED, SIGNED = nd.OperandType.TENSOR_QUANT8_ASYMM, nd.OperandType.TENSOR_QUANT8_ASYMM_SIGNED
PER_CHANNEL = nd.OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL
BOOL = nd.OperandType.TENSOR_BOOL8
SHORT, INT64 = nd.OperandType.TENSOR_QUANT16_SYMM, nd.OperandType.TENSOR_INT64
Array = np.ndarray[Any, Any]


def values(rng: np.random.Generator, kind: nd.OperandType, shape: Sequence[int]) -> Array:
    if kind is FLOAT:
        return np.asarray(rng.normal(size=shape), np.float32)
    if kind is BOOL:
        return np.asarray(rng.integers(0, 2, shape), bool)
    info: Any = np.iinfo(kind.dtype.name)
    return np.asarray(rng.integers(info.min, info.max + 1, shape), kind.dtype)


class LayerBuilder:
    """Builds a model with one input and constants.

    Args:
        seed: of the constants.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.builder = nd.ModelBuilder()

    def operand(self, kind: nd.OperandType, shape: Sequence[int], **more: Any) -> int:
        quantized = kind in (UNSIGNED, SIGNED) and "scale" not in more
        if quantized:
            low = 0 if kind is UNSIGNED else -128
            more |= {
                "scale": float(self.rng.uniform(0.01, 0.2)),
                "zero_point": int(self.rng.integers(low, low + 256)),
            }
        index = self.builder.add_operand(kind, shape, **more)
        if not shape:
            # The builder takes it as a tensor of any rank.
            operands = self.builder._operands
            operands[index] = replace(operands[index], dimensions=())
        return index

    def constant(self, kind: nd.OperandType, array: Array, **more: Any) -> int:
        index = self.operand(kind, array.shape, **more)
        self.builder.set_operand_value(index, array)
        return index

    def scalar(self, value: Any, kind: nd.OperandType = nd.OperandType.INT32) -> int:
        index = self.builder.add_operand(kind)
        self.builder.set_operand_value(index, value)
        return index

    def weights(
        self, kind: nd.OperandType, filter_: nd.OperandType, shape: Sequence[int], axis: int
    ) -> list[int]:
        """Adds input scale, filter and bias; returns the operands of filter and bias."""
        channels = shape[axis]
        if kind is FLOAT:
            return [
                self.constant(FLOAT, values(self.rng, FLOAT, shape)),
                self.constant(FLOAT, values(self.rng, FLOAT, (channels,))),
            ]
        bias = self.rng.integers(-5000, 5000, channels).astype(np.int64 if kind is SHORT else np.int32)
        type_of_bias = INT64 if kind is SHORT else INT32
        if filter_ is PER_CHANNEL:
            quant = (axis, self.rng.uniform(0.001, 0.01, channels).tolist())
            numbers = self.rng.integers(-127, 128, shape).astype(np.int8)
            return [
                self.constant(PER_CHANNEL, numbers, channel_quant=quant),
                self.constant(type_of_bias, bias, scale=0.0),
            ]
        scale = 0.005
        numbers = values(self.rng, filter_, shape)
        zero_point = int(self.rng.integers(100, 150)) if filter_ is UNSIGNED else 0
        return [
            self.constant(filter_, numbers, scale=scale, zero_point=zero_point),
            self.constant(type_of_bias, bias, scale=0.0 if kind is SHORT else self.input_scale * scale),
        ]

    input_scale = 0.05

    def given(self, kind: nd.OperandType, shape: Sequence[int]) -> int:
        if kind is FLOAT:
            return self.operand(FLOAT, shape)
        if kind is SHORT:
            return self.operand(SHORT, shape, scale=self.input_scale)
        low = 0 if kind is UNSIGNED else -128
        return self.operand(
            kind, shape, scale=self.input_scale, zero_point=int(self.rng.integers(low, low + 256))
        )

    def model(
        self, operation: nd.OperationType, inputs: list[int], output: int, given: Sequence[int]
    ) -> nd.Model:
        self.builder.add_operation(operation, inputs, [output])
        self.builder.identify_inputs_and_outputs(list(given), [output])
        return self.builder.finish()


def check(
    model: nd.Model,
    target: str,
    seed: int = 0,
    threads: int = 1,
    rtol: float = 1e-4,
    inputs: Sequence[Array] | None = None,
) -> None:
    """Compares the first tier, which must run all of a model, with references."""
    rng = np.random.default_rng(seed)
    kinds = [model.main.operands[index] for index in model.main.inputs]
    if inputs is None:
        inputs = [values(rng, each.type, each.dimensions or ()) for each in kinds]
    found = prepared(model, target, threads)
    assert isinstance(found, CpuPreparedModel), "an operation has no kernel"
    expected = results(ReferenceModel(model), model, list(inputs))
    for one, other in zip(results(found, model, list(inputs)), expected, strict=True):
        if one.dtype == np.float32:
            np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-4)
        else:
            np.testing.assert_array_equal(one, other)
