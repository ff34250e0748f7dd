"""NON_MAX_SUPPRESSION_V4 and, with soft suppression, NON_MAX_SUPPRESSION_V5, as in TFLite.

Boxes are pairs of opposite corners in any order. The number of results is the requested one;
surplus results are zeros.
"""

import numpy as np

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.detection.boxes import expect_shape
from neurald.hal.operations.detection.suppression import overlaps
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.signature import Form, Parameter, row, tensor

_INPUTS = (
    tensor("boxes", OperandType.TENSOR_FLOAT32, rank=2),
    tensor("scores", OperandType.TENSOR_FLOAT32, rank=1),
    tensor("limit", OperandType.TENSOR_INT32, rank=(0, 1)),
    tensor("iou_threshold", OperandType.TENSOR_FLOAT32, rank=(0, 1)),
    tensor("score_threshold", OperandType.TENSOR_FLOAT32, rank=(0, 1)),
)
_SIGMA = tensor("sigma", OperandType.TENSOR_FLOAT32, rank=(0, 1))
_INDEXES = tensor("indexes_out", OperandType.TENSOR_INT32, rank=1)
_SCORES = tensor("scores_out", OperandType.TENSOR_FLOAT32, rank=1)
_COUNT = tensor("count_out", OperandType.TENSOR_INT32, rank=(0, 1))


def _shape(call: Call) -> tuple[Shape, ...]:
    (count,) = call.shape("scores")
    expect_shape(call, "boxes", (count, 4), "two corners for each score")
    limit = (call.scalar_in("limit", 0),)
    return (limit, ()) if len(call.binding.outputs) == 2 else (limit, limit, ())


class _Queue:
    """A priority queue of boxes, highest score first.

    The order of equal scores is that of LiteRT's binary heap. An element is a score, an index, and
    the number of chosen boxes that it has been compared with.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, int]] = []

    def __bool__(self) -> bool:
        return bool(self._heap)

    def push(self, element: tuple[float, int, int]) -> None:
        """Adds an element."""
        self._heap.append(element)
        self._sift_up(len(self._heap) - 1, element)

    def pop(self) -> tuple[float, int, int]:
        """Removes and returns the first element."""
        heap = self._heap
        first, last = heap[0], heap.pop()
        if heap:
            hole, child = 0, 1
            while child < len(heap):
                if child + 1 < len(heap) and heap[child + 1][0] >= heap[child][0]:
                    child += 1
                heap[hole] = heap[child]
                hole, child = child, 2 * child + 1
            self._sift_up(hole, last)
        return first

    def _sift_up(self, hole: int, element: tuple[float, int, int]) -> None:
        heap = self._heap
        while hole and heap[(hole - 1) // 2][0] < element[0]:
            heap[hole] = heap[(hole - 1) // 2]
            hole = (hole - 1) // 2
        heap[hole] = element


def select_boxes(
    boxes: Array,
    scores: Array,
    iou_threshold: float,
    min_score: float,
    limit: int,
    sigma: float = 0.0,
) -> tuple[Array, Array]:
    """Keeps boxes with scores above `min_score`, best first, unless a chosen one overlaps.

    With a `sigma`, smaller overlaps lower a score, and a box whose score was lowered is queued
    again. It is compared with every chosen box once, the latest first. As in LiteRT, a chosen box
    is queued again too, and is then dropped because it overlaps itself; a box without area does
    not, and is chosen again.

    Args:
        boxes: float32, (n, 4), the smaller coordinates first.
        scores: float32, (n,).
        iou_threshold, min_score, sigma: see above.
        limit: maximum number of boxes to keep.

    Returns:
        The indexes of the chosen boxes and their scores, both in the order of selection.
    """
    scale = float(np.float32(-0.5) / np.float32(sigma)) if sigma > 0 else 0.0
    waiting = _Queue()
    candidates = np.flatnonzero(scores > np.float32(min_score)).tolist()
    for index in candidates:
        waiting.push((float(scores[index]), index, 0))
    limit = min(limit, len(candidates))
    indexes: list[int] = []
    found: list[float] = []
    while waiting and len(indexes) < limit:
        original, index, compared = waiting.pop()
        ious = overlaps(boxes[index], boxes[indexes[compared:]])[::-1]
        score, is_dropped = _lowered(original, ious, iou_threshold, min_score, scale)
        if is_dropped:
            continue
        chosen = len(indexes)
        if score == original:
            indexes.append(index)
            found.append(score)
        if score > min_score:
            waiting.push((score, index, chosen))
    return np.array(indexes, np.int32), np.array(found, np.float32)


def _lowered(
    score: float, ious: Array, iou_threshold: float, min_score: float, scale: float
) -> tuple[float, bool]:
    """Returns a score after overlaps lowered it, and whether one of them reaches the threshold."""
    if not scale:
        return score, bool((ious >= iou_threshold).any())
    left = np.float32(score)
    for iou in ious:
        if iou >= iou_threshold:
            return float(left), True
        left *= np.exp(np.float32(scale) * iou * iou)
        if left <= min_score:
            break
    return float(left), False


def _corners(boxes: Array) -> Array:
    """Sorts the corners of boxes, smaller coordinates first."""
    first, second = boxes[:, :2], boxes[:, 2:]
    return np.concatenate((np.minimum(first, second), np.maximum(first, second)), axis=1)


def _filled(values: Array, length: int, dtype: type[np.generic]) -> Array:
    filled = np.zeros(length, dtype)
    filled[: len(values)] = values
    return filled


def suppressed(
    boxes: Array,
    scores: Array,
    iou_threshold: float,
    min_score: float,
    limit: int,
    sigma: float = 0.0,
) -> tuple[Array, Array]:
    """Applies `select_boxes` to boxes whose corners have any order."""
    # Most boxes are not candidates.
    candidates = np.flatnonzero(scores > np.float32(min_score))
    kept, found = select_boxes(
        _corners(boxes[candidates]), scores[candidates], iou_threshold, min_score, limit, sigma
    )
    return candidates[kept], found


def _reference(call: Call) -> tuple[Array, ...]:
    limit, is_soft = call.scalar_in("limit", 0), "sigma" in call.binding.inputs
    kept, found = suppressed(
        call.array("boxes"),
        call.array("scores"),
        call.scalar("iou_threshold"),
        call.scalar("score_threshold"),
        limit,
        call.scalar("sigma") if is_soft else 0.0,
    )
    left = (_filled(found, limit, np.float32),) if is_soft else ()
    return _filled(kept, limit, np.int32), *left, np.array(len(kept), np.int32)


def _definition(
    operation_type: OperationType,
    inputs: tuple[Parameter, ...],
    outputs: tuple[Parameter, ...],
) -> Definition:
    return Definition(
        type=operation_type,
        forms=(Form(inputs=inputs, outputs=outputs),),
        rows=(row(FeatureLevel.LEVEL_1),),
        shape=_shape,
        reference=_reference,
    )


DEFINITIONS = (
    _definition(OperationType.TFLITE_NON_MAX_SUPPRESSION_V4, _INPUTS, (_INDEXES, _COUNT)),
    _definition(OperationType.TFLITE_NON_MAX_SUPPRESSION_V5, (*_INPUTS, _SIGMA), (_INDEXES, _SCORES, _COUNT)),
)
