"""The StableHLO operators that TFLite runs, and REDUCE_WINDOW."""

from collections.abc import Sequence

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FusedActivation, OperandType
from neurald.hal.operations.machinery.signature import MAXIMUM_RANK
from neurald.hal.operations.tflite.convolution.reduce_window import Reduction
from neurald.runtime.tflite.flatbuffer import INT8, INT32, INT64, Table
from neurald.runtime.tflite.graph import Graph
from neurald.runtime.tflite.legalization.machinery.rule import Lowering, Rule, operation
from neurald.runtime.tflite.numbers import BuiltinOperator, BuiltinOptions2
from neurald.runtime.tflite.operands import Unsupported
from neurald.runtime.tflite.options import OPTIONS, Options
from neurald.runtime.tflite.schema import Operator

#: Reduction by the only operator of a body; converters write StableHLO's or TFLite's operators.
_REDUCTIONS = {
    BuiltinOperator.STABLEHLO_ADD: Reduction.ADD,
    BuiltinOperator.ADD: Reduction.ADD,
    BuiltinOperator.STABLEHLO_MULTIPLY: Reduction.MUL,
    BuiltinOperator.MUL: Reduction.MUL,
    BuiltinOperator.STABLEHLO_MINIMUM: Reduction.MINIMUM,
    BuiltinOperator.MINIMUM: Reduction.MINIMUM,
    BuiltinOperator.STABLEHLO_MAXIMUM: Reduction.MAXIMUM,
    BuiltinOperator.MAXIMUM: Reduction.MAXIMUM,
    BuiltinOperator.STABLEHLO_AND: Reduction.ALL,
    BuiltinOperator.LOGICAL_AND: Reduction.ALL,
    BuiltinOperator.STABLEHLO_OR: Reduction.ANY,
    BuiltinOperator.LOGICAL_OR: Reduction.ANY,
}
#: Operators that may have a fused activation, with the name of their options table.
_ACTIVATED = {BuiltinOperator.ADD: "AddOptions", BuiltinOperator.MUL: "MulOptions"}
_ANDROID_TYPES = (OperandType.TENSOR_FLOAT32, OperandType.TENSOR_FLOAT16, OperandType.TENSOR_INT32)
#: STABLEHLO_SCATTER's numbers of update functions.
_UPDATES = {Reduction.ADD: 1, Reduction.MUL: 2, Reduction.MINIMUM: 3, Reduction.MAXIMUM: 4}


def _options(operator: Operator, kind: int) -> Table:
    if operator.options2 is None or operator.options2_type != kind:
        raise Unsupported(f"its options are of kind {operator.options2_type}; {kind} is expected")
    return operator.options2


def _numbers(options: Table, field: int) -> tuple[int, ...]:
    values = options.integers(field, INT64)
    if len(values) > 2 * MAXIMUM_RANK:
        raise Unsupported(
            f"its options have a list of {len(values)} numbers; {2 * MAXIMUM_RANK} are too many"
        )
    return values


def _body(graph: Graph, index: int) -> Reduction | None:
    """Returns the reduction that a subgraph computes; None if it returns its second input.

    Raises:
        Unsupported: it is not a single plain operator of `_REDUCTIONS`.
    """
    body = graph.importer.subgraph(index)
    if not body.operators and len(body.inputs) == 2 and body.outputs == body.inputs[1:]:
        return None
    operators = body.operators
    is_one = len(operators) == 1 and len(body.inputs) == 2 and operators[0].outputs == body.outputs
    if not is_one or sorted(operators[0].inputs) != sorted(body.inputs):
        raise Unsupported(f"subgraph {index} is not one operator on its two inputs")
    reduction = _REDUCTIONS.get(operators[0].code)
    kind = _ACTIVATED.get(operators[0].code)
    activation = OPTIONS[kind].read(operators[0].options)["activation"] if kind is not None else 0
    if reduction is None or activation:
        fused = f" with fused activation {activation}" if activation else ""
        raise Unsupported(
            f"subgraph {index} has {operators[0].name}{fused}; a sum, product, smallest, largest, all or any of two is "
            "expected"
        )
    return reduction


