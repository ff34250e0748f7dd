"""Products with few rows: quantised convolutions to few positions equal the references exactly."""

from dataclasses import dataclass

import numpy as np
import pytest
from support.compiler.graphs import GraphBuilder
from support.opencl.batch import BatchingDevice
from support.opencl.models import run
from support.opencl.sources import Bench
from support.operations.single_operation import stored_values
from support.tiers import one_in

import neurald as nd
from neurald.drivers.compiler.frontend.graph_builder import build_graph
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.passes import transform
from neurald.drivers.compiler.passes.fusion.fusion import fuse
from neurald.drivers.opencl.kernels.gemm import gemv
from neurald.drivers.opencl.kernels.gemm.gemm_view import gemm_view
from neurald.drivers.opencl.platform.discovery import DeviceContext
from neurald.drivers.reference.device import ReferenceDevice
from neurald.hal.device import PrepareOptions
from neurald.hal.model.model import Model
from neurald.hal.model.types import OperandType

UNSIGNED, SIGNED = OperandType.TENSOR_QUANT8_ASYMM, OperandType.TENSOR_QUANT8_ASYMM_SIGNED
PER_CHANNEL = OperandType.TENSOR_QUANT8_SYMM_PER_CHANNEL
#: Types of inputs and outputs, and of weights.
TYPES = ((UNSIGNED, UNSIGNED), (SIGNED, SIGNED), (UNSIGNED, PER_CHANNEL), (SIGNED, PER_CHANNEL))
_SAME, _VALID = 1, 2
_RELU6 = 3


