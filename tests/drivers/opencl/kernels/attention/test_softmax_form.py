"""Softmaxes of scores are recognised however scores are scaled and masked; nothing else is."""

from collections.abc import Callable

from support.compiler.attention import MASKS, Form, attention, merged_attention, softmax
from support.compiler.graphs import GraphBuilder
from support.sweeps import sweep

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import AccumulatorRef, apply, axis, load, reduce
from neurald.drivers.compiler.ir.graph import Attention, Graph
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.traversal import walk
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.opencl.kernels.attention.softmax_form import SoftmaxForm, softmax_form
from neurald.drivers.opencl.platform.precision import Precision, lower_precision


def form_of(graph: Graph) -> SoftmaxForm | None:
    fused = merged_attention(graph)
    (node,) = (each.contraction for each in fused.kernels if isinstance(each.contraction, Attention))
    return softmax_form(node)


@sweep("precision", list(Precision))
@sweep("mask", MASKS)
@sweep("scales", ["queries", "scores", "nothing"])
def test_every_form_is_recognised(scales: str, mask: str, precision: Precision) -> None:
    graph = attention(Form(mask=mask, scales=scales))
    lower_precision(graph, precision)
    form = form_of(graph)
    assert form is not None
    assert form.scale == 1
    assert any(isinstance(each, AccumulatorRef) for each in walk(form.exponent))


def rows(weights: Callable[[Builder, Value], Value]) -> Graph:
    """Returns an attention with these weights of scores."""
    builder = GraphBuilder()
    query, key, value = (builder.input(2, 3, 4) for _ in range(3))
    scores = builder.matrix_product(query, key)
    return builder.finish(builder.matrix_product(weights(builder, scores), value, right_transposed=True))


def scaled_softmax(factor: float) -> Callable[[Builder, Value], Value]:
    """Returns a softmax whose differences are multiplied by a factor, as SOFTMAX's beta does."""

    def weights(builder: Builder, scores: Value) -> Value:
        first, second = axis(3, "r"), axis(3, "s")
        largest = builder.compute(
            (2, 3), lambda b, m: reduce(ReductionOp.MAXIMUM, (first,), load(scores, (b, m, first)))
        )
        powers = builder.compute(
            scores.shape,
            lambda b, m, n: apply(Op.EXP, (load(scores, (b, m, n)) - load(largest, (b, m))) * factor),
        )
        total = builder.compute(
            (2, 3), lambda b, m: reduce(ReductionOp.SUM, (second,), load(powers, (b, m, second)))
        )
        return builder.compute(scores.shape, lambda b, m, n: load(powers, (b, m, n)) / load(total, (b, m)))

    return weights


def test_the_factor_of_exponents_is_kept() -> None:
    form = form_of(rows(scaled_softmax(0.5)))
    assert form is not None
    assert form.scale == 0.5


def test_other_functions_of_rows_are_not_recognised() -> None:
    def averages(builder: Builder, scores: Value) -> Value:
        along = axis(3, "r")
        total = builder.compute(
            (2, 3), lambda b, m: reduce(ReductionOp.SUM, (along,), load(scores, (b, m, along)))
        )
        return builder.compute(scores.shape, lambda b, m, n: load(scores, (b, m, n)) / load(total, (b, m)))

    def halved(builder: Builder, scores: Value) -> Value:
        weights = softmax(builder, scores)  # type: ignore[arg-type]
        return builder.compute(scores.shape, lambda *at: load(weights, at) * 0.5)

    assert form_of(rows(averages)) is None
    assert form_of(rows(halved)) is None
    # Exponents that grow as scores fall are not bounded by the largest one.
    assert form_of(rows(scaled_softmax(-1.0))) is None
