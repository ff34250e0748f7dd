"""Common parts of recurrent operators. Their states are variables."""

from collections.abc import Sequence

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import OperandType
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.graph.operands import UnsupportedFeature
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder


def optional_inputs(graph: SubgraphBuilder, operator: Operator, positions: Sequence[int]) -> list[int]:
    """Returns the operands of optional inputs."""
    return [
        graph.input(operator, position)
        if graph.has(operator, position)
        else graph.omitted(OperandType.TENSOR_FLOAT32)
        for position in positions
    ]


def emit_cell(
    graph: SubgraphBuilder,
    operation_type: OperationType,
    inputs: Sequence[int],
    outputs: Sequence[int],
    options: Options,
    weights: int,
) -> None:
    """Emits Android's operation, or its variant for 8-bit `weights` with one more argument."""
    if is_quantized(graph.operand(weights)):
        operation_type = OperationType[f"TFLITE_{operation_type.name}"]
        # TFLite reads unsigned byte weights as signed.
        inputs = [
            graph.as_signed(index) if graph.operand(index).type is OperandType.TENSOR_QUANT8_ASYMM else index
            for index in inputs
        ]
        inputs = (*inputs, graph.boolean(value=bool(options["asymmetric_quantize_inputs"])))
    graph.emit(operation_type, inputs, outputs)


def bidirectional_outputs(graph: SubgraphBuilder, operator: Operator, *, merge: bool) -> list[int]:
    """Returns the outputs of a bidirectional operator: one if they are merged."""
    count = 1 if merge else 2
    if len(operator.outputs) < count:
        raise UnsupportedFeature(f"it has {len(operator.outputs)} outputs; {count} are expected")
    return [graph.output(operator, position) for position in range(count)]
