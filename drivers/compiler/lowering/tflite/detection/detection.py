"""Lowers DETECTION_POSTPROCESS."""

import numpy as np

from neurald.drivers.compiler.ir.algorithm import GreedySelection
from neurald.drivers.compiler.ir.builder import Builder, Unsupported
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
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.operations.machinery.call import Call

_SCALES = ("scale_y", "scale_x", "scale_height", "scale_width")


def _stored(call: Call, builder: Builder, name: str, at: tuple[Expression, ...]) -> Expression:
    """Returns an element of an input in a type in which equal real numbers are equal."""
    element = load(builder.value(call, name), at)
    return element.to(Scalar.INT32) if is_quantized(call.operand(name)) else element


def _real(call: Call, name: str, stored: Expression) -> Expression:
    """Returns a number from `_stored` as FLOAT64, without rounding."""
    operand = call.operand(name)
    if not is_quantized(operand):
        return stored.to(Scalar.FLOAT64)
    return (stored - operand.zero_point).to(Scalar.FLOAT64) * operand.scale


def _boxes(call: Call, builder: Builder) -> Value:
    """Decodes the boxes, FLOAT32 (anchors, 4)."""
    scales = [float(np.float32(call.scalar(name))) for name in _SCALES]

    def center_and_half(row: Expression, side: int) -> tuple[Expression, Expression]:
        def anchor(column: int) -> Expression:
            return _real(call, "anchors", _stored(call, builder, "anchors", (row, index(column))))

        def code(column: int) -> Expression:
            stored = _stored(call, builder, "boxes", (index(0), row, index(column)))
            return _real(call, "boxes", stored) / scales[column]

        length = anchor(side + 2)
        center = code(side) * length + anchor(side)
        half = apply(Op.EXP, code(side + 2)) * 0.5 * length
        return center.to(Scalar.FLOAT32), half.to(Scalar.FLOAT32)

    def body(row: Expression, column: Expression) -> Expression:
        (y, half_height), (x, half_width) = (center_and_half(row, side) for side in (0, 1))
        corners = y - half_height, x - half_width, y + half_height, x + half_width
        result = corners[3]
        for number, corner in enumerate(corners[:3]):
            result = select(column.equals(number), corner, result)
        return result

    return builder.compute((call.shape("scores")[1], 4), body)


class _Scores:
    """The scores of anchors, without the background, which is a column before all classes."""

    def __init__(self, call: Call, builder: Builder) -> None:
        self._call, self._builder = call, builder
        _, self.anchors, columns = call.shape("scores")
        self.classes: int = call.scalar("classes")
        self._first = columns - self.classes

    def stored(self, anchor: Expression, kind: Expression) -> Expression:
        """Returns a score as `_stored`."""
        return _stored(self._call, self._builder, "scores", (index(0), anchor, kind + self._first))

    def real(self, stored: Expression) -> Expression:
        """Returns a stored score as FLOAT64."""
        return _real(self._call, "scores", stored)

    def single(self, anchor: Expression, kind: Expression) -> Expression:
        """Returns a score as FLOAT32."""
        return self.real(self.stored(anchor, kind)).to(Scalar.FLOAT32)


def _detection(call: Call, builder: Builder) -> tuple[Value, ...]:
    scores = _Scores(call, builder)
    if not scores.anchors:
        raise Unsupported("without anchors it is not supported")
    lower = _by_class if call.scalar("per_class") else _by_anchor
    return lower(call, builder, _boxes(call, builder), scores)


def _candidate(call: Call, score: Expression) -> Expression:
    """Returns a FLOAT64 score as FLOAT32, NaN if it is below the threshold."""
    threshold = float(np.float32(call.scalar("score_threshold")))
    return select(score >= threshold, score.to(Scalar.FLOAT32), constant(float("nan"), Scalar.FLOAT32))


def _kept(call: Call, builder: Builder, boxes: Value, candidates: Value, limit: int) -> Value:
    iou_limit = float(np.float32(call.scalar("iou_threshold")))
    rows = candidates.shape[0]
    selection = GreedySelection(limit=limit, iou_limit=iou_limit)
    of_image = builder.reshape(boxes, (1, *boxes.shape))
    return builder.procedure(selection, of_image, candidates, output=(rows, limit + 1))


def _results(
    builder: Builder, count: Value, boxes: Value, slots: tuple[Value, Value, Value, Value]
) -> tuple[Value, ...]:
    """Returns the outputs.

    Args:
        builder: the builder of the operation.
        count: FLOAT32 (1,), the number of detections.
        boxes: the boxes of all anchors.
        slots: for each detection whether it exists, its anchor, its class and its score.
    """
    exists, anchors, kinds, scores = slots
    (length,) = exists.shape

    def present(at: Expression, value: Expression) -> Expression:
        return select(load(exists, (at,)), value, constant(0, Scalar.FLOAT32))

    def corner(_: Expression, at: Expression, column: Expression) -> Expression:
        anchor = clamp(load(anchors, (at,)).to(Scalar.INDEX), 0, boxes.shape[0] - 1)
        return present(at, load(boxes, (anchor, column)))

    return (
        builder.compute((1, length, 4), corner),
        builder.compute((1, length), lambda _, at: present(at, load(kinds, (at,)).to(Scalar.FLOAT32))),
        builder.compute((1, length), lambda _, at: present(at, load(scores, (at,)))),
        count,
    )


