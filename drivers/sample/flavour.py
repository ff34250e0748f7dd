"""The five flavours of the sample device, with their supported operations.

Performance and supported operations are those of Android NN's sample drivers (`driver/sample`): a
fast float device, a power-saving one, one for 8-bit models, one with three operations, and one that
supports everything and is never preferred.
"""

from collections.abc import Callable
from dataclasses import dataclass

from neurald.drivers.sample.extension import EXTENSION
from neurald.hal.device import Capabilities, Performance
from neurald.hal.model.extension import Extension
from neurald.hal.types import Lifetime, OperandType, Operation, OperationType, Subgraph

#: Returns the reason why an operation of a graph is not supported, for people; "" if it is.
UnsupportedReason = Callable[[Operation, Subgraph], str]

_UNIT = Performance(exec_time=1.0, power_usage=1.0)
_FLOAT32 = (OperandType.FLOAT32, OperandType.TENSOR_FLOAT32)
_QUANT8 = (OperandType.TENSOR_QUANT8_ASYMM, OperandType.TENSOR_QUANT8_ASYMM_SIGNED)
_MINIMAL = (OperationType.ADD, OperationType.CONCATENATION, OperationType.CONV_2D)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleConfig:
    """Differences between the sample devices.

    Attributes:
        name: the name of the device.
        capabilities: the claimed performance.
        unsupported_reason: returns the reason why an operation is not supported.
        extensions: the vendor extensions that it supports.
    """

    name: str
    capabilities: Capabilities
    unsupported_reason: UnsupportedReason
    extensions: tuple[Extension, ...] = ()


def uniform(performance: Performance) -> Capabilities:
    """Returns the same time and power for everything."""
    return Capabilities(
        operand_performance=dict.fromkeys(OperandType, performance),
        relaxed_float32_scalar=performance,
        relaxed_float32_tensor=performance,
        if_performance=performance,
        while_performance=performance,
    )


def floating(float32: Performance, relaxed: Performance) -> Capabilities:
    """Returns the given performance for float32, strict and relaxed; all else equals the CPU."""
    return Capabilities(
        operand_performance=dict.fromkeys(OperandType, _UNIT) | dict.fromkeys(_FLOAT32, float32),
        relaxed_float32_scalar=relaxed,
        relaxed_float32_tensor=relaxed,
        if_performance=_UNIT,
        while_performance=_UNIT,
    )


def takes_all(operation: Operation, graph: Subgraph) -> str:
    """Supports every operation."""
    return ""


def _of_types(values: tuple[OperandType, ...], words: str) -> UnsupportedReason:
    """Supports operations whose tensors have these types or control types.

    Control types are those of shapes, axes, indices, conditions and per-channel weights.
    """

    def unsupported_reason(operation: Operation, graph: Subgraph) -> str:
        if operation.type in (OperationType.IF, OperationType.WHILE):
            return f"{operation.type.name} is control flow; it takes {words}"
        tensors = [
            graph.operands[index]
            for index in (*operation.inputs, *operation.outputs)
            if graph.operands[index].type.is_tensor
            and graph.operands[index].lifetime is not Lifetime.NO_VALUE
        ]
        if not any(operand.type in values for operand in tensors):
            found = tensors[0].type.name if tensors else "no tensor"
            return f"{operation.type.name} of {found}; it takes {words}"
        for operand in tensors:
            if operand.type not in (*values, *_STEERING):
                return f"{operation.type.name} with {operand.type.name}; it takes {words}"
        return ""

    return unsupported_reason


#: Types of indices, biases, conditions and per-channel weights, which accompany tensors of other
#: types.
_STEERING = (
    OperandType.TENSOR_INT32,
    OperandType.TENSOR_INT64,
    OperandType.TENSOR_BOOL8,
    OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL,
)

_takes_floats = _of_types((OperandType.TENSOR_FLOAT32,), "TENSOR_FLOAT32 only")


def _takes_few(operation: Operation, graph: Subgraph) -> str:
    if operation.type not in _MINIMAL:
        return f"{operation.type.name} is not one of {', '.join(each.name for each in _MINIMAL)}"
    return _takes_floats(operation, graph)


def _performance(exec_time: float, power_usage: float) -> Performance:
    return Performance(exec_time=exec_time, power_usage=power_usage)


FLOAT_FAST = SampleConfig(
    name="sample-float-fast",
    capabilities=floating(_performance(0.8, 1.2), _performance(0.7, 1.1)),
    unsupported_reason=_takes_floats,
)
FLOAT_SLOW = SampleConfig(
    name="sample-float-slow",
    capabilities=floating(_performance(1.3, 0.7), _performance(1.2, 0.6)),
    unsupported_reason=_takes_floats,
)
QUANT = SampleConfig(
    name="sample-quant",
    capabilities=uniform(_performance(50.0, 1.0)),
    unsupported_reason=_of_types(_QUANT8, "8-bit asymmetric tensors only"),
)
MINIMAL = SampleConfig(
    name="sample-minimal",
    capabilities=floating(_performance(0.4, 0.5), _performance(0.4, 0.5)),
    unsupported_reason=_takes_few,
)
ALL = SampleConfig(
    name="sample-all",
    capabilities=uniform(_performance(1.1, 1.1)),
    unsupported_reason=takes_all,
    extensions=(EXTENSION,),
)
