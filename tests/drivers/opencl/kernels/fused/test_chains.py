"""Chains of kernels that become one: which are found, and that results are the same."""

from collections.abc import Sequence
from unittest.mock import patch

import numpy as np
import pytest
from support.opencl.adding import without_ptx
from support.opencl.models import FLOAT, Models, expect_close, prepared_from, random_inputs, run
from support.opencl.normalized import Network
from support.sweeps import sweep
from support.tiers import one_in

import neurald as nd
from neurald.drivers.compiler.frontend.graph_builder import build_graph
from neurald.drivers.compiler.passes import transform
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.opencl.compiler import compile_model
from neurald.drivers.opencl.kernels.equal_kernels import EqualKernels
from neurald.drivers.opencl.kernels.fused.chains import KernelChain, chains_of
from neurald.drivers.opencl.kernels.gemm import warpgroup, warpgroup_pipeline
from neurald.drivers.opencl.kernels.normalized.folding import fold_normalizations
from neurald.drivers.opencl.kernels.normalized.row_moments import measured_matrix
from neurald.drivers.opencl.platform.device_facts import DeviceFacts, DeviceKind
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.opencl.platform.precision import Precision
from neurald.drivers.opencl.platform.reduction_order import ReductionOrder
from neurald.hal.device import PrepareOptions
from neurald.hal.model.model import Model
from neurald.hal.records import replace

_Op = nd.OperationType
_RELU6 = 3


def facts_of(opencl: DeviceContext) -> DeviceFacts:
    """Returns a GPU with the other properties of the device."""
    return replace(opencl.facts, kind=DeviceKind.GPU, compute_units=16)


