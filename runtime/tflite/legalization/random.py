"""RANDOM_UNIFORM, RANDOM_STANDARD_NORMAL, MULTINOMIAL and STABLEHLO_RNG_BIT_GENERATOR."""

from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.signature import MAX_RANK
from neurald.runtime.tflite.file.flatbuffer import INT8
from neurald.runtime.tflite.file.options import Options
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator, BuiltinOptions2
from neurald.runtime.tflite.graph.operands import UnsupportedFeature
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder
from neurald.runtime.tflite.legalization.machinery.rule import (
    Legalization,
    LegalizationRule,
    constant_scalar,
    narrow_to_int32,
)
from neurald.runtime.tflite.legalization.machinery.stablehlo import stablehlo_options


def _seeds(graph: SubgraphBuilder, options: Options) -> int:
    """Returns the lower 32 bits of each seed as a signed number; TFLite ignores the rest."""
    seeds = (int(options[name]) & 0xFFFF_FFFF for name in ("seed", "seed2"))
    return graph.vector([seed - (1 << 32) if seed >> 31 else seed for seed in seeds])


def random_numbers(operation_type: OperationType) -> LegalizationRule:
    """Builds a rule for random numbers whose shape is an input."""

    def rule(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
        inputs = narrow_to_int32(graph, graph.input(operator)), _seeds(graph, options)
        graph.emit(operation_type, inputs, (graph.output(operator),))

    return rule


def multinomial(graph: SubgraphBuilder, operator: Operator, options: Options) -> None:
    """Legalizes MULTINOMIAL: the number of samples per row is an input."""
    samples = constant_scalar(graph, graph.input(operator, 1))
    inputs = graph.input(operator, 0), samples, _seeds(graph, options)
    graph.emit(OperationType.TFLITE_MULTINOMIAL, inputs, (graph.output(operator),))


def bit_generator(graph: SubgraphBuilder, operator: Operator, _: Options) -> None:
    """Legalizes STABLEHLO_RNG_BIT_GENERATOR: the file states the shape of the second output."""
    options = stablehlo_options(operator, BuiltinOptions2.StablehloRngBitGeneratorOptions)
    shape, algorithm = graph.shape_in_file(operator, 1), graph.int32(options.integer(0, INT8))
    if len(shape) > MAX_RANK:
        raise UnsupportedFeature(f"its output has rank {len(shape)}; at most {MAX_RANK} is supported")
    results = graph.output(operator, 0), graph.output(operator, 1)
    inputs = graph.input(operator), graph.vector(shape), algorithm
    graph.emit(OperationType.TFLITE_STABLEHLO_RNG_BIT_GENERATOR, inputs, results)


LEGALIZATIONS: dict[int, Legalization] = {
    BuiltinOperator.MULTINOMIAL: Legalization(rule=multinomial, options="RandomOptions", inputs=(2, 2)),
    BuiltinOperator.RANDOM_STANDARD_NORMAL: Legalization(
        rule=random_numbers(OperationType.TFLITE_RANDOM_STANDARD_NORMAL), options="RandomOptions"
    ),
    BuiltinOperator.RANDOM_UNIFORM: Legalization(
        rule=random_numbers(OperationType.TFLITE_RANDOM_UNIFORM), options="RandomOptions"
    ),
    BuiltinOperator.STABLEHLO_RNG_BIT_GENERATOR: Legalization(rule=bit_generator, outputs=(2, 2)),
}
