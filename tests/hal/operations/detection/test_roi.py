import math
from typing import Any

import numpy as np
import pytest
from support.operations.boxes import (
    FLOAT16,
    FLOAT32,
    INT32,
    QUANT8,
    QUANT16,
    SIGNED,
    TYPES,
    coordinates,
    data,
    real,
    reals,
    to_nchw,
)
from support.operations.single_operation import (
    Given,
    call_of,
    evaluate,
    given,
    ints,
    level_of,
    scalars,
    unknown,
    wanted,
)
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations import DEFINITIONS
from neurald.hal.operations.machinery.call import Array

ALIGN, POOL = OperationType.ROI_ALIGN, OperationType.ROI_POOLING
STRIDES = (4.0, 2.0)


def inputs(
    image: Given,
    boxes: Given,
    images: Given,
    size: tuple[int, int],
    samples: tuple[int, ...] = (),
    *,
    nchw: bool = False,
) -> list[Given]:
    """Returns the inputs; only ROI_ALIGN has samples."""
    strides = reals(*STRIDES, operand_type=image.operand.type)
    return [
        to_nchw(image) if nchw else image,
        boxes,
        images,
        *scalars(*size),
        *strides,
        *scalars(*samples, nchw),
    ]


def random_boxes(generator: np.random.Generator, count: int, height: int, width: int) -> Array:
    """Returns boxes in 1/8 pixel inside the image of a map, some of them without extent."""
    xs = np.sort(generator.integers(0, int(width * STRIDES[1] * 8) + 1, (count, 2)), axis=1)
    ys = np.sort(generator.integers(0, int(height * STRIDES[0] * 8) + 1, (count, 2)), axis=1)
    boxes = np.stack((xs[:, 0], ys[:, 0], xs[:, 1], ys[:, 1]), axis=1) / 8
    boxes[::4, 2:] = boxes[::4, :2]
    return boxes


def interpolated(image: Array, y: float, x: float) -> Array:
    height, width, _ = image.shape
    y1, x1 = min(math.floor(y), height - 1), min(math.floor(x), width - 1)
    y2, x2 = min(y1 + 1, height - 1), min(x1 + 1, width - 1)
    dy, dx = (0.0 if y1 == height - 1 else y - y1), (0.0 if x1 == width - 1 else x - x1)
    top = image[y1, x1] * (1 - dx) + image[y1, x2] * dx
    bottom = image[y2, x1] * (1 - dx) + image[y2, x2] * dx
    result: Array = top * (1 - dy) + bottom * dy
    return result


def aligned(image: Array, box: Array, size: tuple[int, int], samples: tuple[int, int]) -> Array:
    scaled = box / np.array([STRIDES[1], STRIDES[0]] * 2)
    extent = np.maximum(scaled[2:] - scaled[:2], 1)
    steps = extent[1] / size[0], extent[0] / size[1]
    counts = [given_count or math.ceil(step) for given_count, step in zip(samples, steps, strict=True)]
    output = np.zeros((*size, image.shape[2]))
    for i, j in np.ndindex(*size):
        for a, b in np.ndindex(*counts):
            y = scaled[1] + steps[0] * (i + (a + 0.5) / counts[0])
            x = scaled[0] + steps[1] * (j + (b + 0.5) / counts[1])
            output[i, j] += interpolated(image, y, x) / math.prod(counts)
    return output


def pooled(image: Array, box: Array, size: tuple[int, int], empty: Any) -> Array:
    scaled = [math.floor(edge / stride + 0.5) for edge, stride in zip(box, STRIDES[::-1] * 2, strict=True)]
    output = np.full((*size, image.shape[2]), empty, image.dtype)
    spans = []
    for axis in (0, 1):
        start = scaled[1 - axis]
        step = np.float32(scaled[3 - axis] - start + 1) / np.float32(size[axis])
        spans.append(
            [
                range(
                    math.floor(step * np.float32(i) + np.float32(start)),
                    min(math.ceil(step * np.float32(i + 1) + np.float32(start)), image.shape[axis]),
                )
                for i in range(size[axis])
            ]
        )
    for i, j in np.ndindex(*size):
        cells = [image[y, x] for y in spans[0][i] for x in spans[1][j]]
        if cells:
            output[i, j] = np.max(cells, axis=0)
    return output


