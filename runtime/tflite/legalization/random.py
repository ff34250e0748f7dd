"""Random numbers."""

from neurald.hal.model.operation_type import OperationType
from neurald.runtime.tflite.graph import Graph
from neurald.runtime.tflite.legalization.machinery.rule import Lowering, Rule, narrow, whole
from neurald.runtime.tflite.numbers import BuiltinOperator
from neurald.runtime.tflite.options import Options
from neurald.runtime.tflite.schema import Operator


def _seeds(graph: Graph, options: Options) -> int:
    """Returns the lower 32 bits of each seed as a signed number; TFLite ignores the rest."""
    seeds = (int(options[name]) & 0xFFFF_FFFF for name in ("seed", "seed2"))
    return graph.vector([seed - (1 << 32) if seed >> 31 else seed for seed in seeds])


def drawn(operation_type: OperationType) -> Rule:
    """Builds a rule for random numbers whose shape is an input."""

    def rule(graph: Graph, operator: Operator, options: Options) -> None:
        inputs = narrow(graph, graph.input(operator)), _seeds(graph, options)
        graph.emit(operation_type, inputs, (graph.output(operator),))

    return rule


def multinomial(graph: Graph, operator: Operator, options: Options) -> None:
    """MULTINOMIAL: the number of samples per row is an input."""
    samples = whole(graph, graph.input(operator, 1))
    inputs = graph.input(operator, 0), samples, _seeds(graph, options)
    graph.emit(OperationType.TFLITE_MULTINOMIAL, inputs, (graph.output(operator),))


LOWERINGS: dict[int, Lowering] = {
    BuiltinOperator.MULTINOMIAL: Lowering(rule=multinomial, options="RandomOptions", inputs=(2, 2)),
    BuiltinOperator.RANDOM_STANDARD_NORMAL: Lowering(
        rule=drawn(OperationType.TFLITE_RANDOM_STANDARD_NORMAL), options="RandomOptions"
    ),
    BuiltinOperator.RANDOM_UNIFORM: Lowering(
        rule=drawn(OperationType.TFLITE_RANDOM_UNIFORM), options="RandomOptions"
    ),
}
