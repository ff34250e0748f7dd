"""Fourier transforms."""

from neurald.hal.model.operation_type import OperationType
from neurald.runtime.tflite.graph import Graph
from neurald.runtime.tflite.legalization.machinery.rule import Lowering
from neurald.runtime.tflite.numbers import BuiltinOperator
from neurald.runtime.tflite.options import Options
from neurald.runtime.tflite.schema import Operator


def rfft2d(graph: Graph, operator: Operator, _: Options) -> None:
    """RFFT2D: the lengths to which matrices are truncated or padded are an input."""
    inputs = graph.input(operator, 0), graph.input(operator, 1)
    graph.emit(OperationType.TFLITE_RFFT2D, inputs, (graph.output(operator),))


LOWERINGS: dict[int, Lowering] = {BuiltinOperator.RFFT2D: Lowering(rule=rfft2d, inputs=(2, 2))}
