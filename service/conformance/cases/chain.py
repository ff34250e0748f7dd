"""Builds long-running models that apply one operation repeatedly."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from neurald.hal.device import Device
from neurald.hal.errors import BadData
from neurald.hal.memory.pool import HostMemory
from neurald.hal.model.graph import Location, Operand, Operation, Subgraph
from neurald.hal.model.model import Model
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FusedActivation, Lifetime, OperandType, PaddingScheme, byte_size
from neurald.hal.records import replace
from neurald.hal.validation.model_rules import operation_levels, validate_model

_FLOATS = (OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16)
_BYTES = (OperandType.TENSOR_QUANT8_ASYMM, OperandType.TENSOR_QUANT8_ASYMM_SIGNED)
_SIDE, _CHANNELS, _UNITS = 96, 32, 1024
_HUGE = (1, 1 << 14, 1 << 14, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainConstant:
    """A constant operand that all operations of a chain share.

    Attributes:
        operand: the operand.
        content: its bytes.
        is_weight: whether its first byte differs between models of a chain.
    """

    operand: Operand
    content: bytes
    is_weight: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationChain:
    """An operation whose output can be its input.

    Attributes:
        type: the type of the operation.
        value: the operand that the operation is applied to, and its output.
        uses: how often the value is an input of the operation.
        constants: the inputs that follow the value.
    """

    type: OperationType
    value: Operand
    uses: int = 1
    constants: tuple[ChainConstant, ...] = ()

    @property
    def name(self) -> str:
        """The name for messages."""
        return f"{self.type.name} of {self.value.type.name}"

    @property
    def weight_bytes(self) -> int:
        """The total size of the constants."""
        return sum(len(each.content) for each in self.constants)

    def model(self, count: int, number: int = 0) -> Model:
        """Returns a model of `count` operations in sequence.

        Args:
            count: the number of operations.
            number: selects the weights; models with different numbers differ.

        Raises:
            BadData: the model is not valid.
        """
        operands = [replace(self.value, lifetime=Lifetime.SUBGRAPH_INPUT)]
        content = bytearray()
        for constant in self.constants:
            data = bytearray(constant.content)
            if constant.is_weight:
                data[0] = number % 251
            location = Location(pool=0, offset=len(content), length=len(data))
            content += data + bytes(-len(data) % 64)
            if constant.operand.type.is_tensor:
                stored = replace(constant.operand, lifetime=Lifetime.CONSTANT_POOL, location=location)
            else:
                stored = replace(constant.operand, lifetime=Lifetime.CONSTANT_COPY, value=bytes(data))
            operands.append(stored)
        fixed = tuple(range(1, len(operands)))
        operations = []
        current = 0
        for position in range(count):
            is_last = position == count - 1
            lifetime = Lifetime.SUBGRAPH_OUTPUT if is_last else Lifetime.TEMPORARY_VARIABLE
            operands.append(replace(self.value, lifetime=lifetime))
            inputs = (*((current,) * self.uses), *fixed)
            current = len(operands) - 1
            operations.append(Operation(type=self.type, inputs=inputs, outputs=(current,)))
        graph = Subgraph(
            operands=tuple(operands), operations=tuple(operations), inputs=(0,), outputs=(current,)
        )
        pools = (HostMemory(bytes(content)),) if content else ()
        model = Model(main=graph, pools=pools)
        validate_model(model)
        return model

    def huge(self) -> Model | None:
        """Returns a model of one operation on tensors of about a gibibyte.

        Returns None if constants depend on the shape of the value.
        """
        if any(constant.is_weight for constant in self.constants):
            return None
        return replace(self, value=replace(self.value, dimensions=_HUGE)).model(1)


def chains() -> Iterator[OperationChain]:
    """Yields chains of several operations and types. Those that compute most come first."""
    for kind in (*_FLOATS, *_BYTES):
        yield _convolution(kind)
    for kind in (*_FLOATS, *_BYTES):
        yield _fully_connected(kind)
    unary = (
        "LOGISTIC",
        "TANH",
        "SOFTMAX",
        "EXP",
        "SQRT",
        "RELU",
        "FLOOR",
        "ABS",
        "HARD_SWISH",
        "NEG",
        "LOG",
        "SIN",
    )
    beta = ChainConstant(operand=Operand(type=OperandType.FLOAT32), content=np.float32(1).tobytes())
    beta16 = ChainConstant(operand=Operand(type=OperandType.FLOAT16), content=np.float16(1).tobytes())
    activation = ChainConstant(operand=Operand(type=OperandType.INT32), content=np.int32(0).tobytes())
    for name in unary:
        for kind in (*_FLOATS, *_BYTES, OperandType.TENSOR_INT32):
            fixed = (beta16 if kind is OperandType.TENSOR_FLOAT16 else beta,) if name == "SOFTMAX" else ()
            for quantization in _quantizations(kind):
                yield OperationChain(
                    type=OperationType[name], value=_value(kind, quantization), constants=fixed
                )
    for name in ("MUL", "ADD", "SUB", "DIV", "MAXIMUM", "MINIMUM", "POW"):
        fixed = () if name in ("MAXIMUM", "MINIMUM", "POW") else (activation,)
        for kind in (*_FLOATS, *_BYTES, OperandType.TENSOR_INT32):
            yield OperationChain(
                type=OperationType[name],
                value=_value(kind, _quantizations(kind)[-1]),
                uses=2,
                constants=fixed,
            )


def _quantizations(kind: OperandType) -> tuple[tuple[float, int], ...]:
    """Returns scales and zero points for a type: two that some operations require, and another."""
    if kind not in _BYTES:
        return ((0.0, 0),)
    shift = 0 if kind is OperandType.TENSOR_QUANT8_ASYMM else -128
    return ((1 / 256, shift), (1 / 128, 128 + shift), (0.05, 100 + shift))


def _value(kind: OperandType, quantization: tuple[float, int], side: int = 512, channels: int = 8) -> Operand:
    scale, zero_point = quantization
    return Operand(type=kind, dimensions=(1, side, side, channels), scale=scale, zero_point=zero_point)


def _weights(kind: OperandType, shape: tuple[int, ...]) -> ChainConstant:
    scale, zero_point = _quantizations(kind)[-1]
    generator = np.random.default_rng(1)
    if kind in _BYTES:
        info = np.iinfo(kind.dtype.name)
        array = generator.integers(info.min, info.max + 1, shape).astype(kind.dtype)
    else:
        # The operation then keeps the magnitude of the value.
        array = generator.normal(scale=1 / np.sqrt(np.prod(shape[1:])), size=shape).astype(kind.dtype)
    operand = Operand(type=kind, dimensions=shape, scale=scale, zero_point=zero_point)
    return ChainConstant(operand=operand, content=array.tobytes(), is_weight=True)


def _bias(kind: OperandType, count: int) -> ChainConstant:
    is_quantized = kind in _BYTES
    scale = _quantizations(kind)[-1][0]
    operand = Operand(
        type=OperandType.TENSOR_INT32 if is_quantized else kind,
        dimensions=(count,),
        scale=float(np.float32(scale) * np.float32(scale)) if is_quantized else 0.0,
    )
    return ChainConstant(operand=operand, content=bytes(byte_size(operand.type, (count,))))


def _int32(value: int) -> ChainConstant:
    return ChainConstant(operand=Operand(type=OperandType.INT32), content=np.int32(value).tobytes())


def _convolution(kind: OperandType) -> OperationChain:
    return OperationChain(
        type=OperationType.CONV_2D,
        value=_value(kind, _quantizations(kind)[-1], _SIDE, _CHANNELS),
        constants=(
            _weights(kind, (_CHANNELS, 3, 3, _CHANNELS)),
            _bias(kind, _CHANNELS),
            *map(_int32, (PaddingScheme.SAME, 1, 1, FusedActivation.NONE)),
        ),
    )


def _fully_connected(kind: OperandType) -> OperationChain:
    scale, zero_point = _quantizations(kind)[-1]
    return OperationChain(
        type=OperationType.FULLY_CONNECTED,
        value=Operand(type=kind, dimensions=(256, _UNITS), scale=scale, zero_point=zero_point),
        constants=(_weights(kind, (_UNITS, _UNITS)), _bias(kind, _UNITS), _int32(FusedActivation.NONE)),
    )


def supported_chains(device: Device) -> Iterator[OperationChain]:
    """Yields the chains that a device supports."""
    for chain in chains():
        try:
            model = chain.model(1)
        except BadData:
            continue
        if max(operation_levels(model)) <= device.feature_level and all(
            verdict.ok for verdict in device.supported_operations(model)
        ):
            yield chain


def heavy_models(device: Device) -> tuple[Callable[[int], Model], int] | None:
    """Returns a function that builds different models with large constants.

    Returns:
        The function, which gets the number of the model, and the size of the constants in bytes;
        None if the device supports no such model.
    """
    best = max(supported_chains(device), key=lambda chain: chain.weight_bytes, default=None)
    if best is None or not best.weight_bytes > 1 << 16:
        return None
    return lambda number: best.model(1, number), best.weight_bytes
