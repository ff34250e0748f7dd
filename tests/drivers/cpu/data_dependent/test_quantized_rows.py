"""Operations on quantised rows whose number is data run in compiled code, however few there are."""

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.cpu.growing_lists import Op, number, turns
from support.models.control_flow import INT, Graph
from support.models.marked_outputs import executed_within_marks
from support.sweeps import sweep

import neurald as nd
from neurald.drivers.cpu.device import CpuDevice
from neurald.drivers.reference.device import ReferenceDevice

BYTES = nd.OperandType.TENSOR_QUANT8_ASYMM_SIGNED
_ROWS, _FIRST = 300, 4
#: Rows that are fewer than the lanes of any vector, and as many as fill some.
_COUNTS = (1, 2, 3, 16, 33, 200, 5)


class QuantizedRows:
    """Builds a model that slices rows of bytes, as many as its second input says."""

    def __init__(self, channels: int) -> None:
        self.graph, self.channels = Graph(), channels
        self._rng = np.random.default_rng(channels)
        builder = self.graph.builder
        self._source = builder.add_operand(BYTES, (_ROWS, channels), scale=0.5, zero_point=3)
        self._count, size = self.graph.value(INT, (1,)), self.graph.value(INT, (2,))
        self.rows = builder.add_operand(BYTES, (0, channels), scale=0.5, zero_point=3)
        constants = [self.graph.constant(each, INT) for each in ([channels], [_FIRST, 0])]
        builder.add_operation(
            Op.TFLITE_CONCATENATION, [self._count, constants[0], number(self.graph, 0)], [size]
        )
        builder.add_operation(Op.TFLITE_SLICE, [self._source, constants[1], size], [self.rows])

    def output(self, *shape: int, is_rescaled: bool = True) -> int:
        """Adds a value of bytes, with another scale or that of the rows."""
        scale, zero = (0.7, -5) if is_rescaled else (0.5, 3)
        return self.graph.builder.add_operand(BYTES, shape, scale=scale, zero_point=zero)

    def weights(self, *shape: int) -> int:
        """Adds constant bytes."""
        index = self.graph.builder.add_operand(BYTES, shape, scale=0.01)
        self.graph.builder.set_operand_value(index, self._rng.integers(-127, 128, shape).astype(np.int8))
        return index

    def bias(self, length: int) -> int:
        """Adds constant INT32 at the scale of products."""
        index = self.graph.builder.add_operand(INT, (length,), scale=0.005)
        self.graph.builder.set_operand_value(index, self._rng.integers(-999, 999, length).astype(np.int32))
        return index

    def flag(self, *, value: bool) -> int:
        """Adds a constant BOOL."""
        index = self.graph.builder.add_operand(nd.OperandType.BOOL)
        self.graph.builder.set_operand_value(index, value=value)
        return index

    def finish(self, output: int) -> nd.Model:
        """Returns the model."""
        return self.graph.finish([self._source, self._count], [output])


def _reduction(kind: nd.OperationType, axes: list[int]) -> Callable[[QuantizedRows], int]:
    def add(rows: QuantizedRows) -> int:
        shape = [length for axis, length in enumerate((0, rows.channels)) if axis not in axes]
        is_extreme = kind is Op.TFLITE_REDUCE_MAX
        output = rows.output(*shape, is_rescaled=not is_extreme)
        is_mean = kind is Op.TFLITE_MEAN
        keeps = number(rows.graph, 0) if is_mean else rows.flag(value=False)
        inputs = [rows.rows, rows.graph.constant(axes, INT), keeps]
        rows.graph.builder.add_operation(kind, inputs, [output])
        return output

    return add


