"""Custom operators, which are identified by name."""

from neurald.runtime.tflite.legalization.convolution import hadamard, mediapipe
from neurald.runtime.tflite.legalization.detection import detection
from neurald.runtime.tflite.legalization.elementwise import numeric_verify
from neurald.runtime.tflite.legalization.machinery.rule import Legalization
from neurald.runtime.tflite.legalization.reduction import audio_features
from neurald.runtime.tflite.operands import UnsupportedFeature
from neurald.runtime.tflite.options import Options
from neurald.runtime.tflite.schema import Operator
from neurald.runtime.tflite.schema_enums import BuiltinOperator
from neurald.runtime.tflite.subgraph_builder import SubgraphBuilder

#: The rules of custom operators.
BY_NAME: dict[str, Legalization] = {
    **audio_features.CUSTOM,
    **detection.CUSTOM,
    **hadamard.CUSTOM,
    **mediapipe.CUSTOM,
    **numeric_verify.CUSTOM,
}


def custom(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Applies the rule for the operator's name."""
    legalization = BY_NAME.get(operator.custom_code)
    if legalization is None:
        raise UnsupportedFeature("it is not supported")
    legalization.legalize(graph, operator)


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.CUSTOM: Legalization(rule=custom, inputs=(0, 1 << 20), outputs=(0, 1 << 20)),
}
