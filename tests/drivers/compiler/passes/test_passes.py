"""All passes together, on random graphs."""

import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.compiler.graphs import GraphBuilder, changes

from neurald.drivers.compiler.analysis.interpreter import evaluate, evaluate_fused
from neurald.drivers.compiler.analysis.verifier import InvalidGraph
from neurald.drivers.compiler.ir.expression import axis, load, reduce
from neurald.drivers.compiler.ir.graph import Graph, inside
from neurald.drivers.compiler.ir.op import ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes import PASSES, transform
from neurald.drivers.compiler.passes.fusion.fusion import fuse

#: Returns a value computed from another one; None if its shape does not fit.
Grow = Callable[[GraphBuilder, random.Random, Value], Value | None]


SEEDS = st.integers(0, 2**32)


def reshape(b: GraphBuilder, generator: random.Random, value: Value) -> Value | None:
    shape = [1] * generator.randrange(1, 5)
    for factor in (2, 2, 3, 5, 7, 11):
        left = value.count
        for length in shape:
            left //= length
        while left % factor == 0 and left > 1:
            shape[generator.randrange(len(shape))] *= factor
            left //= factor
    return b.reshape(value, tuple(shape)) if np.prod(shape) == value.count else None


def transpose(b: GraphBuilder, generator: random.Random, value: Value) -> Value:
    order = generator.sample(range(len(value.shape)), len(value.shape))
    shape = tuple(value.shape[each] for each in order)
    return b.compute(shape, lambda *at: load(value, tuple(at[order.index(n)] for n in range(len(order)))))


def copy(b: GraphBuilder, generator: random.Random, value: Value) -> Value:
    return b.compute(value.shape, lambda *at: load(value, at))


def scale(b: GraphBuilder, generator: random.Random, value: Value) -> Value:
    factors = b.weights(value.shape[-1], type=value.type) if value.shape else None
    if factors is None or generator.random() < 0.3:
        return b.compute(value.shape, lambda *at: load(value, at) * 2)
    return b.compute(value.shape, lambda *at: load(value, at) * load(factors, (at[-1],)))


def fold(b: GraphBuilder, generator: random.Random, value: Value) -> Value | None:
    if not value.shape:
        return None
    along = axis(value.shape[-1])
    return b.compute(
        value.shape[:-1], lambda *at: reduce(ReductionOp.MAXIMUM, (along,), load(value, (*at, along)))
    )


def pad(b: GraphBuilder, generator: random.Random, value: Value) -> Value:
    pads = [
        (generator.randrange(3), generator.randrange(3)) if dimension in (1, 2) else (0, 0)
        for dimension in range(len(value.shape))
    ]
    shape = tuple(n + before + after for n, (before, after) in zip(value.shape, pads, strict=True))

    def body(*at):  # type: ignore[no-untyped-def]
        indices = tuple(i - before for i, (before, _) in zip(at, pads, strict=True))
        return load(value, indices, inside(indices, value.shape), generator.choice((0, 0, 3)))

    return b.compute(shape, body)