def _by_anchor(call: Call, builder: Builder, boxes: Value, scores: _Scores) -> tuple[Value, ...]:
    """Suppresses boxes by each anchor's best score; each detection has several classes."""
    anchors, classes = scores.anchors, scores.classes
    width: int = call.scalar("classes_per_detection")
    limit, ranks = min(call.scalar("detections"), anchors), min(classes, width)

    def best(_: Expression, anchor: Expression) -> Expression:
        along = axis(classes, "c")
        # Equal real numbers are equal as stored, and of the same order.
        return _candidate(
            call, scores.real(reduce(ReductionOp.MAXIMUM, (along,), scores.stored(anchor, along)))
        )

    found = _kept(call, builder, boxes, builder.compute((1, anchors), best), limit)
    number = builder.compute((), lambda: load(found, (index(0), index(limit))))

    def anchor(detection: Expression) -> Expression:
        kept = load(found, (index(0), minimum(detection, limit - 1))).to(Scalar.INDEX)
        return clamp(kept, 0, anchors - 1)

    rows = builder.compute((limit, classes), lambda row, kind: scores.single(anchor(row), kind))
    tops = builder.top_k(rows, ranks, prefers_lower_index=True)
    length = call.scalar("detections") * width

    def kind(slot: Expression) -> Expression:
        return load(tops, (minimum(slot // width, limit - 1), minimum(slot % width, ranks - 1)))

    def exists(slot: Expression) -> Expression:
        return (slot // width < load(number, ()).to(Scalar.INDEX)) & (slot % width < ranks)

    def own(slot: Expression) -> Expression:
        return scores.single(anchor(slot // width), clamp(kind(slot).to(Scalar.INDEX), 0, classes - 1))

    slots = (
        builder.compute((length,), exists),
        builder.compute((length,), lambda slot: anchor(slot // width).to(Scalar.INT32)),
        builder.compute((length,), kind),
        builder.compute((length,), own),
    )
    count = builder.compute((1,), lambda _: load(number, ()).to(Scalar.FLOAT32))
    return _results(builder, count, boxes, slots)


def _by_class(call: Call, builder: Builder, boxes: Value, scores: _Scores) -> tuple[Value, ...]:
    """Suppresses boxes in each class separately, and takes the best ones of all."""
    anchors, classes = scores.anchors, scores.classes
    limit = min(call.scalar("detections_per_class"), anchors)
    candidates = builder.compute(
        (classes, anchors), lambda kind, anchor: _candidate(call, scores.real(scores.stored(anchor, kind)))
    )
    found = _kept(call, builder, boxes, candidates, limit)

    def parts(place: Expression) -> tuple[Expression, Expression, Expression]:
        """Returns the class and anchor of a place, and a BOOL that is true if there is a box."""
        kind, rank = place // limit, place % limit
        anchor = clamp(load(found, (kind, rank)).to(Scalar.INDEX), 0, anchors - 1)
        return kind, anchor, rank < load(found, (kind, index(limit))).to(Scalar.INDEX)

    def own(place: Expression) -> Expression:
        kind, anchor, holds = parts(place)
        return select(holds, scores.single(anchor, kind), constant(float("-inf"), Scalar.FLOAT32))

    places = classes * limit
    ranked = builder.compute((places,), own)
    wanted = min(call.scalar("detections"), places)
    tops = builder.top_k(ranked, wanted, prefers_lower_index=True)
    length = call.scalar("detections") * call.scalar("classes_per_detection")

    def place(slot: Expression) -> Expression:
        top = load(tops, (minimum(slot, wanted - 1),)).to(Scalar.INDEX)
        return clamp(top, 0, places - 1)

    slots = (
        builder.compute((length,), lambda slot: (slot < wanted) & parts(place(slot))[2]),
        builder.compute((length,), lambda slot: parts(place(slot))[1].to(Scalar.INT32)),
        builder.compute((length,), lambda slot: parts(place(slot))[0].to(Scalar.INT32)),
        builder.compute((length,), lambda slot: load(ranked, (place(slot),))),
    )

    def count(_: Expression) -> Expression:
        along = axis(classes, "c")
        total = reduce(ReductionOp.SUM, (along,), load(found, (along, index(limit))))
        return minimum(total, wanted).to(Scalar.FLOAT32)

    return _results(builder, builder.compute((1,), count), boxes, slots)


LOWERINGS: Lowerings = {OperationType.TFLITE_DETECTION_POSTPROCESS: _detection}