def elementwise(android: OperationType, tflite: OperationType, *trailing: FusedActivation) -> Rule:
    """Builds the rule for an element-wise operator.

    Android NN's operation is used only for types without a scale: it would rescale quantised
    values.
    """

    def rule(graph: Graph, operator: Operator, _: Options) -> None:
        inputs = [graph.input(operator, 0), graph.input(operator, 1)]
        result = graph.output(operator)
        if graph.operand(result).type in _ANDROID_TYPES:
            inputs.extend(graph.int32(activation) for activation in trailing)
            graph.emit(android, inputs, (result,))
        else:
            graph.emit(tflite, inputs, (result,))

    return rule


def _emit_pad(graph: Graph, source: int, value: int, paddings: Sequence[Sequence[int]], result: int) -> None:
    vectors = [graph.vector(numbers) for numbers in paddings]
    graph.emit(OperationType.TFLITE_STABLEHLO_PAD, (source, value, *vectors), (result,))


def pad(graph: Graph, operator: Operator, _: Options) -> None:
    """STABLEHLO_PAD: before, after, and between elements."""
    options = _options(operator, BuiltinOptions2.StablehloPadOptions)
    paddings = [_numbers(options, field) for field in range(3)]
    source, value = graph.input(operator, 0), graph.input(operator, 1)
    _emit_pad(graph, source, value, paddings, graph.output(operator))


def reduce_window(graph: Graph, operator: Operator, _: Options) -> None:
    """REDUCE_WINDOW: sizes, strides and dilations are inputs."""
    options = _options(operator, BuiltinOptions2.ReduceWindowOptions)
    inputs = [graph.input(operator, position) for position in range(5)]
    inputs.append(graph.int32(options.integer(0, INT32)))
    graph.emit(OperationType.TFLITE_REDUCE_WINDOW, inputs, (graph.output(operator),))


def stablehlo_reduce_window(graph: Graph, operator: Operator, _: Options) -> None:
    """STABLEHLO_REDUCE_WINDOW: dilates and pads the input with the initial value first."""
    options = _options(operator, BuiltinOptions2.StablehloReduceWindowOptions)
    sizes, strides, inner, dilations, padding = (_numbers(options, field) for field in range(5))
    reduction = _body(graph, options.integer(5, INT32))
    if reduction is None:
        raise Unsupported("its subgraph passes on its second input, which is not a reduction")
    ones = (1,) * len(sizes)
    source, initial, result = graph.input(operator, 0), graph.input(operator, 1), graph.output(operator)
    if any(padding) or any(step != 1 for step in inner):
        low, high = padding[::2] or (0,) * len(sizes), padding[1::2] or (0,) * len(sizes)
        padded = graph.temporary(result, (0,) * len(sizes))
        _emit_pad(graph, source, initial, (low, high, [step - 1 for step in inner or ones]), padded)
        source = padded
    vectors = [graph.vector(numbers) for numbers in (sizes, strides or ones, dilations or ones)]
    inputs = source, initial, *vectors, graph.int32(reduction)
    graph.emit(OperationType.TFLITE_REDUCE_WINDOW, inputs, (result,))


def gather(graph: Graph, operator: Operator, _: Options) -> None:
    """STABLEHLO_GATHER; passes the dimension numbers on."""
    options = _options(operator, BuiltinOptions2.StablehloGatherOptions)
    offsets, collapsed, mapped = (graph.vector(_numbers(options, field)) for field in range(3))
    axis, sizes = graph.int32(options.integer(3, INT64)), graph.vector(_numbers(options, 4))
    source, indices = graph.input(operator, 0), graph.input(operator, 1)
    inputs = source, indices, offsets, collapsed, mapped, axis, sizes
    graph.emit(OperationType.TFLITE_STABLEHLO_GATHER, inputs, (graph.output(operator),))