def convolution(b: GraphBuilder, generator: random.Random, value: Value) -> Value | None:
    if len(value.shape) != 4 or value.type is Scalar.INT64:
        return None
    images, height, width, depth = value.shape
    kernel = generator.choice((1, min(height, 3), height)), generator.choice((1, min(width, 3), width))
    groups = generator.choice((1, 1, depth))
    padding = tuple((generator.randrange(2), generator.randrange(2)) for _ in range(2))
    stride = generator.randrange(1, 3), generator.randrange(1, 3)
    rows, columns = (
        (length + sum(pads) - k) // s + 1
        for length, pads, k, s in zip((height, width), padding, kernel, stride, strict=True)
    )
    zero = 0 if value.type.is_float else generator.choice((0, 3))
    weights = b.weights(groups * generator.randrange(1, 3), *kernel, depth // groups, type=value.type)
    return b.convolution(
        value,
        weights,
        output=(images, rows, columns, weights.shape[0]),
        type=value.type,
        stride=stride,
        padding=padding,  # type: ignore[arg-type]
        groups=groups,
        input_zero=zero,
    )


def product(b: GraphBuilder, generator: random.Random, value: Value) -> Value | None:
    if len(value.shape) < 2 or value.type is Scalar.INT64:
        return None
    is_left_transposed, is_transposed = generator.random() < 0.3, generator.random() < 0.5
    depth, columns = value.shape[-2 if is_left_transposed else -1], generator.randrange(1, 4)
    weights = b.weights(*((depth, columns) if is_transposed else (columns, depth)), type=value.type)
    return b.matrix_product(
        value,
        weights,
        type=value.type,
        left_transposed=is_left_transposed,
        right_transposed=is_transposed,
    )


def square(b: GraphBuilder, generator: random.Random, value: Value) -> Value | None:
    if len(value.shape) < 2:
        return None
    return b.matrix_product(value, transpose_last(b, value), type=value.type, right_transposed=True)


def transpose_last(b: GraphBuilder, value: Value) -> Value:
    shape = (*value.shape[:-2], value.shape[-1], value.shape[-2])
    return b.compute(shape, lambda *at: load(value, (*at[:-2], at[-1], at[-2])))


GROW: tuple[Grow, ...] = (
    reshape,
    reshape,
    transpose,
    copy,
    scale,
    fold,
    pad,
    convolution,
    convolution,
    product,
    square,
)


def random_graph(generator: random.Random) -> Graph:
    b = GraphBuilder(generator.randrange(1 << 30))
    kind = generator.choice((Scalar.FLOAT32, Scalar.INT32))
    values = [b.input(2, 4, 3, 2, type=kind), b.input(6, 5, type=kind), b.weights(1, 3, 3, 2, type=kind)]
    for _ in range(generator.randrange(1, 14)):
        value = generator.choice(values[-4:])
        if value.count > 2000:
            continue
        grown = generator.choice(GROW)(b, generator, value)
        if grown is not None:
            values.append(grown)
            if generator.random() < 0.2:
                values.append(b.compute(grown.shape, lambda *at, v=grown: load(v, at) * 2))
    outputs = generator.choices(values, k=2)
    # The magnitudes stay small, so that sums can be compared.
    bounded = [
        b.compute(v.shape, lambda *at, v=v: load(v, at) * (1 if kind.is_integer else 1e-2)) for v in outputs
    ]
    return b.finish(*bounded, values[-1], generator.choice(values))


@settings(max_examples=150)
@given(SEEDS)
# Some readers of these values are unused.
@example(569289999)
def test_all_passes_keep_the_results(seed: int) -> None:
    graph = random_graph(random.Random(seed))
    changes(graph, transform)
    assert not any(transformation(graph) for transformation in PASSES)


@settings(max_examples=50)
@given(SEEDS, st.sampled_from(PASSES))
def test_each_pass_keeps_the_results(seed: int, transformation: Callable[[Graph], bool]) -> None:
    changes(random_graph(random.Random(seed)), transformation)


@settings(max_examples=50)
@given(SEEDS)
def test_fusion_after_the_passes_keeps_the_results(seed: int) -> None:
    graph = random_graph(random.Random(seed))
    transform(graph)
    inputs = [
        np.asarray(np.random.default_rng(1).integers(-3, 4, value.shape), value.type.dtype)
        for value in graph.inputs
    ]
    for one, other in zip(evaluate(graph, inputs), evaluate_fused(fuse(graph), inputs), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-3)


def test_passes_enable_each_other() -> None:
    """Uses a copy of padding, grouped weights, and equal nodes."""
    b = GraphBuilder()
    source = b.input(1, 4, 4, 3)
    generator = random.Random(0)
    results = []
    weights = b.weights(3, 3, 3, 1)
    for _ in range(2):
        shape = (1, 6, 6, 3)
        image = b.compute(
            shape,
            lambda n, y, x, c: load(source, (n, y - 1, x - 1, c), inside((n, y - 1, x - 1, c), source.shape)),
        )
        sums = b.convolution(
            copy(b, generator, image), copy(b, generator, weights), output=(1, 4, 4, 3), groups=3
        )
        results.append(b.reshape(b.reshape(sums, (48,)), (4, 12)))
    first, second = results
    graph = b.finish(b.compute((4, 12), lambda i, j: load(first, (i, j)) + load(second, (i, j))))
    assert changes(graph, transform)
    assert [type(node).__name__ for node in graph.nodes] == ["DepthwiseConvolution", "Compute", "Compute"]


def test_an_invalid_graph_is_refused() -> None:
    b = GraphBuilder()
    source = b.input(3)
    output = b.compute((3,), lambda i: load(source, (i,)))
    b.graph.outputs = [output]
    output.shape = (4,)
    with pytest.raises(InvalidGraph, match=r"Compute value FLOAT32 \[4\]: the axes have extents \[3\]"):
        transform(b.graph)


def test_a_pass_that_breaks_the_graph_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(graph: Graph) -> bool:
        graph.nodes = graph.nodes[1:]
        return True

    b = GraphBuilder()
    source = b.input(3)
    graph = b.finish(b.compute((3,), lambda i: load(source, (i,)) * 2.0))
    monkeypatch.setattr("neurald.drivers.compiler.passes.PASSES", (lose,))
    with pytest.raises(InvalidGraph, match="before it is computed"):
        transform(graph)
