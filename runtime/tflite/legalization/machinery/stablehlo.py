"""Options and bodies of StableHLO operators."""

from typing import TYPE_CHECKING

from neurald.hal.operations.machinery.signature import MAX_RANK
from neurald.runtime.tflite.file.flatbuffer import INT64, Table
from neurald.runtime.tflite.file.options import OPTIONS
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator
from neurald.runtime.tflite.graph.operands import UnsupportedFeature
from neurald.runtime.tflite.graph.subgraph_builder import SubgraphBuilder

if TYPE_CHECKING:
    # Padding has options of StableHLO, but no body.
    from neurald.hal.operations.tflite.convolution.reduce_window import Reduction

#: Name of the reduction by the only operator of a body; converters write StableHLO's or TFLite's
#: operators.
_REDUCTIONS = {
    BuiltinOperator.STABLEHLO_ADD: "ADD",
    BuiltinOperator.ADD: "ADD",
    BuiltinOperator.STABLEHLO_MULTIPLY: "MUL",
    BuiltinOperator.MUL: "MUL",
    BuiltinOperator.STABLEHLO_MINIMUM: "MINIMUM",
    BuiltinOperator.MINIMUM: "MINIMUM",
    BuiltinOperator.STABLEHLO_MAXIMUM: "MAXIMUM",
    BuiltinOperator.MAXIMUM: "MAXIMUM",
    BuiltinOperator.STABLEHLO_AND: "ALL",
    BuiltinOperator.LOGICAL_AND: "ALL",
    BuiltinOperator.STABLEHLO_OR: "ANY",
    BuiltinOperator.LOGICAL_OR: "ANY",
}


#: Operators that may have a fused activation, with the name of their options table.
_ACTIVATED = {BuiltinOperator.ADD: "AddOptions", BuiltinOperator.MUL: "MulOptions"}


def stablehlo_options(operator: Operator, kind: int) -> Table:
    """Returns the options table of a StableHLO operator.

    Raises:
        UnsupportedFeature: the operator has no options, or options of another kind.
    """
    if operator.options2 is None or operator.options2_type != kind:
        raise UnsupportedFeature(f"its options are of kind {operator.options2_type}; {kind} is expected")
    return operator.options2


def option_list(options: Table, field: int) -> tuple[int, ...]:
    """Returns a list of int64 numbers in the options.

    Raises:
        UnsupportedFeature: the list is longer than any operand's rank allows.
    """
    values = options.integers(field, INT64)
    if len(values) > 2 * MAX_RANK:
        raise UnsupportedFeature(
            f"its options have a list of {len(values)} numbers; {2 * MAX_RANK} are too many"
        )
    return values


def body_reduction(graph: SubgraphBuilder, index: int) -> "Reduction | None":
    """Returns the reduction that a subgraph computes; None if it returns its second input.

    Raises:
        UnsupportedFeature: it is not a single plain operator of `_REDUCTIONS`.
    """
    body = graph.importer.subgraph(index)
    if not body.operators and len(body.inputs) == 2 and body.outputs == body.inputs[1:]:
        return None
    operators = body.operators
    is_one = len(operators) == 1 and len(body.inputs) == 2 and operators[0].outputs == body.outputs
    if not is_one or sorted(operators[0].inputs) != sorted(body.inputs):
        raise UnsupportedFeature(f"subgraph {index} is not one operator on its two inputs")
    reduction = _REDUCTIONS.get(operators[0].code)
    kind = _ACTIVATED.get(operators[0].code)
    activation = OPTIONS[kind].read(operators[0].options)["activation"] if kind is not None else 0
    if reduction is None or activation:
        fused = f" with fused activation {activation}" if activation else ""
        raise UnsupportedFeature(
            f"subgraph {index} has {operators[0].name}{fused}; a sum, product, minimum, maximum, all or "
            "any of two is "
            "expected"
        )
    from neurald.hal.operations.tflite.convolution.reduce_window import Reduction

    return Reduction[reduction]