def scatter(graph: Graph, operator: Operator, _: Options) -> None:
    """STABLEHLO_SCATTER; passes the dimension numbers on."""
    options = _options(operator, BuiltinOptions2.StablehloScatterOptions)
    reduction = _body(graph, options.integer(6, INT32))
    if reduction is not None and reduction not in _UPDATES:
        raise Unsupported("its subgraph is not a sum, product, minimum or maximum of two")
    window, inserted, mapped = (graph.vector(_numbers(options, field)) for field in (1, 2, 3))
    source, indices, updates = (graph.input(operator, position) for position in range(3))
    axis = graph.int32(options.integer(4, INT64))
    update = graph.int32(0 if reduction is None else _UPDATES[reduction])
    inputs = source, indices, updates, window, inserted, mapped, axis, update
    graph.emit(OperationType.TFLITE_STABLEHLO_SCATTER, inputs, (graph.output(operator),))


def bits(graph: Graph, operator: Operator, _: Options) -> None:
    """STABLEHLO_RNG_BIT_GENERATOR: the file states the shape of the second output."""
    options = _options(operator, BuiltinOptions2.StablehloRngBitGeneratorOptions)
    shape, algorithm = graph.shape_in_file(operator, 1), graph.int32(options.integer(0, INT8))
    if len(shape) > MAXIMUM_RANK:
        raise Unsupported(f"its output has rank {len(shape)}; at most {MAXIMUM_RANK} is supported")
    results = graph.output(operator, 0), graph.output(operator, 1)
    inputs = graph.input(operator), graph.vector(shape), algorithm
    graph.emit(OperationType.TFLITE_STABLEHLO_RNG_BIT_GENERATOR, inputs, results)


LOWERINGS: dict[int, Lowering] = {
    BuiltinOperator.REDUCE_WINDOW: Lowering(rule=reduce_window, inputs=(5, 5)),
    BuiltinOperator.STABLEHLO_ADD: Lowering(
        rule=elementwise(OperationType.ADD, OperationType.TFLITE_STABLEHLO_ADD, FusedActivation.NONE),
        inputs=(2, 2),
    ),
    BuiltinOperator.STABLEHLO_AND: Lowering(
        rule=operation(OperationType.TFLITE_STABLEHLO_AND, typed_as=0), inputs=(2, 2)
    ),
    BuiltinOperator.STABLEHLO_SHIFT_LEFT: Lowering(
        rule=operation(OperationType.TFLITE_STABLEHLO_SHIFT_LEFT, typed_as=0), inputs=(2, 2)
    ),
    BuiltinOperator.STABLEHLO_GATHER: Lowering(rule=gather, inputs=(2, 2)),
    BuiltinOperator.STABLEHLO_MAXIMUM: Lowering(
        rule=elementwise(OperationType.MAXIMUM, OperationType.TFLITE_STABLEHLO_MAXIMUM), inputs=(2, 2)
    ),
    BuiltinOperator.STABLEHLO_MINIMUM: Lowering(
        rule=elementwise(OperationType.MINIMUM, OperationType.TFLITE_STABLEHLO_MINIMUM), inputs=(2, 2)
    ),
    BuiltinOperator.STABLEHLO_MULTIPLY: Lowering(
        rule=elementwise(OperationType.MUL, OperationType.TFLITE_STABLEHLO_MULTIPLY, FusedActivation.NONE),
        inputs=(2, 2),
    ),
    BuiltinOperator.STABLEHLO_PAD: Lowering(rule=pad, inputs=(2, 2)),
    BuiltinOperator.STABLEHLO_REDUCE_WINDOW: Lowering(rule=stablehlo_reduce_window, inputs=(2, 2)),
    BuiltinOperator.STABLEHLO_RNG_BIT_GENERATOR: Lowering(rule=bits, outputs=(2, 2)),
    BuiltinOperator.STABLEHLO_SCATTER: Lowering(rule=scatter, inputs=(3, 3)),
}