class Networks(Models):
    """Chains of depthwise and 1 × 1 convolutions over a small image."""

    def separable(
        self, source: int, shape: tuple[int, ...], outputs: int, stride: int = 1
    ) -> tuple[int, int, tuple[int, ...]]:
        """Appends both convolutions of `source`; returns the values after each one, and the shape
        of the last one.
        """
        images, height, width, channels = shape
        random = np.random.default_rng(channels + outputs)

        def weights(*lengths: int) -> int:
            return self.constant(random.standard_normal(lengths).astype(np.float32))

        size = (images, -(-height // stride), -(-width // stride))
        step, same, relu6 = self.number(stride), self.number(1), self.number(_RELU6)
        between = self.add(
            _Op.DEPTHWISE_CONV_2D,
            [source, weights(1, 3, 3, channels), weights(channels), same, step, step, self.number(1), relu6],
            FLOAT,
            (*size, channels),
        )
        one = self.number(1)
        after = self.add(
            _Op.CONV_2D,
            [between, weights(outputs, 1, 1, channels), weights(outputs), same, one, one, self.number(0)],
            FLOAT,
            (*size, outputs),
        )
        return between, after, (*size, outputs)


def pairs_among(chains: Sequence[KernelChain]) -> tuple[KernelChain, ...]:
    return tuple(each for each in chains if len(each.members) == 2)


def pairs(model: Model, facts: DeviceFacts) -> tuple[KernelChain, ...]:
    graph = build_graph(model, {})
    transform(graph)
    fused = fuse(graph, enabled=True, is_row_wise=lambda _: True)
    return pairs_among(chains_of(fused, fused.kernels, facts, EqualKernels()))


def chain(seed: int, *, length: int = 3, channels: int = 8) -> Model:
    """Returns a model of several pairs in a row, with a residual sum around the second one."""
    random = np.random.default_rng(seed)
    models = Networks(seed)
    shape: tuple[int, ...] = (int(random.integers(1, 3)), *map(int, random.integers(3, 9, 2)), channels)
    value = models.input(FLOAT, shape)
    for number in range(length):
        stride = 1 if number == 1 else int(random.integers(1, 3))
        outputs = shape[3] if number == 1 else channels // 2 * int(random.integers(1, 6))
        _, after, following = models.separable(value, shape, outputs, stride)
        if number == 1:
            after = models.add(_Op.ADD, [after, value, models.number(0)], FLOAT, following)
        value, shape = after, following
    return models.finish(value)


@pytest.mark.parametrize("seed", range(4))
def test_pairs_compute_the_same(opencl: DeviceContext, seed: int) -> None:
    model = chain(seed)
    taken: list[KernelChain] = []

    def choose(kernels, chains):  # type: ignore[no-untyped-def]
        taken.extend(pairs_among(chains))
        chosen = [sources[0] for sources in kernels]
        for pair in taken:
            chosen[pair.members[0]], chosen[pair.members[1]] = None, pair.sources[seed % len(pair.sources)]
        return chosen

    compiled = compile_model(model, {}, facts_of(opencl), precision=Precision.F32, choose=choose)
    assert len(taken) == 3
    assert len(compiled.executable.calls) == 3
    positions = [number for call in compiled.executable.calls for number in call.operations]
    assert positions == list(range(len(model.main.operations)))
    prepared = prepared_from(opencl, compiled, compiled.executable.text)
    inputs = random_inputs(model)
    expected = run(nd.devices()[0].prepare_model(model, PrepareOptions()), model, inputs)
    expect_close(run(prepared, model, inputs), expected, 1e-4)


@pytest.mark.parametrize("seed", one_in(2, range(6)))
def test_split_k_outputs_are_cleared(opencl: DeviceContext, seed: int) -> None:
    model = chain(seed, channels=144)
    facts = replace(facts_of(opencl), compute_units=64)
    if not facts.is_nvidia:
        facts = replace(facts, is_nvidia=True, compute_capability=(7, 0))

    def choose(kernels, chains):  # type: ignore[no-untyped-def]
        chosen = [sources[0] for sources in kernels]
        for pair in pairs_among(chains):
            adding = [each for each in pair.sources if each.adds]
            # Some have too few channels for that.
            source = adding[seed % len(adding)] if adding else pair.sources[0]
            chosen[pair.members[0]], chosen[pair.members[1]] = None, source
        return chosen

    compiled = compile_model(model, {}, facts, precision=Precision.F32, choose=choose)
    labels = [call.label for call in compiled.executable.calls]
    added = sum("added" in label for label in labels)
    assert added == sum("clears" in label for label in labels) > 0
    assert len(labels) == 3 + added
    text = compiled.executable.text
    if not opencl.facts.is_nvidia:
        text = without_ptx(text)
    prepared = prepared_from(opencl, compiled, text)
    inputs = random_inputs(model)
    expected = run(nd.devices()[0].prepare_model(model, PrepareOptions()), model, inputs)
    for _ in range(2):
        # Results are in the hundreds.
        expect_close(run(prepared, model, inputs), expected, 2e-3)


@sweep(("outputs", "is_supported"), [(24, True), (18, False)])
def test_outputs_are_added_to_as_vectors(opencl: DeviceContext, outputs: int, is_supported: bool) -> None:
    facts = replace(facts_of(opencl), is_nvidia=True, compute_capability=(9, 0))
    models = Networks()
    _, after, _ = models.separable(models.input(FLOAT, (1, 6, 6, 144)), (1, 6, 6, 144), outputs)
    (pair,) = pairs(models.finish(after), facts)
    assert any(source.adds for source in pair.sources) is is_supported


def test_ordered_reductions_do_not_add_in_memory(opencl: DeviceContext) -> None:
    facts = replace(facts_of(opencl), is_nvidia=True, compute_capability=(9, 0))
    for sums in ReductionOrder:
        found = pairs(chain(0, channels=144), replace(facts, reduction_order=sums))
        assert any(source.adds for pair in found for source in pair.sources) is (sums is ReductionOrder.FAST)


@sweep("also", ["nobody", "the caller", "an operation"])
def test_values_with_other_readers_are_stored(opencl: DeviceContext, also: str) -> None:
    models = Networks()
    between, after, _ = models.separable(models.input(FLOAT, (1, 5, 5, 8)), (1, 5, 5, 8), 12)
    outputs = [after]
    if also == "the caller":
        outputs.append(between)
    elif also == "an operation":
        outputs.append(models.add(_Op.TANH, [between], FLOAT, (1, 5, 5, 8)))
    assert len(pairs(models.finish(*outputs), facts_of(opencl))) == (also == "nobody")


def test_pairs_with_few_columns_are_likely(opencl: DeviceContext) -> None:
    found = []
    for outputs in (8, 640):
        models = Networks()
        _, after, _ = models.separable(models.input(FLOAT, (1, 5, 5, 8)), (1, 5, 5, 8), outputs)
        (pair,) = pairs(models.finish(after), facts_of(opencl))
        found.append(pair.is_likely)
    assert found == [True, False]


def test_cpus_have_no_chains(opencl: DeviceContext) -> None:
    facts = replace(opencl.facts, kind=DeviceKind.CPU)
    assert not pairs(chain(0), facts)


def test_products_compute_the_moments_of_their_rows(opencl: DeviceContext) -> None:
    """The kernel of both replaces that of the moments, and reports the operations of both."""
    facts = replace(facts_of(opencl), is_nvidia=True, compute_capability=(9, 0), images=None)
    network = Network(rows=(2, 512), width=1024, columns=1024)
    with patch.object(warpgroup, "_MIN_MULTIPLICATIONS", 0):
        fused = fold_normalizations(
            network.fused(), lambda kernel: warpgroup_pipeline.product_of_rows(kernel, facts) is not None
        )
        product, moments, *_ = fused.kernels
        assert measured_matrix(moments) is product.output
        (chain,) = chains_of(fused, fused.kernels, facts, EqualKernels())
        assert chain.members == (0, 1)
        assert chain.is_likely
        for source in chain.sources:
            assert [source.arguments[each] for each in source.written] == [product.output, moments.output]
            assert source.operations == tuple(sorted({*product.operations, *moments.operations}))
        others = replace(facts, compute_capability=(8, 0))
        assert not chains_of(fused, fused.kernels, others, EqualKernels())
