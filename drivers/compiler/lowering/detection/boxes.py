"""Lowers AXIS_ALIGNED_BBOX_TRANSFORM and BOX_WITH_NMS_LIMIT."""

from collections.abc import Callable

from neurald.drivers.compiler.ir.algorithm import SoftSelection
from neurald.drivers.compiler.ir.builder import Builder, Limit, Unsupported
from neurald.drivers.compiler.ir.expression import (
    Expression,
    apply,
    clamp,
    constant,
    index,
    load,
    maximum,
    minimum,
    select,
)
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.arithmetic.quantized import real, store
from neurald.drivers.compiler.lowering.machinery.table import BoundedLowerings, BoundedValue
from neurald.drivers.compiler.lowering.movement.indexing import bounded_index, output_shapes
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.detection.boxes import box_selection_rule
from neurald.hal.operations.machinery.call import Call

#: Messages of failed executions.
OUT_OF_ORDER = "a box has its corners out of order"
NO_IMAGE = "there is no such image"


def moved_corner(
    column: Expression,
    corner: Callable[[Expression], Expression],
    delta: Callable[[Expression], Expression],
    edge: Callable[[Expression], Expression],
) -> Expression:
    """Returns a coordinate of a box that is moved, scaled and clipped to its image.

    See `neurald.hal.operations.detection.boxes.transform`.

    Args:
        column: which coordinate, (x1, y1, x2, y2).
        corner: returns a coordinate of the box.
        delta: returns one of the four deltas.
        edge: returns the size of the image, of which 0 is the width.
    """
    axis, end = column % 2, column // 2
    size = corner(axis + 2) - corner(axis)
    center = (corner(axis) + corner(axis + 2)) / 2.0 + delta(axis) * size
    half = apply(Op.EXP, delta(axis + 2)) * size / 2.0
    moved = select(end.equals(0), center - half, center + half)
    return minimum(maximum(moved, constant(0.0, Scalar.FLOAT32)), edge(axis))


def _transform(call: Call, builder: Builder) -> tuple[Value, ...]:
    """Lowers the operation; see `neurald.hal.operations.detection.boxes.transform`."""
    boxes, deltas, images, sizes = (
        builder.value(call, name) for name in ("boxes", "deltas", "images", "image_sizes")
    )
    (shape,), output = output_shapes(call), call.operand("output")
    count = sizes.shape[0]

    def corner(box: Expression, which: Expression) -> Expression:
        return real(load(boxes, (box, which)), call.operand("boxes"))

    def delta(box: Expression, which: Expression) -> Expression:
        return real(load(deltas, (box, which)), call.operand("deltas"))

    def body(box: Expression, column: Expression) -> Expression:
        image, exists = bounded_index(load(images, (box,)), max(1, count))

        def edge(axis: Expression) -> Expression:
            size = load(sizes, (image, 1 - axis), exists & (image < count))
            return real(size, call.operand("image_sizes"))

        of_class = column // 4 * 4
        moved = moved_corner(
            column % 4, lambda at: corner(box, at), lambda at: delta(box, of_class + at), edge
        )
        return store(moved, output)

    def requirements(box: Expression, column: Expression) -> list[tuple[Expression, str]]:
        axis = column % 2
        image = load(images, (box,))
        return [
            (corner(box, axis) <= corner(box, axis + 2), OUT_OF_ORDER),
            ((image >= 0) & (image < count), NO_IMAGE),
        ]

    return (builder.compute(shape, body, requirements),)


def _selected(call: Call, builder: Builder) -> tuple[BoundedValue, ...]:
    """Lowers BOX_WITH_NMS_LIMIT."""
    selection = SoftSelection(rule=box_selection_rule(call))
    given, images = builder.value(call, "boxes"), builder.value(call, "images")
    rows, classes = call.shape("scores")
    bound = selection.bound(rows, classes)
    if not bound:
        raise Unsupported(f"{rows} boxes, of which none may be selected, are not supported")

    def corner(row: Expression, kind: Expression, column: Expression) -> Expression:
        return real(load(given, (row, kind * 4 + column)), call.operand("boxes"))

    def in_order(row: Expression, kind: Expression, column: Expression) -> list[tuple[Expression, str]]:
        start, end = (corner(row, kind, column % 2 + each) for each in (0, 2))
        return [(start <= end, OUT_OF_ORDER)]

    boxes = builder.compute((rows, classes, 4), corner, in_order)
    source = builder.value(call, "scores")
    scores = builder.compute((rows, classes), lambda *at: real(load(source, at), call.operand("scores")))
    found = builder.procedure(selection, boxes, scores, images, output=(3 * bound + 1,))

    def row_of(slot: Expression) -> Expression:
        return clamp(load(found, (slot,)).to(Scalar.INDEX), 0, rows - 1)

    def score_of(slot: Expression) -> Expression:
        bits = load(found, (slot + 2 * bound,))
        return store(apply(Op.REINTERPRET, bits, type=Scalar.FLOAT32), call.operand("scores_out"))

    def chosen_corner(slot: Expression, column: Expression) -> Expression:
        kind = clamp(load(found, (slot + bound,)).to(Scalar.INDEX), 0, classes - 1)
        return load(given, (row_of(slot), kind * 4 + column))

    # Before the results, whose computation is limited by it.
    count = builder.compute((), lambda: load(found, (index(3 * bound),)))
    limit = Limit(dimension=0, bound=bound, count=count)
    results = (
        builder.compute((bound,), score_of),
        builder.compute((bound, 4), chosen_corner),
        builder.compute((bound,), lambda slot: load(found, (slot + bound,))),
        builder.compute((bound,), lambda slot: load(images, (row_of(slot),))),
    )
    return tuple(BoundedValue(value=each, limit=limit) for each in results)


LOWERINGS = {OperationType.AXIS_ALIGNED_BBOX_TRANSFORM: _transform}
BOUNDED_LOWERINGS: BoundedLowerings = {OperationType.BOX_WITH_NMS_LIMIT: _selected}
