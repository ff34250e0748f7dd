"""The five configurations of the sample device: performance and supported operations.

They are those of Android NN's sample drivers (`driver/sample`): a fast float device, a power-saving
one, one for 8-bit models, one with three operations, and one that supports everything and is never
preferred.
"""

from collections.abc import Callable
from dataclasses import dataclass

from neurald.drivers.sample.extension import EXTENSION
from neurald.hal.device import Capabilities, Performance
from neurald.hal.model.extension import Extension
from neurald.hal.types import Lifetime, OperandType, Operation, OperationType, Subgraph

#: Returns the reason why an operation of a graph is not supported, or "" if it is.
SupportRule = Callable[[Operation, Subgraph], str]

_UNIT = Performance(exec_time=1.0, power_usage=1.0)
_FLOAT32 = (OperandType.FLOAT32, OperandType.TENSOR_FLOAT32)
_QUANT8 = (OperandType.TENSOR_QUANT8_ASYMM, OperandType.TENSOR_QUANT8_ASYMM_SIGNED)
_MINIMAL = (OperationType.ADD, OperationType.CONCATENATION, OperationType.CONV_2D)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleConfig:
    """Configuration of a sample device.

    Attributes:
        name: the name of the device.
        capabilities: the performance that it claims.
        unsupported_reason: returns the reason why an operation is not supported, or "".
        extensions: the vendor extensions that it supports.
    """

    name: str
    capabilities: Capabilities
    unsupported_reason: SupportRule
    extensions: tuple[Extension, ...] = ()


def uniform_capabilities(performance: Performance) -> Capabilities:
    """Returns capabilities with the same performance for everything."""
    return Capabilities(
        operand_performance=dict.fromkeys(OperandType, performance),
        relaxed_float32_scalar=performance,
        relaxed_float32_tensor=performance,
        if_performance=performance,
        while_performance=performance,
    )


def float_capabilities(float32: Performance, relaxed: Performance) -> Capabilities:
    """Returns capabilities with this performance for float32, and that of the CPU otherwise.

    Args:
        float32: the performance for float32.
        relaxed: the performance for float32 that may be computed in float16.
    """
    return Capabilities(
        operand_performance=dict.fromkeys(OperandType, _UNIT) | dict.fromkeys(_FLOAT32, float32),
        relaxed_float32_scalar=relaxed,
        relaxed_float32_tensor=relaxed,
        if_performance=_UNIT,
        while_performance=_UNIT,
    )


def supports_all(operation: Operation, graph: Subgraph) -> str:
    """Returns "", since every operation is supported."""
    return ""


def _supports_types(types: tuple[OperandType, ...], description: str) -> SupportRule:
    """Returns a rule that supports operations on tensors of some types.

    Other tensors of the operation may also have one of the control types.

    Args:
        types: the supported types.
        description: the supported types, for the reason.
    """

    def unsupported_reason(operation: Operation, graph: Subgraph) -> str:
        if operation.type in (OperationType.IF, OperationType.WHILE):
            return f"{operation.type.name} is control flow, which is not supported"
        tensors = [
            graph.operands[index]
            for index in (*operation.inputs, *operation.outputs)
            if graph.operands[index].type.is_tensor
            and graph.operands[index].lifetime is not Lifetime.NO_VALUE
        ]
        if not any(operand.type in types for operand in tensors):
            found = tensors[0].type.name if tensors else "no tensor"
            return f"{operation.type.name} of {found}; expected {description}"
        for operand in tensors:
            if operand.type not in (*types, *_CONTROL_TYPES):
                return f"{operation.type.name} with {operand.type.name}; expected {description}"
        return ""

    return unsupported_reason


#: Types of axes, indices, biases, conditions and per-channel weights, which occur beside tensors of
#: other types.
_CONTROL_TYPES = (
    OperandType.TENSOR_INT32,
    OperandType.TENSOR_INT64,
    OperandType.TENSOR_BOOL8,
    OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL,
)

_supports_floats = _supports_types((OperandType.TENSOR_FLOAT32,), "tensors of TENSOR_FLOAT32")


def _supports_few(operation: Operation, graph: Subgraph) -> str:
    if operation.type not in _MINIMAL:
        return f"{operation.type.name} is not one of {', '.join(each.name for each in _MINIMAL)}"
    return _supports_floats(operation, graph)


def _performance(exec_time: float, power_usage: float) -> Performance:
    return Performance(exec_time=exec_time, power_usage=power_usage)


FLOAT_FAST = SampleConfig(
    name="sample-float-fast",
    capabilities=float_capabilities(_performance(0.8, 1.2), _performance(0.7, 1.1)),
    unsupported_reason=_supports_floats,
)
FLOAT_SLOW = SampleConfig(
    name="sample-float-slow",
    capabilities=float_capabilities(_performance(1.3, 0.7), _performance(1.2, 0.6)),
    unsupported_reason=_supports_floats,
)
QUANT = SampleConfig(
    name="sample-quant",
    capabilities=uniform_capabilities(_performance(50.0, 1.0)),
    unsupported_reason=_supports_types(_QUANT8, "8-bit asymmetric tensors"),
)
MINIMAL = SampleConfig(
    name="sample-minimal",
    capabilities=float_capabilities(_performance(0.4, 0.5), _performance(0.4, 0.5)),
    unsupported_reason=_supports_few,
)
ALL = SampleConfig(
    name="sample-all",
    capabilities=uniform_capabilities(_performance(1.1, 1.1)),
    unsupported_reason=supports_all,
    extensions=(EXTENSION,),
)