@sweep("nchw", [False, True])
@sweep(
    ("shape", "size", "samples"),
    [
        ((1, 4, 4, 1), (2, 2), (4, 4)),
        ((3, 5, 8, 2), (2, 3), (0, 0)),
        ((2, 7, 3, 3), (5, 1), (0, 3)),
        ((1, 1, 6, 2), (1, 4), (1, 0)),
        ((2, 9, 9, 1), (1, 1), (0, 2)),
    ],
)
@sweep("operand_type", TYPES)
def test_align(
    operand_type: OperandType,
    shape: tuple[int, int, int, int],
    size: tuple[int, int],
    samples: tuple[int, int],
    nchw: bool,
) -> None:
    generator = np.random.default_rng(shape[2])
    image = data(operand_type, generator.normal(0, 1, shape), 1 / 32)
    boxes = coordinates(operand_type, random_boxes(generator, 9, shape[1], shape[2]))
    images = generator.integers(0, shape[0], 9)
    scale, zero_point = {QUANT8: (1 / 40, 100), SIGNED: (1 / 40, 20)}.get(operand_type, (0.0, 0))
    arguments = inputs(image, boxes, given(INT32, images), size, samples, nchw=nchw)
    result = evaluate(ALIGN, arguments, wanted(operand_type, scale, zero_point))
    result = np.moveaxis(result, 1, 3) if nchw else result
    expected = [
        aligned(real(image)[index], box, size, samples)
        for index, box in zip(images, real(boxes), strict=True)
    ]
    got = (result.astype(np.float64) - zero_point) * (scale or 1)
    tolerance = {FLOAT32: 1e-4, FLOAT16: 2e-3}.get(operand_type, scale / 2 + 1e-4)
    np.testing.assert_allclose(got, expected, atol=tolerance)


@sweep("nchw", [False, True])
@sweep(
    ("shape", "size"),
    [((1, 4, 4, 1), (2, 2)), ((3, 5, 8, 2), (2, 3)), ((2, 7, 3, 3), (5, 1)), ((1, 1, 6, 2), (3, 4))],
)
@sweep("operand_type", TYPES)
def test_pool(
    operand_type: OperandType, shape: tuple[int, int, int, int], size: tuple[int, int], nchw: bool
) -> None:
    generator = np.random.default_rng(shape[2])
    image = data(operand_type, generator.normal(-1, 1, shape), 1 / 32)
    boxes = coordinates(operand_type, random_boxes(generator, 9, shape[1], shape[2]))
    images = generator.integers(0, shape[0], 9)
    arguments = inputs(image, boxes, given(INT32, images), size, nchw=nchw)
    operand = image.operand
    result = evaluate(POOL, arguments, wanted(operand_type, operand.scale, operand.zero_point))
    result = np.moveaxis(result, 1, 3) if nchw else result
    assert image.value is not None
    expected = [
        pooled(image.value[index], box, size, operand.zero_point)
        for index, box in zip(images, real(boxes), strict=True)
    ]
    np.testing.assert_array_equal(result, expected)


def operation_inputs(operation: OperationType, **changes: Any) -> list[Given]:
    """Returns the inputs for a region of an image of 2 × 3 elements."""
    values: dict[str, Any] = {
        "input": given(FLOAT32, np.ones((2, 2, 3, 1))),
        "boxes": given(FLOAT32, [[0, 0, 6, 8], [1, 1, 2, 2]]),
        "images": ints(0, 1),
        "height": 2,
        "width": 2,
        "height_stride": STRIDES[0],
        "width_stride": STRIDES[1],
        "height_samples": 0,
        "width_samples": 0,
        "nchw": False,
    }
    if operation is POOL:
        del values["height_samples"], values["width_samples"]
    values.update(changes)
    return [each if isinstance(each, Given) else scalars(each)[0] for each in values.values()]


@sweep("nchw", [False, True])
@sweep("operation", [ALIGN, POOL])
@sweep("operand_type", TYPES)
def test_no_regions(operand_type: OperandType, operation: OperationType, nchw: bool) -> None:
    image = data(operand_type, np.ones((1, 2, 3, 4)), 0.1)
    boxes = coordinates(operand_type, np.empty((0, 4)))
    samples = (0, 0) if operation is ALIGN else ()
    arguments = inputs(image, boxes, given(INT32, np.empty(0)), (5, 6), samples, nchw=nchw)
    result = evaluate(
        operation, arguments, wanted(operand_type, image.operand.scale, image.operand.zero_point)
    )
    assert result.shape == ((0, 4, 5, 6) if nchw else (0, 5, 6, 4))


