"""Legalization rules and the helpers that they share.

A rule reads an operator's inputs and options and emits operations. The definition of an operation
decides whether it accepts the operands; a rule raises UnsupportedFeature only for conditions that
the definition cannot check.
"""

from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import FusedActivation, OperandType, PaddingScheme
from neurald.hal.operations.machinery.signature import MAX_RANK
from neurald.hal.wording import counted, inputs_and_outputs
from neurald.runtime.tflite.file.options import OPTIONS, Options, options_name
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import ActivationFunctionType, Padding
from neurald.runtime.tflite.graph.operands import UnsupportedFeature
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder

LegalizationRule = Callable[[SubgraphBuilder, Operator, Options], None]

_FUSED = {
    ActivationFunctionType.NONE: FusedActivation.NONE,
    ActivationFunctionType.RELU: FusedActivation.RELU,
    ActivationFunctionType.RELU_N1_TO_1: FusedActivation.RELU1,
    ActivationFunctionType.RELU6: FusedActivation.RELU6,
}

_PADDINGS = {Padding.SAME: PaddingScheme.SAME, Padding.VALID: PaddingScheme.VALID}


def padding(graph: SubgraphBuilder, options: Options) -> int:
    """Returns the scalar operand for the padding in the options."""
    scheme = _PADDINGS.get(options["padding"])
    if scheme is None:
        raise UnsupportedFeature(f"padding {options['padding']} is unknown")
    return graph.int32(scheme)


def finish_with(
    graph: SubgraphBuilder, activation: int, result: int
) -> tuple[FusedActivation, OperationType | None, int]:
    """Splits off a TFLite activation that the operation writing `result` cannot fuse.

    Returns:
        The activation to fuse, the operation that must follow (if any), and the operand to write
            instead of `result`.
    """
    fused = _FUSED.get(activation)
    if fused is not None:
        return fused, None, result
    if activation != ActivationFunctionType.TANH:
        name = "SIGN_BIT" if activation == ActivationFunctionType.SIGN_BIT else activation
        raise UnsupportedFeature(f"the fused activation {name} is not supported")
    if is_quantized(graph.operand(result)):
        raise UnsupportedFeature("the fused activation TANH of a quantised operator is not supported")
    return FusedActivation.NONE, OperationType.TANH, graph.temporary(result)


def emit_activated(
    graph: SubgraphBuilder,
    operation_type: OperationType,
    inputs: Sequence[int],
    options: Options,
    result: int,
    trailing: Sequence[int] = (),
) -> None:
    """Emits an operation whose inputs end with the fused activation and `trailing`."""
    fused, follower, target = finish_with(graph, options["activation"], result)
    graph.emit(operation_type, (*inputs, graph.int32(fused), *trailing), (target,))
    if follower is not None:
        graph.emit(follower, (target,), (result,))


def emit_clamped(
    graph: SubgraphBuilder,
    operator: Operator,
    operation_type: OperationType,
    inputs: Sequence[int],
    result: int,
) -> None:
    """Emits an operation and clamps its result to the output's type, if that is below 8 bits."""
    limits = graph.limits(operator)
    if limits is None:
        graph.emit(operation_type, inputs, (result,))
        return
    target = graph.temporary(result)
    graph.emit(operation_type, inputs, (target,))
    above = graph.temporary(result)
    graph.emit(OperationType.MAXIMUM, (target, graph.quantized_scalar(limits[0], like=result)), (above,))
    graph.emit(OperationType.MINIMUM, (above, graph.quantized_scalar(limits[1], like=result)), (result,))


