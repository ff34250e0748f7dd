"""Lowers ROI_ALIGN, which averages interpolated samples, and ROI_POOLING, which takes the maximum.

The extent of regions is only known at execution. Loops cover the largest possible region, the whole
image, and loads outside the actual region are guarded.
"""

import math
from collections.abc import Callable

import numpy as np

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import (
    Expression,
    apply,
    axis,
    clamp,
    constant,
    index,
    load,
    maximum,
    minimum,
    reduce,
    select,
)
from neurald.drivers.compiler.ir.op import Op, ReductionOp, reduction_identity
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.arithmetic.quantized import real, store
from neurald.drivers.compiler.lowering.detection.boxes import NO_IMAGE, OUT_OF_ORDER
from neurald.drivers.compiler.lowering.elementwise.pointwise import widen
from neurald.drivers.compiler.lowering.machinery.layout import from_nhwc, to_nhwc
from neurald.drivers.compiler.lowering.machinery.table import Lowering
from neurald.drivers.compiler.lowering.movement.indexing import bounded_index
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.detection.roi import map_scales, region_shape
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.machinery.layout import is_nchw

#: Builds the body of the output from the call, the NHWC images and the boxes on them, (n, 4).
_Region = Callable[[Call, Builder, Value, Value], Callable[..., Expression]]

#: Indexed by axis: 0 is the height, 1 the width.
_SIZES = ("height", "width")
_SAMPLES = ("height_samples", "width_samples")


def _lower(region: _Region) -> Lowering:
    def lower(call: Call, builder: Builder) -> tuple[Value, ...]:
        source = to_nhwc(builder, builder.value(call, "input"), is_nchw(call))
        boxes = _boxes_on_map(call, builder, source)
        result = builder.compute(region_shape(call), region(call, builder, source, boxes))
        return (from_nhwc(builder, result, is_nchw(call)),)

    return lower


def _boxes_on_map(call: Call, builder: Builder, source: Value) -> Value:
    """Returns the boxes in image elements, FLOAT32 (n, 4).

    Invalid boxes or image indices fail the execution.
    """
    boxes, images = builder.value(call, "boxes"), builder.value(call, "images")
    operand = call.operand("boxes")
    with np.errstate(all="ignore"):
        down, right = (float(scale) for scale in map_scales(call))
    count, height, width, _ = source.shape

    def coordinate(box: Expression, which: Expression) -> Expression:
        return real(load(boxes, (box, which)), operand)

    def by_axis(which: Expression, along_x: float, along_y: float) -> Expression:
        return select(
            (which % 2).equals(0), constant(along_x, Scalar.FLOAT32), constant(along_y, Scalar.FLOAT32)
        )

    def scaled(box: Expression, which: Expression) -> Expression:
        return coordinate(box, which) * by_axis(which, right, down)

    def requirements(box: Expression, which: Expression) -> list[tuple[Expression, str]]:
        is_ordered = coordinate(box, which % 2) <= coordinate(box, which % 2 + 2)
        is_inside = (coordinate(box, which) >= 0.0) & (
            scaled(box, which) <= by_axis(which, float(width), float(height))
        )
        image = load(images, (box,))
        return [
            (is_ordered, OUT_OF_ORDER),
            (is_inside, "a box leaves its image"),
            ((image >= 0) & (image < count), NO_IMAGE),
        ]

    return builder.compute((boxes.shape[0], 4), scaled, requirements)


def _image(call: Call, builder: Builder, box: Expression, count: int) -> Expression:
    coordinate, _ = bounded_index(load(builder.value(call, "images"), (box,)), count)
    return coordinate


def _corner(boxes: Value, box: Expression, along: int, end: int) -> Expression:
    """Returns the start (`end` = 0) or end (1) of a box along an axis."""
    return load(boxes, (box, index(2 * end + 1 - along)))


def _step(call: Call, boxes: Value, box: Expression, along: int) -> Expression:
    """Returns the extent of an output element, in image elements."""
    extent = _corner(boxes, box, along, 1) - _corner(boxes, box, along, 0)
    return maximum(extent, 1.0) / float(call.scalar(_SIZES[along]))


def _sample_counts(
    call: Call, builder: Builder, boxes: Value, along: int, length: int
) -> tuple[Value | None, int]:
    """Returns the number of samples per element along an axis, and its maximum.

    The number is INT32 (n,), or None if it does not depend on the box.
    """
    given = call.scalar(_SAMPLES[along])
    if given:
        return None, given
    most = math.ceil(np.float32(length) / np.float32(call.scalar(_SIZES[along])))

    def count(box: Expression) -> Expression:
        return clamp(apply(Op.CEIL, _step(call, boxes, box, along)), 1.0, float(most)).to(Scalar.INT32)

    return builder.compute(boxes.shape[:1], count), most