def _convolution(rows: QuantizedRows) -> int:
    """A convolution along the rows, with padding at both ends."""
    builder, channels = rows.graph.builder, rows.channels
    image = builder.add_operand(BYTES, (1, 1, 0, channels), scale=0.5, zero_point=3)
    builder.add_operation(
        Op.TFLITE_RESHAPE, [rows.rows, rows.graph.constant([1, 1, -1, channels], INT)], [image]
    )
    output = rows.output(1, 1, 0, 8)
    numbers = [number(rows.graph, each) for each in (1, 1, 1, 0)]
    inputs = [image, rows.weights(8, 1, 3, channels), rows.bias(8), *numbers]
    builder.add_operation(Op.CONV_2D, inputs, [output])
    return output


def _depthwise(rows: QuantizedRows) -> int:
    """A convolution of each channel down the rows, several of which are computed at once."""
    builder, channels = rows.graph.builder, rows.channels
    image = builder.add_operand(BYTES, (1, 0, 1, channels), scale=0.5, zero_point=3)
    builder.add_operation(
        Op.TFLITE_RESHAPE, [rows.rows, rows.graph.constant([1, -1, 1, channels], INT)], [image]
    )
    output = rows.output(1, 0, 1, channels)
    numbers = [number(rows.graph, each) for each in (1, 1, 1, 1, 0)]
    inputs = [image, rows.weights(1, 3, 1, channels), rows.bias(channels), *numbers]
    builder.add_operation(Op.DEPTHWISE_CONV_2D, inputs, [output])
    return output


def _product(rows: QuantizedRows) -> int:
    output = rows.output(0, 8)
    inputs = [rows.rows, rows.weights(8, rows.channels), rows.bias(8), number(rows.graph, 0)]
    rows.graph.builder.add_operation(Op.FULLY_CONNECTED, inputs, [output])
    return output


def _gathered(rows: QuantizedRows) -> int:
    """Rows in an order of indices that are computed."""
    builder, graph = rows.graph.builder, rows.graph
    highest, order = graph.value(INT, (0,)), graph.value(INT, (0,))
    builder.add_operation(Op.ARGMAX, [rows.rows, number(graph, 1)], [highest])
    factors = [highest, graph.constant([0], INT), number(graph, 0)]
    builder.add_operation(Op.TFLITE_MUL, factors, [order])
    output = rows.output(0, rows.channels, is_rescaled=False)
    builder.add_operation(Op.GATHER, [rows.rows, number(graph, 0), order], [output])
    return output


_OPERATIONS: dict[str, Callable[[QuantizedRows], int]] = {
    "mean of rows": _reduction(Op.TFLITE_MEAN, [0]),
    "mean of all": _reduction(Op.TFLITE_MEAN, [0, 1]),
    "sum of rows": _reduction(Op.TFLITE_SUM, [0]),
    "sum of all": _reduction(Op.TFLITE_SUM, [0, 1]),
    "maximum of rows": _reduction(Op.TFLITE_REDUCE_MAX, [0]),
    "convolution": _convolution,
    "depthwise convolution": _depthwise,
    "product": _product,
    "gathered": _gathered,
}


@sweep("channels", [3, 32])
@pytest.mark.parametrize("name", _OPERATIONS)
def test_operations_on_any_number_of_rows(
    name: str, channels: int, compiles_here: None, caplog: pytest.LogCaptureFixture
) -> None:
    """Code is not generated for as many rows as fill a vector, and results are the references'."""
    caplog.set_level(logging.INFO)
    rows = QuantizedRows(channels)
    model = rows.finish(_OPERATIONS[name](rows))
    reference = nd.CompilationBuilder(model, [ReferenceDevice()]).finish()
    builder = nd.CompilationBuilder(model, [CpuDevice()])
    builder.set_caching(None)
    compiled, random = builder.finish(), np.random.default_rng(channels)
    for count in _COUNTS:
        source: Any = random.integers(-128, 128, (_ROWS, channels)).astype(np.int8)
        wanted = reference.run(source, turns(count))
        found, is_around_left = executed_within_marks(compiled, [source, turns(count)], wanted)
        np.testing.assert_array_equal(found[0], wanted[0])
        assert is_around_left
    assert "on references" not in caplog.text
