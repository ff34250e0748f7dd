"""Products of the first tier give the results of references: integers bit for bit."""

import math
from typing import Any

import numpy as np
import pytest
from support.cpu.first_tier import TARGETS_HERE, prepared, results
from support.cpu.layers import (
    FLOAT,
    INT32,
    INT64,
    PER_CHANNEL,
    SHORT,
    SIGNED,
    UNSIGNED,
    LayerBuilder,
    check,
    values,
)

import neurald as nd
from neurald.drivers.cpu.first_tier.layout import tiles_of
from neurald.drivers.cpu.prepared_model import CpuPreparedModel
from neurald.drivers.cpu.target.target import TARGETS
from neurald.hal.execution.reference_model import ReferenceModel

TYPES = [
    (FLOAT, FLOAT),
    (UNSIGNED, UNSIGNED),
    (SIGNED, SIGNED),
    (SIGNED, PER_CHANNEL),
    (UNSIGNED, PER_CHANNEL),
]
SHORTS = [(SHORT, SIGNED), (SHORT, PER_CHANNEL)]
#: Batch, height, width, depth, kernel, channels, strides, dilations, explicit padding, activation.
WINDOWS = [
    ((1, 1, 1, 1), (1, 1), 1, (1, 1), (1, 1), 1, 0),
    ((2, 5, 7, 3), (3, 3), 33, (2, 1), (1, 1), 1, 1),
    ((1, 9, 8, 17), (3, 5), 5, (1, 2), (2, 1), 2, 2),
    ((1, 12, 13, 32), (1, 1), 64, (1, 1), (1, 1), 1, 3),
    ((3, 4, 4, 65), (2, 2), 31, (3, 3), (1, 2), 1, 0),
    ((1, 1, 1, 40), (1, 1), 130, (1, 1), (1, 1), 2, 1),
]
#: Number of products with a 16-bit value whose sum is at most 32 bits, whatever the weights are.
MAX_SHORT_PRODUCTS = 190
#: The same of two groups.
GROUPED = ((2, 6, 5, 12), (3, 3), 70, (1, 2), (1, 1), 1, 1)


