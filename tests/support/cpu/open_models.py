"""Models with open dimensions, of every kind of kernel."""

from collections.abc import Callable, Mapping

import numpy as np
from support.models.net import INT8, INT32, Net

import neurald as nd

Op = nd.OperationType


def elementwise() -> nd.Model:
    net = Net()
    one, other, none = net.input((0, 7)), net.input((0, 7)), net.number(0)
    total = net.add(Op.ADD, [one, other, none], (0, 7))
    scaled = net.add(Op.MUL, [total, net.floats(7), none], (0, 7))
    return net.finish(net.add(Op.TANH, [scaled], (0, 7)))


def single_column() -> nd.Model:
    net = Net()
    return net.finish(net.add(Op.LOGISTIC, [net.input((0,))], (0,)))


def fully_connected() -> nd.Model:
    net = Net()
    hidden = net.add(
        Op.FULLY_CONNECTED,
        [net.input((0, 24)), net.floats(40, 24), net.floats(40), net.number(1)],
        (0, 40),
    )
    few = [hidden, net.floats(3, 40), net.floats(3), net.number(0)]
    return net.finish(net.add(Op.FULLY_CONNECTED, few, (0, 3)))


def quantized_fully_connected() -> nd.Model:
    net = Net()
    bias = net.constant(np.arange(-20, 20) * 100, INT32, 0.5 * 0.01)
    inputs = [net.input((0, 48), INT8, 0.5, 3), net.bytes(40, 48, scale=0.01), bias, net.number(0)]
    return net.finish(net.add(Op.FULLY_CONNECTED, inputs, (0, 40), INT8, 0.9, -5))


def softmax_of_rows() -> nd.Model:
    net = Net()
    return net.finish(
        net.add(Op.SOFTMAX, [net.input((0, 50)), net.number(1.5, nd.OperandType.FLOAT32)], (0, 50))
    )


def softmax_of_open_rows() -> nd.Model:
    net = Net()
    return net.finish(
        net.add(Op.SOFTMAX, [net.input((3, 0)), net.number(1.5, nd.OperandType.FLOAT32)], (3, 0))
    )


def mean_over_open_dimension() -> nd.Model:
    net = Net()
    inputs = [net.input((0, 9)), net.constant([0], INT32), net.number(1)]
    return net.finish(net.add(Op.MEAN, inputs, (1, 9)))


def normalized_rows() -> nd.Model:
    net = Net()
    source, none = net.input((0, 5, 32)), net.number(0)
    axes, keep = net.constant([2], INT32), net.number(1)
    mean = net.add(Op.MEAN, [source, axes, keep], (0, 5, 1))
    centred = net.add(Op.SUB, [source, mean, none], (0, 5, 32))
    squares = net.add(Op.MUL, [centred, centred, none], (0, 5, 32))
    variance = net.add(Op.MEAN, [squares, axes, keep], (0, 5, 1))
    shifted = net.add(Op.ADD, [variance, net.constant([1e-3]), none], (0, 5, 1))
    factor = net.add(Op.RSQRT, [shifted], (0, 5, 1))
    return net.finish(net.add(Op.MUL, [centred, factor, none], (0, 5, 32)))


