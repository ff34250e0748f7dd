"""Models of images are compiled for any height and width, with padding at the borders."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import neurald as nd
from neurald.drivers.cpu.device import process_settings
from neurald.drivers.cpu.open_artifact import read_open_artifact
from neurald.drivers.cpu.open_model import CpuOpenModel
from neurald.drivers.cpu.preparation import Preparation
from neurald.drivers.cpu.prepared_model import CpuPreparedModel
from neurald.drivers.cpu.target.target import TARGETS, Target, host_target, runs_here
from neurald.hal.device import ExecuteOptions
from neurald.hal.execution.array_model import ExecutionLimits
from neurald.hal.execution.reference_graph import ExecutionState, ReferenceGraph

Op = nd.OperationType
FLOAT, INT8, INT32 = (
    nd.OperandType.TENSOR_FLOAT32,
    nd.OperandType.TENSOR_QUANT8_ASYMM_SIGNED,
    nd.OperandType.TENSOR_INT32,
)
Size = tuple[int, int]
Array = np.ndarray[Any, np.dtype[Any]]
SAME, VALID = 1, 2
#: Heights and widths, of all combinations of even and odd.
SIZES: tuple[Size, ...] = ((40, 48), (64, 16), (33, 35), (41, 6), (8, 9), (5, 100), (6, 9), (7, 37))


class Images:
    """Builds models with one input, images of open height and width, and one operation.

    Args:
        channels: of the images.
        is_quantized: whether elements are INT8 rather than FLOAT32.
    """

    def __init__(self, channels: int, *, is_quantized: bool = False) -> None:
        self.builder, self._is_quantized, self._channels = nd.ModelBuilder(), is_quantized, channels
        self._random = np.random.default_rng(channels)
        self._input = self._operand((1, 0, 0, channels), 0.5, 3)

    def _operand(self, shape: tuple[int, ...], scale: float, zero: int) -> int:
        if self._is_quantized:
            return self.builder.add_operand(INT8, shape, scale=scale, zero_point=zero)
        return self.builder.add_operand(FLOAT, shape)

    def _constant(self, array: Any, kind: nd.OperandType, scale: float = 0.0) -> int:
        values = np.asarray(array, kind.dtype)
        index = self.builder.add_operand(kind, values.shape, scale=scale)
        self.builder.set_operand_value(index, values)
        return index

    def _model(
        self, operation: nd.OperationType, inputs: list[int], numbers: tuple[int, ...], channels: int
    ) -> nd.Model:
        for value in numbers:
            inputs.append(self.builder.add_operand(nd.OperandType.INT32))
            self.builder.set_operand_value(inputs[-1], value)
        output = self._operand((1, 0, 0, channels), 0.9, -5)
        self.builder.add_operation(operation, inputs, [output])
        self.builder.identify_inputs_and_outputs([self._input], [output])
        return self.builder.finish()

    def convolution(
        self,
        channels: int,
        kernel: int,
        stride: int = 1,
        padding: int | tuple[int, int, int, int] = SAME,
        *,
        is_depthwise: bool = False,
    ) -> nd.Model:
        """Returns a convolution with a kind of padding, or with one left, right, top and bottom."""
        shape = (channels, kernel, kernel, self._channels)
        if is_depthwise:
            shape = (1, kernel, kernel, channels)
        if self._is_quantized:
            weights = self._constant(self._random.integers(-127, 128, shape), INT8, 0.01)
            bias = self._constant(np.arange(channels), INT32, 0.5 * 0.01)
        else:
            weights = self._constant(self._random.standard_normal(shape) / 4, FLOAT)
            bias = self._constant(np.arange(channels), FLOAT)
        pads = (padding,) if isinstance(padding, int) else padding
        numbers = (*pads, stride, stride, *((1,) * is_depthwise), 0)
        operation = Op.DEPTHWISE_CONV_2D if is_depthwise else Op.CONV_2D
        return self._model(operation, [self._input, weights, bias], numbers, channels)

    def pooling(self, operation: nd.OperationType, kernel: int, stride: int) -> nd.Model:
        return self._model(
            operation, [self._input], (SAME, stride, stride, kernel, kernel, 0), self._channels
        )


MODELS: Mapping[str, Callable[[], nd.Model]] = {
    "3x3": lambda: Images(8).convolution(16, 3),
    "5x5": lambda: Images(3).convolution(24, 5),
    "of many channels": lambda: Images(32).convolution(40, 3),
    "Winograd": lambda: Images(32).convolution(48, 3),
    "Winograd without padding": lambda: Images(32).convolution(48, 3, padding=VALID),
    "valid": lambda: Images(8).convolution(16, 3, padding=VALID),
    "depthwise": lambda: Images(20).convolution(20, 3, is_depthwise=True),
    "int8": lambda: Images(16, is_quantized=True).convolution(16, 3),
    "int8 of many channels": lambda: Images(24, is_quantized=True).convolution(40, 5),
    "int8 of more than one vector": lambda: Images(32, is_quantized=True).convolution(48, 3),
    "int8 of single pixels": lambda: Images(64, is_quantized=True).convolution(48, 1),
    "int8 without padding": lambda: Images(64, is_quantized=True).convolution(32, 3, padding=VALID),
    "int8 depthwise": lambda: Images(16, is_quantized=True).convolution(16, 3, is_depthwise=True),
    "average": lambda: Images(8).pooling(Op.AVERAGE_POOL_2D, 3, 1),
}
#: The padding of these depends on whether heights and widths are even or odd.
STRIDED: Mapping[str, Callable[[], nd.Model]] = {
    "3x3": lambda: Images(8).convolution(16, 3, 2),
    "7x7": lambda: Images(3).convolution(16, 7, 2),
    "depthwise": lambda: Images(8).convolution(8, 3, 2, is_depthwise=True),
    "5x5 at every third position": lambda: Images(4).convolution(8, 5, 3),
    "depthwise of 5x5": lambda: Images(24).convolution(24, 5, 2, is_depthwise=True),
    "depthwise of 4x4 at every third position": lambda: Images(16).convolution(16, 4, 3, is_depthwise=True),
    "padding before images": lambda: Images(8).convolution(16, 3, 2, (1, 0, 1, 0)),
    "padding after images": lambda: Images(8).convolution(16, 3, 3, (0, 1, 0, 2)),
    "depthwise with padding before images": lambda: Images(8).convolution(
        8, 3, 2, (1, 0, 1, 0), is_depthwise=True
    ),
    "int8 of 5x5": lambda: Images(3, is_quantized=True).convolution(16, 5, 2),
    "int8": lambda: Images(16, is_quantized=True).convolution(16, 3, 2),
    "int8 depthwise": lambda: Images(16, is_quantized=True).convolution(16, 3, 2, is_depthwise=True),
    "largest": lambda: Images(8).pooling(Op.MAX_POOL_2D, 3, 2),
    "average": lambda: Images(8).pooling(Op.AVERAGE_POOL_2D, 2, 2),
}

#: Narrower images are compiled one by one: their positions lack taps at both ends, or their rows
#: are shorter than a vector.
LEAST_WIDTHS: Mapping[str, int] = {"7x7": 7, "int8 of 5x5": 22}


def compiled(model: nd.Model, size: Size, target: Target | None = None) -> CpuOpenModel:
    target = target or host_target(process_settings())
    preparation = Preparation(target, 1, keeps_artifact=True)
    found = preparation.open(model, {model.main.inputs[0]: shape_of(model, size)})
    assert found is not None
    return found


def shape_of(model: nd.Model, size: Size) -> tuple[int, ...]:
    return (1, *size, (model.main.operands[model.main.inputs[0]].dimensions or ())[3])


def check(model: nd.Model, opened: CpuOpenModel, size: Size) -> bool:
    """Compares the results for a size; returns False if the code does not support it."""
    shape, random = shape_of(model, size), np.random.default_rng(size)
    variant = opened.for_shapes([shape])
    if variant is None:
        return False
    is_float = model.main.operands[model.main.inputs[0]].type is FLOAT
    image: Array = (
        random.standard_normal(shape).astype(np.float32)
        if is_float
        else random.integers(-128, 128, shape).astype(np.int8)
    )
    assert isinstance(variant.prepared, CpuPreparedModel)
    (found,) = variant.prepared.native.run_arrays([image])
    graph = ReferenceGraph(model, model.main)
    (wanted,) = graph.run([image], ExecutionState((), ExecutionLimits(ExecuteOptions())))
    assert found.shape == wanted.shape
    if is_float:
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5)
    else:
        np.testing.assert_array_equal(found, wanted)
    return True


@pytest.mark.parametrize("name", MODELS)
def test_one_code_serves_all_sizes(name: str) -> None:
    model = MODELS[name]()
    opened = compiled(model, (40, 48))
    assert [size for size in SIZES if not check(model, opened, size)] == []
    labels = [call.label for call in read_open_artifact(opened.artifact()).opened.template.calls]
    # Which other convolutions use it depends on the processor.
    assert not name.startswith("Winograd") or any("Winograd" in label for label in labels)


@pytest.mark.parametrize("target", ["avx2", "avx512", "avx512vnni"])
@pytest.mark.parametrize("name", [name for name in MODELS if name.startswith("int8")])
def test_bytes_are_multiplied_right_for_all_sizes_by_every_target(name: str, target: str) -> None:
    if target not in TARGETS or not runs_here(TARGETS[target]):
        pytest.skip(f"this processor does not run code for {target}")
    model = MODELS[name]()
    opened = compiled(model, (40, 48), TARGETS[target])
    assert [size for size in SIZES if not check(model, opened, size)] == []


@pytest.mark.parametrize("name", MODELS)
def test_code_for_small_images_is_right(name: str) -> None:
    model = MODELS[name]()
    opened = compiled(model, (5, 7))
    assert check(model, opened, (5, 7))
    for size in SIZES:
        check(model, opened, size)


@pytest.mark.parametrize("name", [name for name in (*MODELS, *STRIDED) if name.startswith("int8")])
def test_code_for_small_images_of_bytes_serves_all_sizes(name: str) -> None:
    """Rows that are shorter than a vector are packed by the same code as longer ones."""
    model = {**MODELS, **STRIDED}[name]()
    opened = compiled(model, (6, 8))
    assert [size for size in ((6, 8), *SIZES) if not check(model, opened, size)] == []


def test_padding_that_differs_for_many_remainders_is_a_kernel() -> None:
    model = Images(3).convolution(16, 8, 8)
    opened = compiled(model, (41, 47))
    assert all(check(model, opened, size) for size in ((41, 47), (33, 35), (70, 101)))


def test_networks_with_many_strides_serve_all_sizes() -> None:
    """Sizes have any remainder of a division by 16."""
    builder, generator = nd.ModelBuilder(), np.random.default_rng(16)

    def number(value: int) -> int:
        index = builder.add_operand(nd.OperandType.INT32)
        builder.set_operand_value(index, value)
        return index

    first = value = builder.add_operand(FLOAT, (1, 0, 0, 8))
    for layer in range(4):
        is_depthwise = layer % 2 == 1
        shape = (1, 3, 3, 8) if is_depthwise else (8, 3, 3, 8)
        weights, bias = builder.add_operand(FLOAT, shape), builder.add_operand(FLOAT, (8,))
        builder.set_operand_value(weights, generator.standard_normal(shape).astype(np.float32) / 8)
        builder.set_operand_value(bias, np.arange(8, dtype=np.float32))
        numbers = [number(each) for each in (SAME, 2, 2, *((1,) * is_depthwise), 0)]
        result = builder.add_operand(FLOAT, (1, 0, 0, 8))
        operation = Op.DEPTHWISE_CONV_2D if is_depthwise else Op.CONV_2D
        builder.add_operation(operation, [value, weights, bias, *numbers], [result])
        value = result
    builder.identify_inputs_and_outputs([first], [value])
    model = builder.finish()
    opened = compiled(model, (64, 80))
    sizes = [(64 + n, 80 + 3 * n % 16) for n in range(16)] + [(33, 200)]
    assert [size for size in sizes if not check(model, opened, size)] == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("hint", [(40, 48), (41, 47)])
@pytest.mark.parametrize("name", STRIDED)
def test_strided_windows_serve_all_sizes(name: str, hint: Size) -> None:
    """The padding of a size follows from its remainder, which the code computes."""
    model = STRIDED[name]()
    opened = compiled(model, hint)
    refused = [size for size in (hint, *SIZES) if not check(model, opened, size)]
    assert [size for size in refused if size[1] >= LEAST_WIDTHS.get(name, 0)] == []