@sweep("operation", [ALIGN, POOL])
@sweep(
    ("changes", "message"),
    [
        (
            {"boxes": given(FLOAT32, [[0, 0, 6, 8.5], [1, 1, 2, 2]])},
            r"boxes .*: box 0 is .*height 2 and width 3",
        ),
        (
            {"boxes": given(FLOAT32, [[0, 0, 6, 8], [-1, 1, 2, 2]])},
            r"boxes .*: box 1 is \[-1.0, 1.0, 2.0, 2.0\]",
        ),
        ({"boxes": given(FLOAT32, [[3, 0, 2, 8], [1, 1, 2, 2]])}, "boxes .*: box 0 is .*x1 <= x2"),
        ({"boxes": given(FLOAT32, [[0, 0, 6, math.nan], [1, 1, 2, 2]])}, "boxes .*: box 0 is"),
        ({"boxes": given(FLOAT32, np.zeros((2, 5)))}, r"boxes .* has shape \[2, 5\]; \[2, 4\]"),
        ({"images": ints(0, 2)}, "images .*: element 1 is 2; an image from 0 to 1 is expected"),
        ({"images": ints(0, -1)}, "images .*: element 1 is -1"),
        ({"images": ints(0)}, r"images .* has shape \[1\]; \[2\]"),
        ({"height": 0}, "height of ROI_.* is 0; it must be at least 1"),
        ({"width": -1}, "width of ROI_.* is -1"),
        ({"height": 2**31 - 1, "width": 2**31 - 1}, r"more than 2\^32 - 1 bytes"),
        ({"height_stride": 0.0}, "height_stride .* is 0; it must be positive and finite"),
        ({"width_stride": math.nan}, "width_stride .* is nan"),
        ({"height_stride": 1e-40}, "boxes .*: box 0 is"),
        ({"input": given(FLOAT32, np.ones((2, 0, 3, 1)))}, r"shape \[2, 0, 3, 1\]; no dimension may be 0"),
    ],
)
def test_refuses(operation: OperationType, changes: dict[str, Any], message: str) -> None:
    call = call_of(operation, operation_inputs(operation, **changes), wanted(FLOAT32))
    definition = DEFINITIONS[operation]
    with pytest.raises(BadData, match=message):  # noqa: PT012
        definition.check(call)
        definition.output_shapes(call)
        definition.reference(call)


@sweep("operation", [ALIGN, POOL])
def test_refuses_huge_sizes_even_without_regions(operation: OperationType) -> None:
    huge = 2**31 - 1
    empty = {"boxes": given(FLOAT32, np.empty((0, 4))), "images": given(INT32, np.empty(0))}
    arguments = operation_inputs(operation, height=huge, width=huge, **empty)
    with pytest.raises(BadData, match=r"more than 2\^32 - 1 bytes"):
        DEFINITIONS[operation].output_shapes(call_of(operation, arguments, wanted(FLOAT32)))


@sweep(("samples", "allowed"), [(-1, False), (2**23, True), (2**23 + 1, False)])
def test_number_of_samples(samples: int, allowed: bool) -> None:
    call = call_of(ALIGN, operation_inputs(ALIGN, width_samples=samples), wanted(FLOAT32))
    if allowed:
        DEFINITIONS[ALIGN].check(call)
    else:
        with pytest.raises(BadData, match=f"width_samples .* is {samples}; it must be from 0 to 8388608"):
            DEFINITIONS[ALIGN].check(call)


def test_pooling_keeps_the_scale() -> None:
    arguments = operation_inputs(
        POOL, input=given(QUANT8, np.ones((2, 2, 3, 1)), 0.5), boxes=given(QUANT16, np.zeros((2, 4)), 0.125)
    )
    with pytest.raises(BadData, match=r"those of input, 0.5 and 0, are expected"):
        evaluate(POOL, arguments, wanted(QUANT8, 0.25))


@sweep("operation", [ALIGN, POOL])
def test_refuses_scales_of_boxes(operation: OperationType) -> None:
    arguments = operation_inputs(
        operation,
        input=given(QUANT8, np.ones((2, 2, 3, 1)), 0.5),
        boxes=given(QUANT16, np.zeros((2, 4)), 0.25),
    )
    with pytest.raises(BadData, match=r"boxes .* has scale 0.25 and zero point 0; 0.125 and 0 are expected"):
        evaluate(operation, arguments, wanted(QUANT8, 0.5))


@sweep("operation", [ALIGN, POOL])
def test_shapes_are_known_without_values(operation: OperationType) -> None:
    arguments = operation_inputs(operation)
    output = wanted(FLOAT32)
    assert level_of(operation, arguments, output) == FeatureLevel.LEVEL_3
    assert DEFINITIONS[operation].shape(call_of(operation, arguments, output)) == ((2, 2, 2, 1),)
    arguments[5] = unknown(arguments[5])
    DEFINITIONS[operation].check(call_of(operation, arguments, output))