def list_operand(graph: SubgraphBuilder, index: int, what: str) -> int:
    """Converts a list of axes or lengths, which may be a scalar in TFLite, to rank 1.

    Long lists are rejected.

    Returns:
        An operand of rank 1.
    """
    operand = graph.operand(index)
    dimensions = operand.dimensions
    if operand.type is not OperandType.TENSOR_INT32:
        raise UnsupportedFeature(f"{what} has type {operand.type.name}; TENSOR_INT32 is expected")
    if dimensions is None:
        return graph.flat(index)
    if len(dimensions) > 1 or any(length > MAX_RANK for length in dimensions):
        raise UnsupportedFeature(f"{what} has shape {dimensions}; a list of at most {MAX_RANK} is expected")
    if dimensions:
        return index
    value = graph.value(index)
    if value is not None:
        return graph.vector((int(value),))
    return graph.flat(index)


def covers(axes: Sequence[int], rank: int) -> bool:
    """Returns True if `axes`, which may count from the end, include every axis."""
    return {axis + rank if axis < 0 else axis for axis in axes} >= set(range(rank))


class Legalization(Struct, frozen=True, kw_only=True):
    """The legalization of an operator.

    Attributes:
        options: name of the operator's options table, None if it has none.
        inputs: minimum and maximum number of inputs; None for one or more.
        outputs: likewise.
    """

    rule: LegalizationRule
    options: str | None = None
    inputs: tuple[int, int] | None = (1, 1)
    outputs: tuple[int, int] | None = (1, 1)

    def read_options(self, operator: Operator) -> Options:
        """Returns the options of an operator that has as many inputs and outputs as it may have.

        Raises:
            UnsupportedFeature: it has other numbers of them, or options of another kind.
            BadData: its description in the file is invalid.
        """
        if not _fits(len(operator.inputs), self.inputs) or not _fits(len(operator.outputs), self.outputs):
            has = inputs_and_outputs(len(operator.inputs), len(operator.outputs))
            raise UnsupportedFeature(
                f"it has {has}; {_allowed(self.inputs, 'input')} and {_allowed(self.outputs, 'output')} are expected"
            )
        if self.options is None:
            return {}
        kind = OPTIONS[self.options]
        if operator.options_type not in (0, kind.number):
            raise UnsupportedFeature(
                f"its options are {options_name(operator.options_type)}; {kind.name} are expected"
            )
        return kind.read(operator.options if operator.options_type else None)


def _fits(count: int, limits: tuple[int, int] | None) -> bool:
    least, most = limits or (1, count)
    return least <= count <= most


def _allowed(limits: tuple[int, int] | None, noun: str) -> str:
    if limits is None:
        return f"1 or more {noun}s"
    least, most = limits
    if least == most:
        return counted(least, noun)
    return f"{least} {'or' if most == least + 1 else 'to'} {most} {noun}s"


def unary(operation_type: OperationType) -> LegalizationRule:
    """Builds a rule for one input and no options."""

    def rule(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
        graph.emit(operation_type, (graph.input(operator),), (graph.output(operator),))

    return rule


def operation(operation_type: OperationType, *, typed_as: int | None = None) -> LegalizationRule:
    """Builds a rule that passes all inputs and outputs to an operation, in the same order.

    The outputs have the type of input `typed_as`, if given.
    """

    def rule(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
        inputs = [graph.input(operator, position) for position in range(len(operator.inputs))]
        outputs = [
            graph.output(operator, position, typed_as=typed_as) for position in range(len(operator.outputs))
        ]
        graph.emit(operation_type, inputs, outputs)

    return rule


def constant_scalar(graph: SubgraphBuilder, index: int) -> int:
    """Converts a constant integer tensor of one element to a scalar."""
    value = graph.value(index)
    if value is None or value.size != 1 or value.dtype.kind != "i":
        return index
    return graph.int32(int(value.item()))


def narrow_to_int32(graph: SubgraphBuilder, index: int) -> int:
    """Narrows a short constant list of int64 to TENSOR_INT32 if the values fit."""
    value = graph.value(index)
    if value is None or value.ndim != 1 or value.size > MAX_RANK or value.dtype != np.int64:
        return index
    limits = np.iinfo(np.int32)
    if ((value < limits.min) | (value > limits.max)).any():
        return index
    return graph.vector(value.tolist())
