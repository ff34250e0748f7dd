"""Non-maximum suppression: of overlapping boxes, those with the best scores are kept.

Boxes are rows of two opposite corners, [x1, y1, x2, y2] or [y1, x1, y2, x2], the smaller
coordinates first. Overlap is the area of the intersection over that of the union (IoU). All
computations are in float32, so that comparisons with thresholds match Android's.
"""

from collections.abc import Callable

import numpy as np

from neurald.hal.operations.machinery.call import Array

#: Maps overlaps with a chosen box to factors for the scores of the other boxes.
Decay = Callable[[Array], Array]

#: Number of boxes in the first block of comparisons.
_FIRST_BLOCK = 64


def overlaps(box: Array, others: Array) -> Array:
    """Returns the IoU of `box` with each row of `others`; 0 if both have no area."""
    with np.errstate(all="ignore"):
        areas = (others[:, 2] - others[:, 0]) * (others[:, 3] - others[:, 1])
        area = (box[2] - box[0]) * (box[3] - box[1])
        sides = (np.minimum(others[:, 2 + d], box[2 + d]) - np.maximum(others[:, d], box[d]) for d in (0, 1))
        shared = np.multiply(*(np.maximum(side, 0) for side in sides), dtype=np.float32)
        union = areas + area - shared
        iou: Array = np.divide(shared, union, out=np.zeros_like(union), where=union != 0)
    return iou


def suppress(boxes: Array, scores: Array, threshold: float, limit: int | None = None) -> Array:
    """Drops each box that overlaps a better kept one by `threshold` or more (hard suppression).

    Args:
        boxes: (n, 4).
        scores: (n,).
        threshold: the overlap.
        limit: maximum number of boxes to keep; None for all.

    Returns:
        Indexes of the kept boxes, best first; among equal scores, lower indexes first.
    """
    order = np.argsort(-scores, kind="stable")
    return select_compatible(
        order, limit, lambda best, others: overlaps(boxes[best], boxes[others]) < threshold
    )


def select_compatible(order: Array, limit: int | None, is_compatible: Callable[[int, Array], Array]) -> Array:
    """Keeps each candidate that is compatible with all candidates kept before it.

    Candidates are processed in blocks of increasing length: if only few are wanted, most are never
    compared.

    Args:
        order: indexes, in order of preference.
        limit: maximum number to keep; None for all.
        is_compatible: returns which indexes are compatible with a kept one.
    """
    kept: list[int] = []
    begin, length = 0, len(order) if limit is None else _FIRST_BLOCK
    while begin < len(order) and (limit is None or len(kept) < limit):
        pending = order[begin : begin + length]
        begin, length = begin + length, 2 * length
        for each in kept:
            pending = pending[is_compatible(each, pending)]
        while pending.size and (limit is None or len(kept) < limit):
            best, pending = int(pending[0]), pending[1:]
            kept.append(best)
            pending = pending[is_compatible(best, pending)]
    return np.array(kept, np.intp)


def soft_suppress(
    boxes: Array, scores: Array, decay: Decay, min_score: float, limit: int | None = None
) -> tuple[Array, Array]:
    """Lowers the scores of overlapping boxes, and drops boxes below `min_score` (soft suppression).

    Args:
        boxes: (n, 4).
        scores: (n,).
        decay: maps overlaps to factors for scores.
        min_score: the lowest score to keep.
        limit: maximum number of boxes to keep; None for all.

    Returns:
        Indexes of the kept boxes in the order of selection (among equal scores, lower indexes
            first), and their lowered scores.
    """
    scores = scores.astype(np.float32)
    pending = np.arange(len(scores))
    kept: list[int] = []
    while pending.size and (limit is None or len(kept) < limit):
        position = int(np.argmax(scores[pending]))
        best = int(pending[position])
        kept.append(best)
        pending = np.delete(pending, position)
        with np.errstate(all="ignore"):
            scores[pending] *= decay(overlaps(boxes[best], boxes[pending]))
        pending = pending[~(scores[pending] < min_score)]
    indexes = np.array(kept, np.intp)
    return indexes, scores[indexes]
