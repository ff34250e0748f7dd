"""Graphs of attention in many forms."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from support.compiler.graphs import GraphBuilder, random_array

from neurald.drivers.compiler.analysis.interpreter import Array, evaluate_kernel
from neurald.drivers.compiler.ir.expression import Expression, apply, axis, constant, load, reduce, select
from neurald.drivers.compiler.ir.graph import Graph
from neurald.drivers.compiler.ir.kernel import FusedGraph, Kernel
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.contraction.attention_merging import merge_attention
from neurald.drivers.compiler.passes.fusion.fusion import fuse

#: Ways to mask scores.
MASKS = ("none", "causal", "padding", "full", "select", "bias")


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One form of attention.

    Attributes:
        heads, rows, columns, depth, features: the sizes.
        key_heads: heads of keys and values; each is shared by as many heads of queries.
        is_split: True if heads are parts of the last dimension of the inputs and of the result, and
            transposed; else they are a dimension of their own.
        has_columns_last: True if keys are stored as (heads, depth, columns).
        mask: see `MASKS`.
        scales: what is scaled: queries, scores or nothing.
        appended: how many of the keys and values are inputs of their own, which are concatenated
            with the others; those must not be split.
        is_kept: True if what is concatenated are outputs as well.
    """

    heads: int = 2
    rows: int = 5
    columns: int = 7
    depth: int = 4
    features: int = 4
    key_heads: int = 0
    is_split: bool = True
    has_columns_last: bool = False
    mask: str = "none"
    scales: str = "scores"
    appended: int = 0
    is_kept: bool = False


