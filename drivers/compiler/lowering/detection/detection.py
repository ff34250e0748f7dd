"""Lowers DETECTION_POSTPROCESSING.

Classes are counted without the background here, which is the first column of scores.
"""

import numpy as np
from msgspec import Struct

from neurald.drivers.compiler.ir.algorithm import GreedySelection
from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import (
    Expression,
    apply,
    axis,
    clamp,
    constant,
    index,
    load,
    minimum,
    reduce,
    select,
)
from neurald.drivers.compiler.ir.op import Op, ReductionOp
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.machinery.table import Lowerings
from neurald.drivers.compiler.lowering.movement.indexing import output_shapes
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call

_SCALES = ("scale_y", "scale_x", "scale_height", "scale_width")
_OUTPUTS = ("scores_out", "boxes_out", "classes_out", "counts_out")


class _Slots(Struct, frozen=True, kw_only=True):
    """The facts that are known of each place of the results, (images, places).

    Attributes:
        exists: BOOL.
        anchors, classes: INT32; those of places that do not exist are anything in their range.
        counts: INT32 (images,), the number of places that exist.
    """

    exists: Value
    anchors: Value
    classes: Value
    counts: Value


def _real(call: Call, builder: Builder, name: str, *at: Expression) -> Expression:
    return load(builder.value(call, name), at).to(Scalar.FLOAT32)


def _score(
    call: Call, builder: Builder, image: Expression, anchor: Expression, kind: Expression
) -> Expression:
    return _real(call, builder, "scores", image, anchor, kind + 1)


def _boxes(call: Call, builder: Builder) -> Value:
    """Decodes the boxes, FLOAT32 (images, anchors, 4)."""
    images, anchors, _ = call.shape("scores")
    scales = [float(np.float32(call.scalar(name))) for name in _SCALES]

    def body(image: Expression, anchor: Expression, column: Expression) -> Expression:
        def along(side: int) -> tuple[Expression, Expression]:
            """Returns the center and half of the size."""
            start, size = (_real(call, builder, "anchors", anchor, index(side + each)) for each in (0, 2))
            shift, growth = (
                _real(call, builder, "deltas", image, anchor, index(side + each)) for each in (0, 2)
            )
            return start + size * shift / scales[side], size * apply(Op.EXP, growth / scales[side + 2]) / 2.0

        is_vertical = (column % 2).equals(0)
        center, half = (select(is_vertical, *each) for each in zip(along(0), along(1), strict=True))
        return select(column < 2, center - half, center + half)

    return builder.compute((images, anchors, 4), body)


def _candidate(call: Call, score: Expression) -> Expression:
    """Returns a score, NaN unless it exceeds the threshold."""
    threshold = constant(float(np.float32(call.scalar("score_threshold"))), Scalar.FLOAT32)
    return select(threshold < score, score, constant(float("nan"), Scalar.FLOAT32))


def _kept(call: Call, builder: Builder, boxes: Value, candidates: Value, limit: int) -> Value:
    iou_limit = float(np.float32(call.scalar("iou_threshold")))
    selection = GreedySelection(limit=limit, iou_limit=iou_limit, includes_limit=True)
    return builder.procedure(selection, boxes, candidates, output=(candidates.shape[0], limit + 1))


