"""Custom operators, by name."""

from neurald.runtime.tflite.graph import Graph
from neurald.runtime.tflite.legalization.detection import detection
from neurald.runtime.tflite.legalization.machinery.rule import Lowering
from neurald.runtime.tflite.numbers import BuiltinOperator
from neurald.runtime.tflite.operands import Unsupported
from neurald.runtime.tflite.options import Options
from neurald.runtime.tflite.schema import Operator

_BY_NAME: dict[str, Lowering] = {**detection.CUSTOM}


def custom(graph: Graph, operator: Operator, _: Options) -> None:
    """Applies the rule for the operator's name."""
    lowering = _BY_NAME.get(operator.custom_code)
    if lowering is None:
        raise Unsupported("it is not supported")
    lowering.lower(graph, operator)


LOWERINGS: dict[int, Lowering] = {
    BuiltinOperator.CUSTOM: Lowering(rule=custom, inputs=(0, 1 << 20), outputs=(0, 1 << 20)),
}