def attention(form: Form, seed: int = 0) -> Graph:
    """Returns the graph of an attention; its inputs are queries, keys, values and any mask."""
    builder = GraphBuilder(seed)
    shared = form.heads // (form.key_heads or form.heads)
    query = _operand(builder, form, form.heads, form.rows, form.depth)
    key, value = (
        _operand(builder, form, form.heads // shared, form.columns - form.appended, width)
        for width in (form.depth, form.features)
    )
    if form.appended:
        key, value = (_appended(builder, each, form.appended) for each in (key, value))
    kept = (key, value) if form.is_kept else ()
    if shared > 1:
        key, value = (_repeated(builder, each, shared) for each in (key, value))
    if form.scales == "queries":
        unscaled = query
        query = builder.compute(query.shape, lambda *at: load(unscaled, at) * 0.3)
    if form.has_columns_last:
        rows = key
        key = builder.compute((form.heads, form.depth, form.columns), lambda h, k, n: load(rows, (h, n, k)))
    sums = builder.matrix_product(query, key, right_transposed=form.has_columns_last)
    if form.scales == "scores":
        unscaled_sums = sums
        sums = builder.compute(sums.shape, lambda *at: load(unscaled_sums, at) * 0.3)
    weights = softmax(builder, _masked(builder, form, sums))
    result = builder.matrix_product(weights, value, right_transposed=True)
    if form.is_split:
        heads = result
        result = builder.compute(
            (form.rows, form.heads * form.features),
            lambda m, c: load(heads, (c // form.features, m, c % form.features)),
        )
    return builder.finish(result, *kept)


def _appended(builder: GraphBuilder, first: Value, rows: int) -> Value:
    """Concatenates rows of FLOAT16, which are an input, with others."""
    heads, before, width = first.shape
    second = builder.input(heads, rows, width, type=Scalar.FLOAT16)

    def element(h: Expression, n: Expression, k: Expression) -> Expression:
        rest = load(second, (h, n - before, k), n >= before, 0)
        return load(first, (h, n, k), n < before, rest.to(Scalar.FLOAT32))

    return builder.compute((heads, before + rows, width), element)


def _operand(builder: GraphBuilder, form: Form, heads: int, rows: int, width: int) -> Value:
    if not form.is_split:
        return builder.input(heads, rows, width)
    source = builder.input(rows, heads * width)
    return builder.compute((heads, rows, width), lambda h, m, k: load(source, (m, h * width + k)))


def _repeated(builder: GraphBuilder, value: Value, times: int) -> Value:
    shape = (value.shape[0] * times, *value.shape[1:])
    return builder.compute(shape, lambda h, n, k: load(value, (h // times, n, k)))


def _masked(builder: GraphBuilder, form: Form, scores: Value) -> Value:
    if form.mask == "none":
        return scores
    if form.mask == "select":
        keep = builder.input(form.rows, form.columns, type=Scalar.BOOL)
        return builder.compute(
            scores.shape, lambda h, m, n: select(load(keep, (m, n)), load(scores, (h, m, n)), -1e9)
        )
    if form.mask == "bias":
        bias = builder.input(form.heads, form.rows, form.columns)
        return builder.compute(scores.shape, lambda *at: load(scores, at) + load(bias, at))
    low = constant(-np.inf if form.mask == "full" else -3.4e38, Scalar.FLOAT32)
    if form.mask == "padding":
        last = builder.input(1, type=Scalar.INT32)

        def padded(h: Expression, m: Expression, n: Expression) -> Expression:
            is_kept = n.to(Scalar.INT32) < load(last, (m * 0,))
            return load(scores, (h, m, n)) + select(is_kept, 0.0, low)

        return builder.compute(scores.shape, padded)
    # With "full", nothing is left of the first row.
    first = 1 if form.mask == "full" else 0
    return builder.compute(
        scores.shape, lambda h, m, n: load(scores, (h, m, n)) + select(n < m + (1 - first), 0.0, low)
    )


def softmax(builder: GraphBuilder, scores: Value) -> Value:
    """Appends a softmax of each row, in the form of its lowering."""
    *outer, length = scores.shape

    def along(how: ReductionOp, element: object) -> Value:
        def body(*at: Expression) -> Expression:
            place = axis(length, "r")
            return reduce(how, (place,), element(*at, place))  # type: ignore[operator]

        return builder.compute(tuple(outer), body)

    largest = along(ReductionOp.MAXIMUM, lambda *at: load(scores, at))

    def power(*at: Expression) -> Expression:
        return apply(Op.EXP, load(scores, at) - load(largest, at[:-1]))

    total = along(ReductionOp.SUM, power)
    return builder.compute(
        scores.shape, lambda *at: power(*at) * (constant(1.0, Scalar.FLOAT32) / load(total, at[:-1]))
    )


def attention_inputs(graph: Graph, seed: int) -> list[Array]:
    """Returns random inputs of a graph, whose lengths are 4."""
    generator = np.random.default_rng(seed)
    arrays = [random_array(generator, value.shape, value.type) for value in graph.inputs]
    return [np.full_like(each, 4) if each.dtype == np.int32 else each for each in arrays]


def merged_attention(graph: Graph, fits: Callable[[Kernel], bool] = lambda _: True) -> FusedGraph:
    """Returns the kernels of a graph, of which those of an attention that `fits` are merged."""
    return merge_attention(fuse(graph, is_row_wise=lambda _: True), fits)


def with_aliases(fused: FusedGraph, known: Mapping[Value, Array]) -> dict[Value, Array]:
    """Returns known values, and those that are the same elements in another shape."""
    found = {value: known[owner] for value, owner in fused.aliases.items() if owner in known}
    return {**known, **{value: array.reshape(value.shape) for value, array in found.items()}}


def operands_of_last(fused: FusedGraph, inputs: Mapping[Value, Array]) -> dict[Value, Array]:
    """Returns the inputs of a graph and what all kernels but the last one compute of them."""
    known = with_aliases(fused, inputs)
    for kernel in fused.kernels[:-1]:
        known[kernel.output] = evaluate_kernel(kernel, known)
        known = with_aliases(fused, known)
    return known
