"""One small kernel of every kind that the CPU driver generates, for golden files of its LLVM IR."""

from collections.abc import Callable, Mapping

import numpy as np
from support.compiler import attention as attentions
from support.compiler.graphs import GraphBuilder
from support.cpu.quantized_sums import QuantizedSums
from support.models import control_flow as models

import neurald as nd
from neurald.drivers.compiler.frontend.control_flow.structuring import structure_control_flow
from neurald.drivers.compiler.frontend.graph_builder import build_graph
from neurald.drivers.compiler.ir.algorithm import (
    Algorithm,
    Distinct,
    GreedySelection,
    KeySearch,
    Positions,
    Sampling,
    Suppression,
)
from neurald.drivers.compiler.ir.expression import (
    Expression,
    apply,
    axis,
    load,
    maximum,
    minimum,
    reduce,
    select,
)
from neurald.drivers.compiler.ir.graph import Graph
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Shape, Value
from neurald.drivers.compiler.passes import transform
from neurald.drivers.compiler.passes.contraction.attention_merging import merge_attention
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.cpu.kernels.row_wise.rows import is_row_by_row
from neurald.drivers.cpu.kernels.select import generate
from neurald.drivers.cpu.native.objects.object_code import routine_unit
from neurald.drivers.cpu.schedule.lookup_tables import use_lookup_tables
from neurald.drivers.cpu.target.target import TARGETS, Target
from neurald.hal.records import replace


def _fused(graph: Graph) -> tuple[Kernel, ...]:
    return fuse(graph, is_row_wise=is_row_by_row).kernels


def elementwise() -> tuple[Kernel, ...]:
    """A sum with a broadcast bias, scaled and passed to an exponential."""
    builder = GraphBuilder()
    source, bias = builder.input(5, 20), builder.input(20)

    def body(i: Expression, j: Expression) -> Expression:
        return apply(Op.EXP, (load(source, (i, j)) + load(bias, (j,))) * 0.5)

    return _fused(builder.finish(builder.compute((5, 20), body)))


def reduction() -> tuple[Kernel, ...]:
    """The Euclidean norm of each column."""
    builder = GraphBuilder()
    source, rows = builder.input(30, 12), axis(30, "r")

    def body(j: Expression) -> Expression:
        element = load(source, (rows, j))
        return apply(Op.SQRT, reduce(ReductionOp.SUM, (rows,), element * element))

    return _fused(builder.finish(builder.compute((12,), body)))


def softmax() -> tuple[Kernel, ...]:
    """Row maxima, exponentials, and their row sums in one kernel."""
    builder = GraphBuilder()
    source, first, second = builder.input(3, 21), axis(21, "r"), axis(21, "s")
    largest = builder.compute((3,), lambda i: reduce(ReductionOp.MAXIMUM, (first,), load(source, (i, first))))
    powers = builder.compute((3, 21), lambda i, j: apply(Op.EXP, load(source, (i, j)) - load(largest, (i,))))
    total = builder.compute((3,), lambda i: reduce(ReductionOp.SUM, (second,), load(powers, (i, second))))
    return _fused(
        builder.finish(builder.compute((3, 21), lambda i, j: load(powers, (i, j)) / load(total, (i,))))
    )


def attention() -> tuple[Kernel, ...]:
    """Attention of two heads with shared keys and a mask."""
    form = attentions.Form(rows=3, columns=9, depth=8, features=8, key_heads=1, mask="causal")
    fused = fuse(attentions.attention(form), is_row_wise=is_row_by_row)
    return merge_attention(fused, lambda _: True).kernels


def convolved(
    source: Shape, weights: Shape, output: Shape, **window: tuple[object, ...]
) -> tuple[Kernel, ...]:
    """Returns a convolution with a bias and a ReLU; depthwise if weights have three dimensions."""
    builder = GraphBuilder()
    image, factors = builder.input(*source), builder.weights(*weights)
    convolve = builder.convolution if len(weights) == 4 else builder.depthwise_convolution
    sums: Value = convolve(image, factors, output=output, **window)  # type: ignore[arg-type]
    bias = builder.weights(output[-1])

    def body(*at: Expression) -> Expression:
        return maximum(load(sums, at) + load(bias, at[-1:]), 0.0)

    return _fused(builder.finish(builder.compute(output, body)))


def convolution() -> tuple[Kernel, ...]:
    """A 3 × 3 convolution with stride 2 and a ReLU."""
    return convolved((1, 9, 9, 3), (16, 3, 3, 3), (1, 4, 4, 16), stride=(2, 2))