@dataclass(frozen=True, kw_only=True)
class Window:
    """Convolution of images of `size` × `size`."""

    size: int = 4
    depth: int = 96
    channels: int = 192
    kernel: int = 3
    stride: int = 2
    padding: int = _SAME
    images: int = 1

    @property
    def length(self) -> int:
        """Returns the length of the output."""
        covered = self.size if self.padding == _SAME else self.size - self.kernel + 1
        return -(-covered // self.stride)


#: Windows of a result of 2 × 2 × 192, which once went wrong, and of similar ones.
WINDOWS = (
    Window(),
    Window(size=3),
    Window(size=5, padding=_VALID),
    Window(depth=95),
    Window(depth=97, channels=193),
    Window(channels=191),
    Window(depth=4, channels=190),
    Window(size=2, stride=1),
    Window(images=2),
    Window(kernel=1),
    Window(size=3, kernel=3, padding=_VALID, stride=1),
    Window(size=4, kernel=2, depth=33, channels=5),
)


def input_of(model: Model, seed: int) -> np.ndarray:
    """Returns stored values over the whole range."""
    operand = model.main.operands[model.main.inputs[0]]
    assert operand.dimensions is not None
    return stored_values(np.random.default_rng(seed), operand.type, operand.dimensions)


def model_of(window: Window, types: tuple[OperandType, OperandType], seed: int = 0) -> Model:
    """Returns a CONV_2D with constant weights over their whole range, whose sums cover most of the
    output's range.
    """
    generator = np.random.default_rng(seed)
    builder = nd.ModelBuilder()
    kind, weights_kind = types
    zero = 128 if kind is UNSIGNED else -3
    source = builder.add_operand(
        kind, (window.images, window.size, window.size, window.depth), scale=0.02, zero_point=zero
    )
    shape = (window.channels, window.kernel, window.kernel, window.depth)
    limits = np.iinfo(weights_kind.dtype.name)
    array = generator.integers(limits.min, limits.max + 1, shape).astype(weights_kind.dtype)
    if weights_kind is PER_CHANNEL:
        scales = tuple(float(np.float32(each)) for each in generator.uniform(0.005, 0.02, window.channels))
        weights = builder.add_operand(weights_kind, shape, channel_quant=(0, scales))
        bias_scale = 0.0
    else:
        weights = builder.add_operand(
            weights_kind, shape, scale=0.01, zero_point=131 if kind is UNSIGNED else 2
        )
        bias_scale = float(np.float32(np.float32(0.02) * np.float32(0.01)))
    builder.set_operand_value(weights, array)
    bias = builder.add_operand(OperandType.TENSOR_INT32, (window.channels,), scale=bias_scale)
    builder.set_operand_value(bias, generator.integers(-9999, 9999, window.channels).astype(np.int32))
    numbers = []
    for value in (window.padding, window.stride, window.stride, _RELU6 if seed % 2 else 0):
        numbers.append(builder.add_operand(OperandType.INT32))
        builder.set_operand_value(numbers[-1], value)
    deviation = 0.02 * 0.01 * 74 * 74 * np.sqrt(window.kernel**2 * window.depth)
    output = builder.add_operand(
        kind,
        (window.images, window.length, window.length, window.channels),
        scale=float(deviation / 40),
        zero_point=zero,
    )
    builder.add_operation(nd.OperationType.CONV_2D, [source, weights, bias, *numbers], [output])
    builder.identify_inputs_and_outputs([source], [output])
    return builder.finish()


#: What once went wrong with all types, its neighbours with one each.
CASES = [(WINDOWS[0], types) for types in TYPES] + [
    (window, TYPES[number % len(TYPES)]) for number, window in enumerate(WINDOWS[1:])
]
MODELS = [model_of(window, types, seed) for seed, (window, types) in enumerate(CASES)]


@pytest.fixture(scope="module")
def device(opencl: DeviceContext) -> BatchingDevice:
    found = BatchingDevice(opencl.facts)
    found.build(MODELS)
    return found


@pytest.mark.parametrize("number", one_in(2, range(len(MODELS))))
def test_quantised_convolutions_to_few_positions(number: int, device: BatchingDevice) -> None:
    model = MODELS[number]
    inputs = [input_of(model, number)]
    (found,), (expected,) = (
        run(each.prepare_model(model, PrepareOptions()), model, inputs)
        for each in (device, ReferenceDevice())
    )
    np.testing.assert_array_equal(found, expected)
    assert len(np.unique(expected)) > 5


def test_every_distribution_of_the_work(opencl: DeviceContext) -> None:
    """All candidates for a convolution that has failed before, with windows that extend beyond the
    image.
    """
    model = model_of(WINDOWS[0], TYPES[0])
    graph = build_graph(model)
    transform(graph)
    (kernel,) = fuse(graph).kernels
    found = gemm_view(kernel)
    assert found is not None
    sources = gemv.candidates(kernel, found, opencl.facts)
    assert len({source.label for source in sources}) == len(sources) >= 3
    inputs = [input_of(model, 0)]
    (expected,) = run(ReferenceDevice().prepare_model(model, PrepareOptions()), model, inputs)
    bench = Bench(opencl.facts.handle)
    for source in sources:
        result, status = bench.run(source, {graph.inputs[0]: inputs[0]})
        np.testing.assert_array_equal(result, expected, err_msg=source.label)
        assert status == 0


def test_products_with_many_rows_are_not_supported(opencl: DeviceContext) -> None:
    for window, is_for_it in ((Window(), True), (Window(images=2), True), (Window(images=3), False)):
        graph = build_graph(model_of(window, TYPES[0]))
        transform(graph)
        (kernel,) = fuse(graph).kernels
        found = gemm_view(kernel)
        assert found is not None
        assert bool(gemv.candidates(kernel, found, opencl.facts)) is is_for_it


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("depth", one_in(2, [2500, 128, 7, 2048]))
def test_prefetched_and_other_weights(opencl: DeviceContext, depth: int, transposed: bool) -> None:
    """Depths with no, some and all vectors of weights requested before the grid barrier."""
    builder = GraphBuilder()
    generator = np.random.default_rng(depth)
    source = builder.input(3, depth)
    shape = (depth, 10) if transposed else (10, depth)
    right = builder.constant(generator.normal(size=shape).astype(np.float32))
    sums = builder.matrix_product(source, right, type=Scalar.FLOAT32, right_transposed=transposed)
    (kernel,) = fuse(builder.finish(sums)).kernels
    product = gemm_view(kernel)
    assert product is not None
    array = generator.normal(size=(3, depth)).astype(np.float32)
    weights = np.asarray(right.constant)
    expected = array @ (weights if transposed else weights.T)
    bench = Bench(opencl.facts.handle)
    for chosen in gemv.candidates(kernel, product, opencl.facts):
        assert chosen.waits
        result, _ = bench.run(chosen, {source: array})
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4, err_msg=chosen.label)