@pytest.mark.parametrize(
    ("positions", "channels", "name"),
    [
        (1, 8, "panels"),
        (7, 8, "tiles"),
        (8, 8, "narrow"),
        (64, 3, "narrow"),
        (64, 9, "tiles"),
        (64, 18, "tiles"),
    ],
)
def test_few_channels_have_tiles_of_their_own(positions: int, channels: int, name: str) -> None:
    tiles = tiles_of(TARGETS["avx2"])
    form = tiles.form(positions, channels)
    assert form.name == name
    assert tiles.padded(channels, form) % (8 * form.vectors) == 0


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("kinds", [*TYPES, *SHORTS], ids=lambda kinds: "-".join(each.name for each in kinds))
@pytest.mark.parametrize("window", WINDOWS, ids=range(len(WINDOWS)))
def test_convolutions(target: str, kinds: tuple[nd.OperandType, nd.OperandType], window: Any) -> None:
    shape, kernel, channels, strides, dilations, scheme, activation = window
    for is_depthwise in (False, True):
        build = LayerBuilder(7)
        kind = kinds[0]
        given = build.given(kind, shape)
        if is_depthwise:
            weights = build.weights(kind, kinds[1], (1, *kernel, shape[3]), 3)
            more = [build.scalar(1)]
            operation = "DEPTHWISE_CONV_2D"
        else:
            weights = build.weights(kind, kinds[1], (channels, *kernel, shape[3]), 0)
            more = []
            operation = "CONV_2D"
        lengths = []
        for length, size, stride, dilation in zip(shape[1:3], kernel, strides, dilations, strict=True):
            extent = (size - 1) * dilation + 1
            lengths.append(-(-length // stride) if scheme == 1 else (length - extent) // stride + 1)
        if min(lengths) < 1:
            continue
        outputs = shape[3] if is_depthwise else channels
        scale = _scale(kind, 0.4 if kind is not SHORT else 0.01, 3)
        output = build.operand(kind, (shape[0], *lengths, outputs), **scale)
        layout = build.builder.add_operand(nd.OperandType.BOOL)
        build.builder.set_operand_value(layout, False)
        inputs = [given, *weights, build.scalar(scheme), build.scalar(strides[1]), build.scalar(strides[0])]
        inputs += [*more, build.scalar(activation), layout]
        inputs += [build.scalar(dilations[1]), build.scalar(dilations[0])]
        prefix = "TFLITE_" if kind is SHORT else ""
        model = build.model(nd.OperationType[prefix + operation], inputs, output, [given])
        check(model, target, threads=2)


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize(
    ("kind", "is_depthwise"),
    [(FLOAT, False), (FLOAT, True), (UNSIGNED, False), (SIGNED, False), (SHORT, False)],
    ids=lambda each: each.name if isinstance(each, nd.OperandType) else "depthwise" if each else "full",
)
def test_convolutions_with_weights_that_are_inputs(
    target: str, kind: nd.OperandType, *, is_depthwise: bool
) -> None:
    for window in (*WINDOWS, GROUPED):
        shape, kernel = window[:2]
        if window is GROUPED and (is_depthwise or kind is SHORT):
            continue
        if kind is SHORT and math.prod(kernel) * shape[3] > MAX_SHORT_PRODUCTS:
            continue
        check(_with_variable_weights(kind, window, is_depthwise=is_depthwise), target, threads=2)


def _with_variable_weights(kind: nd.OperandType, window: Any, *, is_depthwise: bool) -> nd.Model:
    shape, kernel, channels, strides, dilations, scheme, activation = window
    is_grouped = window is GROUPED
    build = LayerBuilder(7)
    given = build.given(kind, shape)
    filter_type = SIGNED if kind is SHORT else kind
    outputs = shape[3] if is_depthwise else channels
    depth = shape[3] // 2 if is_grouped else shape[3]
    stored = (1, *kernel, outputs) if is_depthwise else (channels, *kernel, depth)
    _, bias = build.weights(kind, filter_type, (outputs, 1), 0)
    filter_ = build.operand(filter_type, stored, **_scale(kind, 0.005, 131 if kind is UNSIGNED else 0))
    lengths = []
    for length, size, stride, dilation in zip(shape[1:3], kernel, strides, dilations, strict=True):
        extent = (size - 1) * dilation + 1
        lengths.append(-(-length // stride) if scheme == 1 else (length - extent) // stride + 1)
    scale = _scale(kind, 0.01 if kind is SHORT else 0.4)
    output = build.operand(kind, (shape[0], *lengths, outputs), **scale)
    layout = build.scalar(False, nd.OperandType.BOOL)
    numbers = [scheme, strides[1], strides[0], *([1] if is_depthwise else []), *([2] if is_grouped else [])]
    inputs = [given, filter_, bias, *map(build.scalar, (*numbers, activation)), layout]
    if not is_grouped:
        inputs += [build.scalar(dilations[1]), build.scalar(dilations[0])]
    kinds = {(True, False): "DEPTHWISE_CONV_2D", (False, True): "GROUPED_CONV_2D"}
    name = kinds.get((is_depthwise, is_grouped), "TFLITE_CONV_2D" if kind is SHORT else "CONV_2D")
    return build.model(nd.OperationType[name], inputs, output, [given, filter_])


@pytest.mark.parametrize("kind", [FLOAT, SIGNED], ids=lambda kind: kind.name)
def test_weights_that_are_inputs_have_no_kernel(kind: nd.OperandType) -> None:
    build = LayerBuilder(0)
    given, filter_ = build.operand(FLOAT, (1, 4, 4, 3)), build.operand(SIGNED, (1, 3, 3, 3), scale=0.1)
    bias = build.constant(FLOAT, np.zeros(3, np.float32))
    output = build.operand(FLOAT, (1, 4, 4, 3))
    operation, more = nd.OperationType.TFLITE_CONV_2D, []
    if kind is SIGNED:
        given, output = build.given(kind, (1, 4, 4, 3)), build.operand(kind, (1, 4, 4, 3))
        bias = build.constant(INT32, np.zeros(3, np.int32), scale=build.input_scale * 0.1)
        operation, more = nd.OperationType.DEPTHWISE_CONV_2D, [1]
    else:
        filter_ = build.operand(SIGNED, (3, 3, 3, 3), scale=0.1)
    numbers = map(build.scalar, (1, 1, 1, *more, 0))
    inputs = [given, filter_, bias, *numbers, build.scalar(False, nd.OperandType.BOOL)]
    inputs += [build.scalar(1), build.scalar(1)]
    model = build.model(operation, inputs, output, [given, filter_])
    assert isinstance(prepared(model, TARGETS_HERE[0]), ReferenceModel)


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("kinds", [*TYPES[:3], *SHORTS], ids=lambda kinds: kinds[0].name)
def test_fully_connected_layers(target: str, kinds: tuple[nd.OperandType, nd.OperandType]) -> None:
    for rows, depth, channels in ((1, 1, 1), (1, 70, 131), (3, 65, 7), (9, 128, 64), (2, 33, 300)):
        build = LayerBuilder(depth)
        given = build.given(kinds[0], (rows, depth))
        weights = build.weights(*kinds, (channels, depth), 0)
        output = build.operand(kinds[0], (rows, channels), **_scale(kinds[0]))
        inputs = [given, *weights, build.scalar(0)]
        operation = nd.OperationType.FULLY_CONNECTED
        if kinds[0] is SHORT:
            inputs.append(build.scalar(False, nd.OperandType.BOOL))
            operation = nd.OperationType.TFLITE_FULLY_CONNECTED
        check(build.model(operation, inputs, output, [given]), target)


@pytest.mark.parametrize(("channels", "large"), [(2, 0), (150, 0), (150, 70), (150, 149), (150, None)])
def test_sums_of_more_than_32_bits_have_no_kernel(channels: int, large: int | None) -> None:
    build = LayerBuilder(0)
    given = build.given(SHORT, (1, 700))
    stored = np.ones((channels, 700), np.int8)
    if large is not None:
        stored[large] = -127
    weights = build.constant(SIGNED, stored, scale=0.005, zero_point=0)
    bias = build.constant(INT64, np.zeros(channels, np.int64), scale=0.0)
    output = build.operand(SHORT, (1, channels), scale=0.3)
    inputs = [given, weights, bias, build.scalar(0), build.scalar(False, nd.OperandType.BOOL)]
    model = build.model(nd.OperationType.TFLITE_FULLY_CONNECTED, inputs, output, [given])
    found = prepared(model, TARGETS_HERE[0])
    assert isinstance(found, ReferenceModel if large is not None else CpuPreparedModel)


@pytest.mark.parametrize("kind", [FLOAT, SIGNED], ids=lambda kind: kind.name)
def test_a_layer_without_bias(kind: nd.OperandType) -> None:
    build = LayerBuilder(0)
    given = build.given(kind, (2, 3, 33))
    weights, _ = build.weights(kind, kind, (7, 33), 0)
    no_bias = build.builder.add_operand(FLOAT if kind is FLOAT else INT32, (0,))
    build.builder.set_operand_value(no_bias, None)
    output = build.operand(kind, (2, 3, 7), **({} if kind is FLOAT else {"scale": 0.3, "zero_point": 1}))
    keeps = build.builder.add_operand(nd.OperandType.BOOL)
    build.builder.set_operand_value(keeps, True)
    inputs = [given, weights, no_bias, build.scalar(0), keeps]
    model = build.model(nd.OperationType.TFLITE_FULLY_CONNECTED, inputs, output, [given])
    for target in TARGETS_HERE:
        check(model, target)


def _scale(kind: nd.OperandType, scale: float = 0.3, zero_point: int = 1) -> dict[str, Any]:
    return {} if kind is FLOAT else {"scale": scale, "zero_point": 0 if kind is SHORT else zero_point}


#: Shapes of the matrices, and whether they are transposed.
MATRICES = [
    ((1, 1), (1, 1), False, False),
    ((2, 3, 9, 34), (2, 3, 34, 70), False, False),
    ((1, 4, 2, 16), (1, 4, 33, 16), False, True),
    ((3, 8, 5), (3, 8, 6), True, False),
    ((2, 2, 7, 12), (2, 2, 9, 7), True, True),
    ((2, 17, 10), (1, 10, 31), False, False),
]


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("kind", [FLOAT, SIGNED], ids=lambda kind: kind.name)
@pytest.mark.parametrize("matrices", MATRICES, ids=range(len(MATRICES)))
def test_products_of_pairs_of_matrices(target: str, kind: nd.OperandType, matrices: Any) -> None:
    first, second, adjoint1, adjoint2 = matrices
    build = LayerBuilder(1)
    one, other = build.given(kind, first), build.given(kind, second)
    batches = np.broadcast_shapes(first[:-2], second[:-2])
    rows, channels = first[-1 if adjoint1 else -2], second[-2 if adjoint2 else -1]
    output = build.operand(kind, (*batches, rows, channels), **_scale(kind, 0.4))
    flags = [build.scalar(each, nd.OperandType.BOOL) for each in (adjoint1, adjoint2)]
    operation = nd.OperationType.TFLITE_BATCH_MATMUL
    check(build.model(operation, [one, other, *flags], output, [one, other]), target, threads=2)


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("filter_", [SIGNED, PER_CHANNEL], ids=lambda kind: kind.name)
@pytest.mark.parametrize("asymmetric", [False, True])
def test_layers_that_quantise_rows(target: str, filter_: nd.OperandType, asymmetric: bool) -> None:
    for rows, depth, channels in ((1, 7, 3), (9, 64, 70), (3, 33, 16)):
        build = LayerBuilder(rows)
        given = build.operand(FLOAT, (rows, depth))
        weights, _ = build.weights(SIGNED, filter_, (channels, depth), 0)
        bias = build.constant(FLOAT, values(build.rng, FLOAT, (channels,)))
        output = build.operand(FLOAT, (rows, channels))
        flags = [build.scalar(each, nd.OperandType.BOOL) for each in (False, asymmetric)]
        inputs = [given, weights, bias, build.scalar(1), *flags]
        model = build.model(nd.OperationType.TFLITE_FULLY_CONNECTED, inputs, output, [given])
        for array in (
            values(build.rng, FLOAT, (rows, depth)),
            np.zeros((rows, depth), np.float32),
            np.abs(values(build.rng, FLOAT, (rows, depth))),
            np.full((rows, depth), np.nan, np.float32),
        ):
            check(model, target, threads=2, rtol=1e-5, inputs=[array])


@pytest.mark.parametrize("target", TARGETS_HERE)
def test_layers_whose_weights_have_scales_of_blocks(target: str) -> None:
    for rows, blocks, length, channels in ((1, 3, 32, 5), (9, 2, 16, 70)):
        build = LayerBuilder(0)
        given = build.operand(FLOAT, (rows, blocks * length))
        numbers = build.rng.integers(-7, 8, (channels, blocks * length)).astype(np.int8)
        weights = build.constant(SIGNED, numbers, scale=1.0, zero_point=0)
        bias = build.constant(FLOAT, values(build.rng, FLOAT, (channels,)))
        scales = build.constant(FLOAT, build.rng.uniform(0.01, 0.1, (channels, blocks)).astype(np.float32))
        flags = [build.scalar(False, nd.OperandType.BOOL) for _ in range(3)]
        output = build.operand(FLOAT, (rows, channels))
        inputs = [given, weights, bias, build.scalar(0), *flags, scales]
        model = build.model(nd.OperationType.TFLITE_FULLY_CONNECTED, inputs, output, [given])
        check(model, target, rtol=1e-4)


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("is_depthwise", [False, True])
def test_convolutions_that_quantise_images(target: str, is_depthwise: bool) -> None:
    for images, depth in ((1, 3), (2, 16)):
        build = LayerBuilder(depth)
        given = build.operand(FLOAT, (images, 6, 7, depth))
        channels = depth if is_depthwise else 19
        shape = (1, 3, 3, depth) if is_depthwise else (channels, 3, 3, depth)
        weights, _ = build.weights(SIGNED, PER_CHANNEL, shape, 3 if is_depthwise else 0)
        bias = build.constant(FLOAT, values(build.rng, FLOAT, (channels,)))
        output = build.operand(FLOAT, (images, 3, 4, channels))
        more = [build.scalar(1)] if is_depthwise else []
        inputs = [given, weights, bias, build.scalar(1), build.scalar(2), build.scalar(2), *more]
        name = "TFLITE_DEPTHWISE_CONV_2D" if is_depthwise else "TFLITE_CONV_2D"
        model = build.model(nd.OperationType[name], [*inputs, build.scalar(1)], output, [given])
        check(model, target, threads=2)


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("kinds", TYPES, ids=lambda kinds: "-".join(each.name for each in kinds))
@pytest.mark.parametrize(
    ("depth", "own", "channels"),
    [(12, 4, 21), (12, 3, 12), (9, 3, 9), (15, 3, 100), (35, 1, 70), (24, 1, 24)],
)
def test_groups_of_channels(
    target: str, kinds: tuple[nd.OperandType, nd.OperandType], depth: int, own: int, channels: int
) -> None:
    build = LayerBuilder(0)
    given = build.given(kinds[0], (2, 5, 6, depth))
    weights = build.weights(*kinds, (channels, 3, 3, own), 0)
    output = build.operand(kinds[0], (2, 5, 6, channels), **_scale(kinds[0], 0.4, 3))
    layout = build.scalar(False, nd.OperandType.BOOL)
    groups = depth // own
    inputs = [given, *weights, *map(build.scalar, (1, 1, 1, groups, 0)), layout]
    check(build.model(nd.OperationType.GROUPED_CONV_2D, inputs, output, [given]), target, threads=2)


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize("kinds", TYPES, ids=lambda kinds: "-".join(each.name for each in kinds))
@pytest.mark.parametrize(
    ("kernel", "strides"), [((3, 3), (2, 2)), ((2, 4), (1, 2)), ((5, 3), (3, 1)), ((2, 1), (3, 2))]
)
def test_transposed_convolutions(target: str, kinds: Any, kernel: Any, strides: Any) -> None:
    check(_transposed(kinds, kernel, strides, are_weights_inputs=False), target, threads=2)
    if kinds[0] is FLOAT:
        check(_transposed(kinds, kernel, strides, are_weights_inputs=True), target, threads=2)


def test_quantised_weights_that_are_inputs_have_no_transposed_kernel() -> None:
    model = _transposed((SIGNED, SIGNED), (3, 3), (2, 2), are_weights_inputs=True)
    assert isinstance(prepared(model, TARGETS_HERE[0]), ReferenceModel)


def _transposed(kinds: Any, kernel: Any, strides: Any, *, are_weights_inputs: bool) -> nd.Model:
    # Steps that are longer than the kernel leave outputs without weights.
    build = LayerBuilder(0)
    given = build.given(kinds[0], (2, 4, 5, 9))
    weights = build.weights(kinds[0], kinds[1], (7, *kernel, 9), 0)
    variables = [given]
    if are_weights_inputs:
        weights[0] = build.operand(kinds[1], (7, *kernel, 9), **_scale(kinds[0], 0.005, 0))
        variables.append(weights[0])
    lengths = [n * stride for n, stride in zip((4, 5), strides, strict=True)]
    output = build.operand(kinds[0], (2, *lengths, 7), **_scale(kinds[0], 0.4, 3))
    shape = build.constant(INT32, np.array([2, *lengths, 7], np.int32))
    layout = build.scalar(False, nd.OperandType.BOOL)
    inputs = [given, *weights, shape, *map(build.scalar, (1, strides[1], strides[0], 0)), layout]
    return build.model(nd.OperationType.TRANSPOSE_CONV_2D, inputs, output, variables)


@pytest.mark.parametrize("groups", [True, False])
def test_infinite_numbers_stay_in_their_channels(groups: bool) -> None:
    build = LayerBuilder(0)
    given = build.given(FLOAT, (1, 4, 4, 4))
    weights = build.weights(FLOAT, FLOAT, (8, 3, 3, 1) if groups else (1, 3, 3, 8), 0 if groups else 3)
    output = build.operand(FLOAT, (1, 4, 4, 8))
    last = (1, 1, 1, 4, 0) if groups else (1, 1, 1, 2, 0)
    layout = [build.scalar(False, nd.OperandType.BOOL)] if groups else []
    name = "GROUPED_CONV_2D" if groups else "DEPTHWISE_CONV_2D"
    inputs = [given, *weights, *map(build.scalar, last), *layout]
    model = build.model(nd.OperationType[name], inputs, output, [given])
    array = np.ones((1, 4, 4, 4), np.float32)
    array[..., 1] = np.inf
    (found,) = results(prepared(model), model, [array])
    assert np.isfinite(found[..., [0, 1, 4, 5, 6, 7]]).all()
    assert not np.isfinite(found[..., 2:4]).any()


@pytest.mark.parametrize("kinds", TYPES, ids=lambda kinds: "-".join(each.name for each in kinds))
@pytest.mark.parametrize(("depth", "times"), [(5, 3), (1, 16), (1, 37), (2, 8), (3, 1), (3, 5), (4, 20)])
def test_channels_with_several_depthwise_outputs(
    kinds: tuple[nd.OperandType, nd.OperandType], depth: int, times: int
) -> None:
    build = LayerBuilder(0)
    given = build.given(kinds[0], (2, 5, 6, depth))
    weights = build.weights(*kinds, (1, 3, 3, depth * times), 3)
    output = build.operand(kinds[0], (2, 5, 6, depth * times), **_scale(kinds[0], 0.4, 3))
    inputs = [given, *weights, *map(build.scalar, (1, 1, 1, times, 0))]
    model = build.model(nd.OperationType.DEPTHWISE_CONV_2D, inputs, output, [given])
    for target in TARGETS_HERE:
        check(model, target)


@pytest.mark.parametrize("target", TARGETS_HERE)
def test_volumes(target: str) -> None:
    build = LayerBuilder(0)
    given = build.operand(FLOAT, (2, 4, 5, 6, 3))
    weights = build.constant(FLOAT, values(build.rng, FLOAT, (2, 3, 3, 3, 9)))
    bias = build.constant(FLOAT, values(build.rng, FLOAT, (9,)))
    output = build.operand(FLOAT, (2, 2, 5, 3, 9))
    inputs = [given, weights, bias, *map(build.scalar, (1, 2, 1, 2, 1, 1, 1, 1))]
    check(build.model(nd.OperationType.TFLITE_CONV_3D, inputs, output, [given]), target, threads=2)


@pytest.mark.parametrize("target", TARGETS_HERE)
@pytest.mark.parametrize(("padding", "strides"), [(1, (1, 2, 2)), (2, (2, 1, 3)), (1, (1, 1, 1))])
def test_transposed_volumes(target: str, padding: int, strides: tuple[int, int, int]) -> None:
    build, image, kernel = LayerBuilder(0), (2, 3, 4), (2, 3, 3)
    given = build.operand(FLOAT, (2, *image, 5))
    weights = build.constant(FLOAT, values(build.rng, FLOAT, (*kernel, 9, 5)))
    bias = build.constant(FLOAT, values(build.rng, FLOAT, (9,)))
    volume = tuple(
        length * stride if padding == 1 else (length - 1) * stride + taps
        for length, stride, taps in zip(image, strides, kernel, strict=True)
    )
    output = build.operand(FLOAT, (2, *volume, 9))
    shape = build.constant(INT32, np.array([2, *volume, 9], np.int32))
    inputs = [shape, given, weights, bias, *map(build.scalar, (padding, *strides, 1, 1, 1, 0))]
    model = build.model(nd.OperationType.TFLITE_CONV_3D_TRANSPOSE, inputs, output, [given])
    check(model, target, threads=2)


@pytest.mark.parametrize("target", TARGETS_HERE)
def test_layers_with_variable_weights(target: str) -> None:
    for rows, depth, channels in ((1, 5, 3), (9, 16, 33)):
        build = LayerBuilder(0)
        given, weights = build.operand(FLOAT, (rows, depth)), build.operand(FLOAT, (channels, depth))
        bias = build.constant(FLOAT, values(build.rng, FLOAT, (channels,)))
        output = build.operand(FLOAT, (rows, channels))
        inputs = [given, weights, bias, build.scalar(1)]
        model = build.model(nd.OperationType.FULLY_CONNECTED, inputs, output, [given, weights])
        check(model, target)