def _sample_coordinates(
    call: Call, builder: Builder, boxes: Value, along: int, counts: Value | None, most: int
) -> Value:
    """Returns the coordinates of samples along an axis, FLOAT32 (n, output elements, samples)."""

    def coordinate(box: Expression, at: Expression, sample: Expression) -> Expression:
        step = _step(call, boxes, box, along)
        between = step / (float(most) if counts is None else load(counts, (box,)).to(Scalar.FLOAT32))
        start = _corner(boxes, box, along, 0) + step * at.to(Scalar.FLOAT32)
        return start + between / 2.0 + between * sample.to(Scalar.FLOAT32)

    return builder.compute((boxes.shape[0], call.scalar(_SIZES[along]), most), coordinate)


def _align(call: Call, builder: Builder, source: Value, boxes: Value) -> Callable[..., Expression]:
    images, *lengths, _ = source.shape
    operand, output = call.operand("input"), call.operand("output")
    counts = [_sample_counts(call, builder, boxes, along, lengths[along]) for along in (0, 1)]
    indexes = [
        _sample_coordinates(call, builder, boxes, along, number, most)
        for along, (number, most) in enumerate(counts)
    ]

    def body(box: Expression, y: Expression, x: Expression, channel: Expression) -> Expression:
        samples = tuple(axis(most, "s") for _, most in counts)
        guard: Expression = index(0).equals(0)
        share: Expression = constant(1.0, Scalar.FLOAT32)
        ends, fractions = [], []
        for along, at in enumerate((y, x)):
            number, most = counts[along]
            if number is None:
                share = share * float(most)
            else:
                guard = guard & (samples[along] < load(number, (box,)).to(Scalar.INDEX))
                share = share * load(number, (box,)).to(Scalar.FLOAT32)
            coordinate, last = load(indexes[along], (box, at, samples[along])), lengths[along] - 1
            lower = clamp(coordinate.to(Scalar.INT32).to(Scalar.INDEX), 0, last)
            ends.append((lower, minimum(lower + 1, last)))
            fractions.append(select(lower.equals(last), 0.0, coordinate - lower.to(Scalar.FLOAT32)))
        image = _image(call, builder, box, images)

        def along_height(column: Expression) -> Expression:
            first, second = (
                real(load(source, (image, row, column, channel), guard, operand.zero_point), operand)
                for row in ends[0]
            )
            return first * (1 - fractions[0]) + second * fractions[0]

        first, second = (along_height(column) for column in ends[1])
        value = first * (1 - fractions[1]) + second * fractions[1]
        return store(reduce(ReductionOp.SUM, samples, value) / share, output)

    return body


def _edges(call: Call, builder: Builder, boxes: Value, along: int) -> Value:
    """Returns the edges of the output elements along an axis, FLOAT32 (n, elements + 1)."""
    count = call.scalar(_SIZES[along])

    def edge(box: Expression, at: Expression) -> Expression:
        first, last = (apply(Op.ROUND_AWAY, _corner(boxes, box, along, end)) for end in (0, 1))
        step = (last - first + 1.0) / float(count)
        return step * at.to(Scalar.FLOAT32) + first

    return builder.compute((boxes.shape[0], count + 1), edge)


def _pool(call: Call, builder: Builder, source: Value, boxes: Value) -> Callable[..., Expression]:
    """Lowers ROI_POOLING. A bin outside the image yields zero."""
    images, *lengths, _ = source.shape
    output = call.operand("output")
    edges = [_edges(call, builder, boxes, along) for along in (0, 1)]
    # A bin may start and end within an image element, and its edges are rounded.
    extents = [
        min(length, math.ceil((length + 1) / call.scalar(size)) + 2)
        for length, size in zip(lengths, _SIZES, strict=True)
    ]

    def body(box: Expression, y: Expression, x: Expression, channel: Expression) -> Expression:
        inner = tuple(axis(extent, "r") for extent in extents)
        is_some: Expression = index(0).equals(0)
        guard, indexes = is_some, []
        for along, at in enumerate((y, x)):
            begin, end = (
                clamp(
                    apply(how, load(edges[along], (box, coordinate))).to(Scalar.INT32).to(Scalar.INDEX),
                    0,
                    lengths[along],
                )
                for how, coordinate in ((Op.FLOOR, at), (Op.CEIL, at + 1))
            )
            indexes.append(begin + inner[along])
            guard = guard & (indexes[along] < end)
            is_some = is_some & (begin < end)
        lowest = reduction_identity(ReductionOp.MAXIMUM, source.type)
        position = (_image(call, builder, box, images), *indexes, channel)
        largest = reduce(ReductionOp.MAXIMUM, inner, widen(load(source, position, guard, lowest)))
        return select(is_some, largest, output.zero_point).to(source.type)

    return body


LOWERINGS = {
    OperationType.ROI_ALIGN: _lower(_align),
    OperationType.ROI_POOLING: _lower(_pool),
}