def winograd() -> tuple[Kernel, ...]:
    """A 3 × 3 convolution with stride 1 that is computed by Winograd's algorithm."""
    return convolved((1, 28, 28, 32), (32, 3, 3, 32), (1, 28, 28, 32), padding=((1, 1), (1, 1)))


def depthwise() -> tuple[Kernel, ...]:
    """A 3 × 3 depthwise convolution."""
    return convolved((1, 6, 6, 8), (3, 3, 8), (1, 6, 6, 8), padding=((1, 1), (1, 1)))


def matrix_product() -> tuple[Kernel, ...]:
    """A product of two matrices that are both inputs."""
    builder = GraphBuilder()
    left, right = builder.input(4, 12), builder.input(16, 12)
    return _fused(builder.finish(builder.matrix_product(left, right)))


def half_product() -> tuple[Kernel, ...]:
    """A 1 × 1 convolution of more products than are added up in float16."""
    return convolved((1, 3, 5, 70), (16, 1, 1, 70), (1, 3, 5, 16))


def digit_product() -> tuple[Kernel, ...]:
    """A row by weights that are INT8 numbers times a scale for each channel."""
    builder = GraphBuilder()
    weights = builder.weights(128, 128)
    numbers = builder.generator.integers(-127, 127, weights.shape, endpoint=True)
    weights.constant = numbers.astype(np.float32) / np.float32(64)
    return _fused(builder.finish(builder.matrix_product(builder.input(1, 128), weights)))


def int8_product() -> tuple[Kernel, ...]:
    """A quantised 1 × 1 convolution with a fixed-point multiplier for each channel."""
    sums = QuantizedSums(1, zeros=(3, 0))
    return sums.convolution((1, 3, 4, 8), (8, 1, 1, 8), (1, 3, 4, 8)).kernels


def int8_depthwise() -> tuple[Kernel, ...]:
    """A quantised depthwise convolution with a fixed-point multiplier for each channel."""
    sums = QuantizedSums(1, zeros=(3, 0))
    return sums.depthwise((1, 5, 5, 16), (3, 3, 16), (1, 3, 3, 16)).kernels


def transposition() -> tuple[Kernel, ...]:
    """A transposed matrix of bytes."""
    builder = GraphBuilder()
    source = builder.input(40, 24, type=Scalar.INT8)
    return _fused(builder.finish(builder.compute((24, 40), lambda i, j: load(source, (j, i)))))


def gather() -> tuple[Kernel, ...]:
    """Rows of a table at positions that are loaded, checked, and clamped."""
    builder = GraphBuilder()
    table, positions = builder.input(6, 20), builder.input(5, type=Scalar.INT32)

    def body(i: Expression, j: Expression) -> Expression:
        position = load(positions, (i,))
        clamped = select(position < 0, 0, position).to(Scalar.INDEX) % 6
        return load(table, (clamped, j))

    picked = builder.compute((5, 20), body, lambda i, j: [(load(positions, (i,)) < 6, "not a row of 6")])
    return _fused(builder.finish(picked))


def top_k() -> tuple[Kernel, ...]:
    """The indices of the three largest elements of each long row."""
    builder = GraphBuilder()
    return _fused(builder.finish(builder.top_k(builder.input(2, 300), 3, prefers_lower_index=True)))


def short_top_k() -> tuple[Kernel, ...]:
    """The indices of the three largest elements of each short row."""
    builder = GraphBuilder()
    return _fused(builder.finish(builder.top_k(builder.input(2, 40), 3, prefers_lower_index=True)))


def arg_max() -> tuple[Kernel, ...]:
    """The index of the largest element of each row."""
    builder = GraphBuilder()
    return _fused(builder.finish(builder.top_k(builder.input(2, 40), 1, prefers_lower_index=True)))


def _procedure(
    algorithm: Algorithm, *inputs: Value, builder: GraphBuilder, output: Shape
) -> tuple[Kernel, ...]:
    return _fused(builder.finish(builder.procedure(algorithm, *inputs, output=output)))


def scatter() -> tuple[Kernel, ...]:
    """Rows added to the rows of a value."""
    builder = GraphBuilder()
    destinations, updates = builder.input(9, type=Scalar.INT32), builder.input(9, 20)
    base = builder.input(6, 20)
    return _fused(
        builder.finish(
            builder.scatter(destinations, updates, output=(6, 20), reduction=ReductionOp.SUM, base=base)
        )
    )


def positions() -> tuple[Kernel, ...]:
    """The positions of elements that are not 0."""
    builder = GraphBuilder()
    return _procedure(Positions(), builder.input(30), builder=builder, output=(31,))


