"""Custom operators, which are identified by name."""

from neurald.hal.model.types import OperandType
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.graph.custom_operators import CALL
from neurald.runtime.tflite.graph.operands import UnsupportedFeature
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.convolution import hadamard, mediapipe
from neurald.runtime.tflite.legalization.detection import detection
from neurald.runtime.tflite.legalization.elementwise import numeric_verify
from neurald.runtime.tflite.legalization.machinery.rule import Legalization
from neurald.runtime.tflite.legalization.movement import landmarks
from neurald.runtime.tflite.legalization.reduction import audio_features

#: The rules of custom operators.
BY_NAME: dict[str, Legalization] = {
    **audio_features.CUSTOM,
    **detection.CUSTOM,
    **hadamard.CUSTOM,
    **landmarks.CUSTOM,
    **mediapipe.CUSTOM,
    **numeric_verify.CUSTOM,
}


def custom(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Applies the rule for the operator's name, unless a function of the application is set."""
    number = graph.importer.custom_number(operator)
    if number is not None:
        _call(graph, operator, number)
        return
    legalization = BY_NAME.get(operator.custom_code)
    if legalization is None:
        raise UnsupportedFeature("it is not supported")
    legalization.rule(graph, operator, legalization.read_options(operator))


def _call(graph: SubgraphBuilder, operator: Operator, number: int) -> None:
    """Emits the call of a function of the application."""
    inputs = [
        graph.input(operator, position)
        if graph.has(operator, position)
        else graph.omitted(OperandType.TENSOR_FLOAT32)
        for position in range(len(operator.inputs))
    ]
    outputs = [graph.output(operator, position) for position in range(len(operator.outputs))]
    if graph.shapes_hold(operator):
        for position, index in enumerate(outputs):
            shape = graph.shape_in_file(operator, position)
            # An empty shape may be an unknown one.
            if shape:
                graph.expect(index, shape)
    graph.emit_unchecked(CALL, (graph.int32(number), *inputs), outputs)


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.CUSTOM: Legalization(rule=custom, inputs=(0, 1 << 20), outputs=(0, 1 << 20)),
}