def _by_class(call: Call, builder: Builder, boxes: Value, places: int) -> _Slots:
    """Suppresses boxes in each class separately, then selects the best of all."""
    images, anchors, columns = call.shape("scores")
    classes = columns - 1
    limit = min(call.scalar("detections_per_class"), anchors)

    def candidate(row: Expression, anchor: Expression) -> Expression:
        return _candidate(call, _score(call, builder, row // classes, anchor, row % classes))

    found = _kept(call, builder, boxes, builder.compute((images * classes, anchors), candidate), limit)

    def parts(image: Expression, rank: Expression) -> tuple[Expression, Expression, Expression]:
        """Returns the class and anchor of a ranked box, and a BOOL that is true if there is one."""
        kind, number = rank // limit, rank % limit
        row = image * classes + kind
        anchor = clamp(load(found, (row, number)).to(Scalar.INDEX), 0, anchors - 1)
        return kind, anchor, number < load(found, (row, index(limit))).to(Scalar.INDEX)

    def own(image: Expression, rank: Expression) -> Expression:
        kind, anchor, exists = parts(image, rank)
        # Scores exceed a threshold, so none is minus infinity.
        return select(
            exists, _score(call, builder, image, anchor, kind), constant(float("-inf"), Scalar.FLOAT32)
        )

    ranks = classes * limit
    wanted = min(places, ranks)
    tops = builder.top_k(builder.compute((images, ranks), own), wanted, prefers_lower_index=True)

    def rank(image: Expression, place: Expression) -> Expression:
        return clamp(load(tops, (image, minimum(place, wanted - 1))).to(Scalar.INDEX), 0, ranks - 1)

    def count(image: Expression) -> Expression:
        along = axis(classes, "c")
        total = reduce(ReductionOp.SUM, (along,), load(found, (image * classes + along, index(limit))))
        return minimum(total, wanted)

    shape = images, places
    return _Slots(
        exists=builder.compute(
            shape, lambda image, place: (place < wanted) & parts(image, rank(image, place))[2]
        ),
        anchors=builder.compute(
            shape, lambda image, place: parts(image, rank(image, place))[1].to(Scalar.INT32)
        ),
        classes=builder.compute(
            shape, lambda image, place: parts(image, rank(image, place))[0].to(Scalar.INT32)
        ),
        counts=builder.compute((images,), count),
    )


def _by_anchor(call: Call, builder: Builder, boxes: Value, places: int) -> _Slots:
    """Suppresses boxes by each anchor's best score, then selects the best classes of the rest."""
    images, anchors, columns = call.shape("scores")
    classes = columns - 1
    limit = min(call.scalar("detections"), anchors)
    width: int = min(classes, call.scalar("classes_per_detection"))

    def best(image: Expression, anchor: Expression) -> Expression:
        along = axis(classes, "c")
        scores = _score(call, builder, image, anchor, along)
        return _candidate(call, reduce(ReductionOp.MAXIMUM, (along,), scores))

    found = _kept(call, builder, boxes, builder.compute((images, anchors), best), limit)

    def anchor(image: Expression, number: Expression) -> Expression:
        kept = load(found, (image, minimum(number, limit - 1))).to(Scalar.INDEX)
        return clamp(kept, 0, anchors - 1)

    rows = builder.compute(
        (images, limit, classes),
        lambda image, number, kind: _score(call, builder, image, anchor(image, number), kind),
    )
    tops = builder.top_k(rows, width, prefers_lower_index=True)

    def count(image: Expression) -> Expression:
        return load(found, (image, index(limit))) * width

    shape = images, places
    return _Slots(
        exists=builder.compute(shape, lambda image, place: place < count(image).to(Scalar.INDEX)),
        anchors=builder.compute(shape, lambda image, place: anchor(image, place // width).to(Scalar.INT32)),
        classes=builder.compute(
            shape,
            lambda image, place: load(tops, (image, minimum(place // width, limit - 1), place % width)),
        ),
        counts=builder.compute((images,), count),
    )


def _detection(call: Call, builder: Builder) -> tuple[Value, ...]:
    shapes, (images, anchors, columns) = output_shapes(call), call.shape("scores")
    kinds = [Scalar.of(call.operand(name).type.dtype) for name in _OUTPUTS]
    if not images * anchors:
        return tuple(
            builder.constant(np.zeros(shape, kind.dtype)) for shape, kind in zip(shapes, kinds, strict=True)
        )
    boxes = _boxes(call, builder)
    lower = _by_class if call.scalar("per_class") else _by_anchor
    slots = lower(call, builder, boxes, shapes[0][1])

    def present(at: tuple[Expression, Expression], value: Expression) -> Expression:
        return select(load(slots.exists, at), value, constant(0, value.type))

    def anchor(*at: Expression) -> Expression:
        return clamp(load(slots.anchors, at).to(Scalar.INDEX), 0, anchors - 1)

    def score(image: Expression, place: Expression) -> Expression:
        kind = clamp(load(slots.classes, (image, place)).to(Scalar.INDEX), 0, columns - 2)
        found = _score(call, builder, image, anchor(image, place), kind)
        return present((image, place), found).to(kinds[0])

    def corner(image: Expression, place: Expression, column: Expression) -> Expression:
        return present((image, place), load(boxes, (image, anchor(image, place), column))).to(kinds[1])

    def kind(image: Expression, place: Expression) -> Expression:
        number = load(slots.classes, (image, place)) + (1 if call.scalar("background") else 0)
        return present((image, place), number)

    return (
        builder.compute(shapes[0], score),
        builder.compute(shapes[1], corner),
        builder.compute(shapes[2], kind),
        slots.counts,
    )


LOWERINGS: Lowerings = {OperationType.DETECTION_POSTPROCESSING: _detection}