def distinct() -> tuple[Kernel, ...]:
    """The numbers of distinct elements."""
    builder = GraphBuilder()
    return _procedure(Distinct(), builder.input(30), builder=builder, output=(61,))


def key_search() -> tuple[Kernel, ...]:
    """The places of seven keys among thirty."""
    builder = GraphBuilder()
    inputs = (builder.input(30, type=Scalar.INT32), builder.input(7, type=Scalar.INT32))
    return _procedure(KeySearch(), *inputs, builder=builder, output=(7,))


def suppression() -> tuple[Kernel, ...]:
    """The best boxes that do not overlap, with lowered scores."""
    builder = GraphBuilder()
    inputs = (builder.input(20, 4), builder.input(20), *(builder.input(1) for _ in range(3)))
    return _procedure(Suppression(limit=5), *inputs, builder=builder, output=(11,))


def greedy_selection() -> tuple[Kernel, ...]:
    """The best boxes of each of two rows of scores that do not overlap."""
    builder = GraphBuilder()
    algorithm = GreedySelection(limit=5, iou_limit=0.5)
    inputs = (builder.input(1, 20, 4), builder.input(2, 20))
    return _procedure(algorithm, *inputs, builder=builder, output=(2, 6))


def draw() -> tuple[Kernel, ...]:
    """Five classes of each of two rows of weights."""
    builder = GraphBuilder()
    inputs = (builder.input(2, 20, type=Scalar.FLOAT64), builder.input(2, 5, type=Scalar.FLOAT64))
    return _procedure(Sampling(), *inputs, builder=builder, output=(2, 5))


def lookup_table() -> tuple[Kernel, ...]:
    """A quantised hyperbolic tangent."""
    builder = GraphBuilder()
    source = builder.input(300, type=Scalar.INT8)

    def body(i: Expression) -> Expression:
        real = apply(Op.TANH, load(source, (i,)).to(Scalar.FLOAT32) * 0.01) * 100 + 7
        return minimum(maximum(apply(Op.ROUND_AWAY, real), -128.0), 127.0).to(Scalar.INT8)

    return _fused(builder.finish(builder.compute((300,), body)))


def control_flow() -> tuple[Kernel, ...]:
    """A WHILE loop of three iterations that doubles a value, which is unrolled."""
    graph = models.Graph()
    value, result = graph.value(), graph.value()
    graph.builder.add_operation(
        nd.OperationType.WHILE,
        [
            graph.model(models.below(3.0, extra=1)),
            graph.model(models.counting(1.0, 2.0)),
            graph.constant([0.0]),
            value,
        ],
        [graph.value(shape=(1,)), result],
    )
    unrolled = structure_control_flow(graph.finish([value], [result]))
    lowered = build_graph(unrolled.model)
    transform(lowered)
    return _fused(lowered)


_AVX2, _VNNI, _I8MM = TARGETS["avx2"], TARGETS["avx512vnni"], TARGETS["aarch64i8mm"]
_HALF = replace(TARGETS["aarch64fp16"], is_relaxed=True)
#: Kernels by name. Targets are fixed, so that the text does not depend on the machine.
KERNELS: Mapping[str, tuple[Callable[[], tuple[Kernel, ...]], Target]] = {
    **{
        each.__name__: (each, _AVX2)
        for each in (
            elementwise,
            reduction,
            softmax,
            attention,
            convolution,
            winograd,
            depthwise,
            matrix_product,
            int8_product,
            int8_depthwise,
            transposition,
            gather,
            top_k,
            short_top_k,
            arg_max,
            scatter,
            positions,
            distinct,
            key_search,
            suppression,
            greedy_selection,
            draw,
            lookup_table,
            control_flow,
        )
    },
    "int8_product_vnni": (int8_product, _VNNI),
    "int8_product_i8mm": (int8_product, _I8MM),
    "half_product": (half_product, _HALF),
    "digit_product": (digit_product, _VNNI),
}


def modules(name: str) -> list[str]:
    """Returns the IR modules of an example's kernels, each after those of its subroutines."""
    make, target = KERNELS[name]
    texts = []
    for kernel in make():
        routine = generate(use_lookup_tables(kernel, target), target)
        called = sorted(routine.subroutines, key=lambda each: each.name)
        texts += [routine_unit(each).text for each in called]
        texts.append(f"; {routine.label}\n{routine_unit(routine).text}")
    return texts


def golden_text(name: str) -> str:
    """Returns all modules of an example."""
    return "\n".join(modules(name))