def convolution(channels: int = 8, stride: int = 2) -> nd.Model:
    net = Net()
    size = -(-9 // stride)
    inputs = [net.input((0, 9, 9, 8)), net.floats(channels, 3, 3, 8), net.floats(channels)]
    inputs += [net.number(value) for value in (1, stride, stride, 1)]
    return net.finish(net.add(Op.CONV_2D, inputs, (0, size, size, channels)))


def winograd() -> nd.Model:
    net = Net()
    inputs = [net.input((0, 12, 12, 16)), net.floats(32, 3, 3, 16), net.floats(32)]
    inputs += [net.number(value) for value in (1, 1, 1, 0)]
    return net.finish(net.add(Op.CONV_2D, inputs, (0, 12, 12, 32)))


def pointwise_convolution() -> nd.Model:
    net = Net()
    inputs = [net.input((0, 3, 3, 16)), net.floats(24, 1, 1, 16), net.floats(24)]
    inputs += [net.number(value) for value in (1, 1, 1, 3)]
    return net.finish(net.add(Op.CONV_2D, inputs, (0, 3, 3, 24)))


def quantized_convolution() -> nd.Model:
    net = Net()
    bias = net.constant(np.arange(16), INT32, 0.5 * 0.01)
    inputs = [net.input((0, 7, 7, 8), INT8, 0.5, 3), net.bytes(16, 3, 3, 8, scale=0.01), bias]
    inputs += [net.number(value) for value in (1, 1, 1, 0)]
    return net.finish(net.add(Op.CONV_2D, inputs, (0, 7, 7, 16), INT8, 0.9, -5))


def depthwise() -> nd.Model:
    net = Net()
    inputs = [net.input((0, 9, 9, 8)), net.floats(1, 3, 3, 8), net.floats(8)]
    inputs += [net.number(value) for value in (1, 1, 1, 1, 3)]
    return net.finish(net.add(Op.DEPTHWISE_CONV_2D, inputs, (0, 9, 9, 8)))


def quantized_depthwise() -> nd.Model:
    net = Net()
    bias = net.constant(np.arange(16), INT32, 0.5 * 0.01)
    inputs = [net.input((0, 9, 9, 16), INT8, 0.5, 3), net.bytes(1, 3, 3, 16, scale=0.01), bias]
    inputs += [net.number(value) for value in (1, 1, 1, 1, 0)]
    return net.finish(net.add(Op.DEPTHWISE_CONV_2D, inputs, (0, 9, 9, 16), INT8, 0.9, -5))


def pooled() -> nd.Model:
    net = Net()
    source = net.input((0, 8, 8, 4))
    window = [net.number(value) for value in (2, 2, 2, 3, 3, 0)]
    largest = net.add(Op.MAX_POOL_2D, [source, *window], (0, 3, 3, 4))
    whole = [net.number(value) for value in (2, 1, 1, 3, 3, 0)]
    return net.finish(net.add(Op.AVERAGE_POOL_2D, [largest, *whole], (0, 1, 1, 4)))


def concatenated() -> nd.Model:
    net = Net()
    inputs = [net.input((0, 6)), net.input((0, 6)), net.number(0)]
    return net.finish(net.add(Op.CONCATENATION, inputs, (0, 6)))


def transposed() -> nd.Model:
    net = Net()
    inputs = [net.input((0, 5, 9)), net.constant([1, 0, 2], INT32)]
    return net.finish(net.add(Op.TRANSPOSE, inputs, (5, 0, 9)))


def padded() -> nd.Model:
    net = Net()
    inputs = [net.input((0, 9)), net.constant([[1, 2], [0, 3]], INT32)]
    return net.finish(net.add(Op.PAD, inputs, (0, 12)))


def attention() -> nd.Model:
    net = Net()
    queries, keys, values = (net.input((2, 0, 16)) for _ in range(3))
    no, yes = net.number(0, nd.OperandType.BOOL), net.number(1, nd.OperandType.BOOL)
    scores = net.add(Op.BATCH_MATMUL, [queries, keys, no, yes], (2, 0, 0))
    weights = net.add(Op.SOFTMAX, [scores, net.number(0.25, nd.OperandType.FLOAT32)], (2, 0, 0))
    return net.finish(net.add(Op.BATCH_MATMUL, [weights, values, no, no], (2, 0, 16)))


def _heads(net: Net, source: int, batch: int, rows: int) -> int:
    """Projects to 3 heads of 8 features: (batch, 3, rows, 8)."""
    flat = net.add(Op.RESHAPE, [source, net.constant([-1, 24], INT32)], (0, 24))
    projected = net.add(
        Op.FULLY_CONNECTED, [flat, net.floats(24, 24), net.floats(24), net.number(0)], (0, 24)
    )
    shape = [batch or -1, rows or -1, 3, 8]
    split = net.add(Op.RESHAPE, [projected, net.constant(shape, INT32)], (batch, rows, 3, 8))
    return net.add(Op.TRANSPOSE, [split, net.constant([0, 2, 1, 3], INT32)], (batch, 3, rows, 8))


def _attention_of_heads(batch: int, rows: int, columns: int, *, is_masked: bool = False) -> nd.Model:
    """Attends to other inputs than those of the queries if their numbers differ."""
    net = Net()
    source = net.input((batch, rows, 24))
    other = source if rows == columns else net.input((batch, columns, 24))
    no, yes = net.number(0, nd.OperandType.BOOL), net.number(1, nd.OperandType.BOOL)
    queries, keys, values = (
        _heads(net, each, batch, length)
        for each, length in ((source, rows), (other, columns), (other, columns))
    )
    shape = (batch, 3, rows, columns)
    scores = net.add(Op.BATCH_MATMUL, [queries, keys, no, yes], shape)
    scores = net.add(Op.MUL, [scores, net.constant([0.35]), net.number(0)], shape)
    if is_masked:
        wide = net.constant([batch or -1, 1, 1, columns or -1], INT32)
        mask = net.add(Op.RESHAPE, [net.input((batch, columns)), wide], (batch, 1, 1, columns))
        scores = net.add(Op.ADD, [scores, mask, net.number(0)], shape)
    weights = net.add(Op.SOFTMAX, [scores, net.number(1.0, nd.OperandType.FLOAT32)], shape)
    mixed = net.add(Op.BATCH_MATMUL, [weights, values, no, no], (batch, 3, rows, 8))
    moved = net.add(Op.TRANSPOSE, [mixed, net.constant([0, 2, 1, 3], INT32)], (batch, rows, 3, 8))
    joined = net.add(Op.RESHAPE, [moved, net.constant([-1, 24], INT32)], (0, 24))
    return net.finish(
        net.add(Op.FULLY_CONNECTED, [joined, net.floats(5, 24), net.floats(5), net.number(0)], (0, 5))
    )


def attention_of_open_sequences() -> nd.Model:
    return _attention_of_heads(2, 0, 0, is_masked=True)


def attention_of_open_batches() -> nd.Model:
    return _attention_of_heads(0, 19, 19)


def attention_of_open_queries() -> nd.Model:
    return _attention_of_heads(2, 0, 21)


def attention_to_open_keys() -> nd.Model:
    return _attention_of_heads(2, 9, 0)


def attention_of_open_batches_and_sequences() -> nd.Model:
    net = Net()
    queries, keys, values = (net.input((0, 3, 0, 16)) for _ in range(3))
    no, yes = net.number(0, nd.OperandType.BOOL), net.number(1, nd.OperandType.BOOL)
    scores = net.add(Op.BATCH_MATMUL, [queries, keys, no, yes], (0, 3, 0, 0))
    weights = net.add(Op.SOFTMAX, [scores, net.number(0.25, nd.OperandType.FLOAT32)], (0, 3, 0, 0))
    return net.finish(net.add(Op.BATCH_MATMUL, [weights, values, no, no], (0, 3, 0, 16)))


def quantized_matrices() -> nd.Model:
    net = Net()
    left, right = net.input((0, 5, 20), INT8, 0.5, 3), net.input((0, 20, 24), INT8, 0.25, -7)
    no = net.number(0, nd.OperandType.BOOL)
    return net.finish(net.add(Op.BATCH_MATMUL, [left, right, no, no], (0, 5, 24), INT8, 4.0, -5))


def quantized_rows() -> nd.Model:
    net = Net()
    left, right = net.input((3, 0, 20), INT8, 0.5, 3), net.input((3, 24, 20), INT8, 0.25, -7)
    no, yes = net.number(0, nd.OperandType.BOOL), net.number(1, nd.OperandType.BOOL)
    return net.finish(net.add(Op.BATCH_MATMUL, [left, right, no, yes], (3, 0, 24), INT8, 4.0, -5))


def sums_over_open_rows() -> nd.Model:
    net = Net()
    left, right = net.input((5, 0)), net.input((3, 0))
    no, yes = net.number(0, nd.OperandType.BOOL), net.number(1, nd.OperandType.BOOL)
    return net.finish(net.add(Op.BATCH_MATMUL, [left, right, no, yes], (5, 3)))


def reshaped() -> nd.Model:
    net = Net()
    flat = net.add(Op.RESHAPE, [net.input((0, 4, 6)), net.constant([-1, 24], INT32)], (0, 24))
    product = [flat, net.floats(16, 24), net.floats(16), net.number(0)]
    return net.finish(net.add(Op.FULLY_CONNECTED, product, (0, 16)))


def reshaped_by_its_shape() -> nd.Model:
    net = Net()
    source = net.input((0, 4, 6))
    one, zero, no = net.constant([1], INT32), net.constant([0], INT32), net.number(0)
    shape = net.add(Op.TFLITE_SHAPE, [source], (3,), INT32)
    rows = net.add(Op.TFLITE_SLICE, [shape, zero, one], (1,), INT32)
    lengths = [rows, net.constant([24], INT32), no]
    wanted = net.add(Op.TFLITE_CONCATENATION, lengths, (2,), INT32)
    flat = net.add(Op.RESHAPE, [source, wanted], (0, 24))
    few = net.add(Op.FULLY_CONNECTED, [flat, net.floats(16, 24), net.floats(16), no], (0, 16))
    fourfold = net.add(Op.TFLITE_MUL, [rows, net.constant([4], INT32), no], (1,), INT32)
    twice = net.add(Op.TFLITE_FLOOR_DIV, [fourfold, net.constant([2], INT32)], (1,), INT32)
    lengths = [twice, net.constant([8], INT32), no]
    halves = net.add(Op.TFLITE_CONCATENATION, lengths, (2,), INT32)
    return net.finish(net.add(Op.RESHAPE, [few, halves], (0, 8)))


def filled_like_its_input() -> nd.Model:
    net = Net()
    source = net.input((0, 5))
    shape = net.add(Op.TFLITE_SHAPE, [source], (2,), INT32)
    ones = net.add(Op.FILL, [shape, net.number(3, nd.OperandType.FLOAT32)], (0, 5))
    return net.finish(net.add(Op.ADD, [source, ones, net.number(0)], (0, 5)))


def padded_to_blocks() -> nd.Model:
    """The rows are padded to a multiple of 8, by as many as their number lacks."""
    net = Net()
    source, no = net.input((0, 4)), net.number(0)
    eight, zeros = net.constant([8], INT32), net.constant([0, 0, 0], INT32)
    shape = net.add(Op.TFLITE_SHAPE, [source], (2,), INT32)
    rows = net.add(Op.TFLITE_SLICE, [shape, net.constant([0], INT32), net.constant([1], INT32)], (1,), INT32)
    rest = net.add(Op.TFLITE_FLOOR_MOD, [rows, eight], (1,), INT32)
    missing = net.add(Op.TFLITE_SUB, [eight, rest, no], (1,), INT32)
    added = net.add(Op.TFLITE_FLOOR_MOD, [missing, eight], (1,), INT32)
    # What is the smaller or larger number for all lengths is still a length.
    added = net.add(Op.TFLITE_MINIMUM, [added, net.constant([7], INT32)], (1,), INT32)
    added = net.add(Op.TFLITE_MAXIMUM, [added, net.constant([0], INT32)], (1,), INT32)
    flat = net.add(Op.TFLITE_CONCATENATION, [net.constant([0], INT32), added, zeros, no], (5,), INT32)
    flat = net.add(Op.TFLITE_SLICE, [flat, net.constant([0], INT32), net.constant([4], INT32)], (4,), INT32)
    paddings = net.add(Op.TFLITE_RESHAPE, [flat, net.constant([2, 2], INT32)], (2, 2), INT32)
    whole = net.add(Op.TFLITE_PAD, [source, paddings], (0, 4))
    blocks = net.add(Op.TFLITE_RESHAPE, [whole, net.constant([-1, 8, 4], INT32)], (0, 8, 4))
    return net.finish(net.add(Op.TANH, [blocks], (0, 8, 4)))


def sliced() -> nd.Model:
    net = Net()
    numbers = [net.constant([0, 1], INT32), net.constant([0, -1], INT32), net.constant([2, 2], INT32)]
    masks = [net.number(value) for value in (0, 1, 0)]
    return net.finish(net.add(Op.STRIDED_SLICE, [net.input((0, 9)), *numbers, *masks], (0, 4)))


MODELS: Mapping[str, Callable[[], nd.Model]] = {
    make.__name__: make
    for make in (
        elementwise,
        single_column,
        fully_connected,
        quantized_fully_connected,
        softmax_of_rows,
        softmax_of_open_rows,
        mean_over_open_dimension,
        normalized_rows,
        convolution,
        winograd,
        pointwise_convolution,
        quantized_convolution,
        depthwise,
        quantized_depthwise,
        pooled,
        concatenated,
        transposed,
        padded,
        attention,
        attention_of_open_sequences,
        attention_of_open_batches,
        attention_of_open_queries,
        attention_to_open_keys,
        attention_of_open_batches_and_sequences,
        quantized_matrices,
        quantized_rows,
        sums_over_open_rows,
        reshaped,
        reshaped_by_its_shape,
        filled_like_its_input,
        padded_to_blocks,
        sliced,
    )
}
#: The least length that the code of a model supports, if it depends on the length in a coarse way,
#: for example on whether it fills a vector.
LEAST = {
    "sliced": 3,
    "attention": 32,
    "attention_of_open_sequences": 32,
    "attention_to_open_keys": 32,
    "attention_of_open_batches_and_sequences": 32,
}
#: Part of the label of a kernel that open code of a model must have.
LABELS = {
    "attention": "attention",
    "attention_of_open_sequences": "attention",
    "attention_of_open_batches": "attention",
    "attention_of_open_queries": "attention",
    "attention_to_open_keys": "attention",
    "attention_of_open_batches_and_sequences": "attention",
    # Bytes, or 16-bit integers if the target does not multiply bytes.
    "quantized_matrices": "int",
    "quantized_rows": "int",
    "sums_over_open_rows": "terms at once",
}
