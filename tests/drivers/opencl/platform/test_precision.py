"""Relaxed models: which values are stored as FLOAT16, and the error of results."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.compiler.graphs import GraphBuilder, random_array
from support.opencl.batch import BatchingDevice
from support.opencl.models import FLOAT, Models, random_inputs, random_model, run
from support.sweeps import sweep

import neurald as nd
from neurald.drivers.compiler.analysis.interpreter import evaluate, evaluate_fused
from neurald.drivers.compiler.analysis.verifier import verify
from neurald.drivers.compiler.ir.expression import Apply, Load, apply, axis, load, reduce
from neurald.drivers.compiler.ir.graph import Compute, Graph, inside
from neurald.drivers.compiler.ir.kernel import Kernel
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.opencl.device import PRECISION_VARIABLE, OpenClDevice, create
from neurald.drivers.opencl.platform.device_facts import DeviceKind
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.platform.precision import (
    Precision,
    lower_precision,
    preferred_precision,
    round_beside,
    round_stored_only,
)
from neurald.drivers.opencl.platform.reduction_order import SUMS_VARIABLE
from neurald.drivers.opencl.platform.storage import STORAGE_VARIABLE
from neurald.drivers.opencl.tuning.tuning import TUNING_VARIABLE
from neurald.hal.device import PrepareOptions
from neurald.hal.errors import BadData
from neurald.hal.model.model import Model
from neurald.hal.records import replace

FLOAT16_MODES = [Precision.F32_F16, Precision.F16]
#: Rounding error of a half, relative to the number that it stands for.
ROUNDING = 2.0**-11

_Op = nd.OperationType


def results(graph: Graph) -> tuple[list[np.ndarray[Any, Any]], list[np.ndarray[Any, Any]]]:
    generator = np.random.default_rng(0)
    inputs = [random_array(generator, value.shape, value.type) for value in graph.inputs]
    return inputs, evaluate(graph, inputs)


def chain() -> tuple[GraphBuilder, list[Value]]:
    """Returns a graph of exp of an input, padding, a reduction, and an integer count."""
    builder = GraphBuilder()
    source = builder.input(4, 6)
    values = [builder.compute((4, 6), lambda *at: apply(Op.EXP, load(source, at)))]
    values.append(
        builder.compute((4, 8), lambda i, j: load(values[0], (i, j - 1), inside((j - 1,), (6,)), 0.5))
    )
    along = axis(8, "r")
    values.append(
        builder.compute((4,), lambda i: reduce(ReductionOp.SUM, (along,), load(values[1], (i, along))))
    )
    values.append(builder.compute((4,), lambda i: load(values[2], (i,)).to(Scalar.INT32)))
    return builder, values


@sweep("precision", FLOAT16_MODES)
def test_values_that_kernels_do_not_store_are_not_rounded(precision: Precision) -> None:
    builder = GraphBuilder()
    source = builder.input(4, 6)
    first = builder.compute((4, 6), lambda *at: apply(Op.EXP, load(source, at)))
    graph = builder.finish(builder.compute((4, 6), lambda *at: apply(Op.TANH, load(first, at))))
    lower_precision(graph, precision)

    def conversions(kernel: Kernel) -> int:
        return sum(isinstance(each, Apply) and each.op is Op.CONVERT for each in kernel.expressions)

    fused = fuse(graph, is_row_wise=lambda _: True)
    assert [conversions(kernel) for kernel in fused.kernels] == [2]
    assert [conversions(kernel) for kernel in round_stored_only(fused).kernels] == [0]


@sweep("precision", FLOAT16_MODES)
def test_copies_of_float16_values_are_not_converted(precision: Precision) -> None:
    builder = GraphBuilder()
    source = builder.input(4, 6)
    first = builder.compute((4, 6), lambda *at: apply(Op.EXP, load(source, at)))
    moved = builder.compute((6, 4), lambda i, j: load(first, (j, i)))
    graph = builder.finish(builder.compute((6, 4), lambda *at: load(moved, at) + 1.0))
    lower_precision(graph, precision)
    assert isinstance(graph.nodes[1], Compute)
    assert isinstance(graph.nodes[1].body, Load)


@sweep("precision", FLOAT16_MODES)
def test_intermediate_values_are_float16(precision: Precision) -> None:
    builder, values = chain()
    graph = builder.finish(values[2], values[3])
    inputs, (exact, counted) = results(graph)
    lower_precision(graph, precision)
    verify(graph)
    assert [node.output.type for node in graph.nodes] == [
        Scalar.FLOAT16,
        Scalar.FLOAT16,
        Scalar.FLOAT32,
        Scalar.INT32,
    ]
    assert [value.type for value in graph.inputs] == [Scalar.FLOAT32]
    total, count = evaluate(graph, inputs)
    # Every element is rounded when it is first stored; moving it and summing it adds nothing.
    np.testing.assert_allclose(total, exact, rtol=ROUNDING)
    assert np.abs(count.astype(int) - counted).max() <= 1


@sweep("precision", FLOAT16_MODES)
def test_error_bounds_of_products(precision: Precision) -> None:
    builder = GraphBuilder()
    left, weights = builder.input(5, 40), builder.weights(7, 40)
    graph = builder.finish(builder.matrix_product(left, weights))
    inputs, (exact,) = results(graph)
    lower_precision(graph, precision)
    verify(graph)
    (result,) = evaluate(graph, inputs)
    assert result.dtype == np.float32
    assert weights.constant is not None
    bound = np.abs(inputs[0]) @ np.abs(weights.constant).T
    assert (np.abs(result - exact) <= 2 * ROUNDING * bound + 1e-5).all()
    assert (result != exact).any()


def network() -> tuple[GraphBuilder, Value]:
    """Returns a product of an input, a convolution of its result, and a product of the sums of
    that.
    """
    builder = GraphBuilder()
    first = builder.matrix_product(builder.input(4, 8), builder.weights(6, 8))
    image = builder.compute((1, 2, 2, 6), lambda n, y, x, c: apply(Op.TANH, load(first, (y * 2 + x, c))))
    second = builder.convolution(image, builder.weights(5, 1, 1, 6), output=(1, 2, 2, 5))
    return builder, builder.matrix_product(builder.reshape(second, (4, 5)), builder.weights(3, 5))


@sweep(
    ("precision", "lefts"),
    [
        (Precision.F32, [Scalar.FLOAT32, Scalar.FLOAT32, Scalar.FLOAT32]),
        (Precision.F32_F16, [Scalar.FLOAT32, Scalar.FLOAT16, Scalar.FLOAT16]),
        (Precision.F16, [Scalar.FLOAT16, Scalar.FLOAT16, Scalar.FLOAT16]),
    ],
    ids=lambda each: each.value if isinstance(each, Precision) else "",
)
def test_which_factors_are_float16(precision: Precision, lefts: list[Scalar]) -> None:
    """Intermediate values and weights in both modes, inputs of the model only in F16."""
    builder, output = network()
    graph = builder.finish(output)
    lower_precision(graph, precision)
    verify(graph)
    products = [node for node in graph.nodes if not isinstance(node, Compute)]
    assert [node.inputs[0].type for node in products] == lefts
    weights = {node.inputs[1].type for node in products}
    assert weights == {Scalar.FLOAT32 if precision is Precision.F32 else Scalar.FLOAT16}
    assert {node.output.type for node in products} == {Scalar.FLOAT32}


def test_inputs_are_rounded_in_one_mode_only() -> None:
    """F32_F16 is exact if the weights are float16 numbers."""
    errors = {}
    for precision in FLOAT16_MODES:
        builder = GraphBuilder()
        left, weights = builder.input(5, 40), builder.constant(np.eye(7, 40, dtype=np.float32))
        graph = builder.finish(builder.matrix_product(left, weights))
        inputs, (exact,) = results(graph)
        lower_precision(graph, precision)
        errors[precision] = np.abs(evaluate(graph, inputs)[0] - exact).max()
    assert errors[Precision.F32_F16] == 0
    assert 0 < errors[Precision.F16] <= 4 * ROUNDING


def extended_keys(rows: int) -> tuple[Graph, Value]:
    """Returns a product of queries with earlier and new keys, which are an output, and
    these keys.
    """
    builder, length = GraphBuilder(), 7
    cache, query = builder.input(2, length, 8), builder.input(2, rows, 8)
    new = builder.input(2, 1, 8)
    keys = builder.compute(
        (2, length + 1, 8),
        lambda i, j, k: load(
            cache,
            (i, j, k),
            inside((j,), (length,)),
            load(new, (i, j - length, k), inside((j - length,), (1,)), 0.0),
        ),
    )
    scores = builder.matrix_product(query, keys, type=Scalar.FLOAT32)
    return builder.finish(scores, keys), keys


def test_copies_for_products_do_not_wait_for_outputs() -> None:
    graph, keys = extended_keys(rows=5)
    lower_precision(graph, Precision.F16)
    fused = round_beside(fuse(graph, is_row_wise=lambda _: True))
    readers = [kernel for kernel in fused.kernels if keys in kernel.inputs]
    assert not readers
    inputs, expected = results(graph)
    for found, other in zip(evaluate_fused(fused, inputs), expected, strict=True):
        np.testing.assert_allclose(found, other, rtol=1e-6)


def test_products_of_few_rows_read_what_is_float32() -> None:
    graph, keys = extended_keys(rows=4)
    inputs, (exact, _) = results(graph)
    lower_precision(graph, Precision.F16)
    verify(graph)
    (product,) = (node for node in graph.nodes if not isinstance(node, Compute))
    assert [value.type for value in product.inputs] == [Scalar.FLOAT16, Scalar.FLOAT32]
    assert product.inputs[1] is keys
    np.testing.assert_allclose(evaluate(graph, inputs)[0], exact, rtol=2e-3, atol=2e-3)


@sweep("precision", FLOAT16_MODES)
def test_long_sums_keep_androids_tolerance(precision: Precision) -> None:
    """FLOAT32 accumulators stay within 5 · 2^-10 of the result for the lengths that layers have,
    float16 ones would not.
    """
    limit, depth = 5 * 2.0**-10, 4096
    builder = GraphBuilder()
    left, weights = builder.input(1, depth), builder.constant(np.full((1, depth), 0.75, np.float32))
    graph = builder.finish(builder.matrix_product(left, weights))
    lower_precision(graph, precision)
    values = np.random.default_rng(0).uniform(0.5, 1, (1, depth)).astype(np.float32)
    exact = float(values.astype(np.float64).sum() * 0.75)
    assert abs(float(evaluate(graph, [values])[0][0, 0]) - exact) <= limit * exact
    total = np.float16(0)
    for each in values[0].astype(np.float16):
        total = total + each * np.float16(0.75)
    assert abs(float(total) - exact) > limit * exact


def test_constants_beyond_float16_become_infinite() -> None:
    builder = GraphBuilder()
    large = builder.constant(np.array([1e9, -1e9, 1.0], np.float32))
    source = builder.input(3)
    graph = builder.finish(builder.compute((3,), lambda i: load(source, (i,)) + load(large, (i,))))
    lower_precision(graph, Precision.F16)
    (result,) = evaluate(graph, [np.zeros(3, np.float32)])
    np.testing.assert_array_equal(result, [np.inf, -np.inf, 1])


def test_other_types_and_the_mode_f32_change_nothing() -> None:
    builder = GraphBuilder()
    source, weights = builder.input(3, 4, type=Scalar.INT8), builder.weights(5, 4, type=Scalar.INT8)
    product = builder.matrix_product(source, weights, type=Scalar.INT32)
    graph = builder.finish(builder.compute((3, 5), lambda *at: load(product, at) + 1))
    inputs, (expected,) = results(graph)
    lower_precision(graph, Precision.F16)
    verify(graph)
    np.testing.assert_array_equal(evaluate(graph, inputs)[0], expected)

    builder, values = chain()
    graph = builder.finish(values[-1])
    nodes = list(graph.nodes)
    lower_precision(graph, Precision.F32)
    assert graph.nodes == nodes


def test_cpus_do_not_use_float16(opencl: DeviceContext) -> None:
    assert preferred_precision(replace(opencl.facts, kind=DeviceKind.GPU)) is Precision.F16
    assert preferred_precision(replace(opencl.facts, kind=DeviceKind.CPU)) is Precision.F32


def relaxed_model(seed: int) -> Model:
    """Returns two layers with a softmax."""
    models = Models(seed)
    source = models.input(FLOAT, (3, 24))
    hidden = models.add(
        _Op.FULLY_CONNECTED,
        [
            source,
            models.constant(models.generator.normal(size=(32, 24)) * 0.2),
            models.constant(models.generator.normal(size=32)),
            models.number(1),
        ],
        shape=(3, 32),
    )
    scaled = models.add(_Op.TANH, [hidden], shape=(3, 32))
    logits = models.add(
        _Op.FULLY_CONNECTED,
        [
            scaled,
            models.constant(models.generator.normal(size=(10, 32)) * 0.2),
            models.constant(models.generator.normal(size=10)),
            models.number(0),
        ],
        shape=(3, 10),
    )
    return models.finish(
        logits, models.add(_Op.SOFTMAX, [logits, models.number(1.0)], shape=(3, 10)), relaxed=True
    )


@pytest.mark.parametrize("precision", Precision)
def test_relaxed_models_on_the_device(
    opencl: DeviceContext, precision: Precision, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PRECISION_VARIABLE, precision.value)
    device, cpu = BatchingDevice(opencl.facts), nd.devices()[0]
    models = [relaxed_model(seed) for seed in range(2)]
    device.build(models)
    for model in models:
        inputs = random_inputs(model)
        found, exact = (
            run(each.prepare_model(model, PrepareOptions()), model, inputs) for each in (device, cpu)
        )
        # The second layer sums 32 products of numbers up to 1 and weights of about 0.2.
        bound = 1e-5 if precision is Precision.F32 else 4 * ROUNDING * 32 * 0.2
        for result, expected in zip(found, exact, strict=True):
            assert np.abs(result - expected).max() <= bound


def test_only_relaxed_models_use_float16(opencl: DeviceContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PRECISION_VARIABLE, "f16")
    model = random_model(0, operations=2)
    device, cpu = OpenClDevice(opencl.facts), nd.devices()[0]
    inputs = random_inputs(model)
    found, exact = (run(each.prepare_model(model, PrepareOptions()), model, inputs) for each in (device, cpu))
    for result, expected in zip(found, exact, strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_an_unknown_mode_is_refused(opencl: DeviceContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PRECISION_VARIABLE, "f8")
    with pytest.raises(BadData, match="f32, f32_f16, f16"):
        OpenClDevice(opencl.facts).prepare_model(relaxed_model(0), PrepareOptions())


def test_the_precision_is_part_of_cache_keys(
    opencl: DeviceContext, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    model = relaxed_model(0)
    found = []
    for precision in ("f16", "f32", "f16"):
        monkeypatch.setenv(PRECISION_VARIABLE, precision)
        builder = nd.CompilationBuilder(model, [OpenClDevice(opencl.facts)])
        builder.set_caching(tmp_path, bytes(32))
        found.append(builder.finish().report.steps[0].cache.value)
    assert found == ["miss", "miss", "hit"]


@sweep(
    ("variable", "text"),
    [
        (PRECISION_VARIABLE, "f32_f16"),
        (TUNING_VARIABLE, "exhaustive"),
        (SUMS_VARIABLE, "ordered"),
        (STORAGE_VARIABLE, "image"),
        ("NEURALD_OPENCL_OF_THE_FUTURE", "1"),
    ],
)
def test_settings_are_part_of_the_version(
    opencl: DeviceContext, monkeypatch: pytest.MonkeyPatch, variable: str, text: str
) -> None:
    monkeypatch.delenv(variable, raising=False)
    plain = create().version
    monkeypatch.setenv(variable, text)
    assert create().version != plain


def test_limits_are_part_of_the_version(opencl: DeviceContext) -> None:
    facts = opencl.facts
    versions = {
        OpenClDevice(each).version
        for each in (
            facts,
            replace(facts, compute_units=facts.compute_units + 1),
            replace(facts, max_work_group_size=facts.max_work_group_size * 2),
            replace(facts, has_fp64=not facts.has_fp64),
        )
    }
    assert len(versions) == 4
    assert OpenClDevice(facts, is_fused=False).version not in versions
    assert OpenClDevice(replace(facts, device_index=facts.device_index + 1)).version in versions
