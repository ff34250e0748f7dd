"""Non-maximum suppression: of boxes that overlap, those with the best scores are kept.

Boxes are rows of two opposite corners, [x1, y1, x2, y2] or [y1, x1, y2, x2], the smaller coordinates first. Overlap is
the area of the intersection over that of the union (IoU). All is float32, so that thresholds compare as on Android.
"""

from collections.abc import Callable

import numpy as np

from neurald.hal.operations.machinery.call import Array

#: From overlaps with a chosen box, what the scores of the others are multiplied with.
Decay = Callable[[Array], Array]

#: How many boxes are compared with the best ones first.
_FIRST_BLOCK = 64


def overlaps(box: Array, others: Array) -> Array:
    """The IoU of `box` with each row of `others`; 0 where neither has an area."""
    with np.errstate(all="ignore"):
        areas = (others[:, 2] - others[:, 0]) * (others[:, 3] - others[:, 1])
        area = (box[2] - box[0]) * (box[3] - box[1])
        sides = (np.minimum(others[:, 2 + d], box[2 + d]) - np.maximum(others[:, d], box[d]) for d in (0, 1))
        shared = np.multiply(*(np.maximum(side, 0) for side in sides), dtype=np.float32)
        union = areas + area - shared
        iou: Array = np.divide(shared, union, out=np.zeros_like(union), where=union != 0)
    return iou


def suppress(boxes: Array, scores: Array, threshold: float, limit: int | None = None) -> Array:
    """Hard suppression: a box goes if a better one that was kept overlaps it by `threshold` or more.

    Args:
        boxes: (n, 4).
        scores: (n,).
        threshold: the overlap.
        limit: how many boxes are kept at most; None for all.

    Returns:
        Indexes of the boxes that are kept, best first, of equal ones the lower first.
    """
    order = np.argsort(-scores, kind="stable")
    return keep_apart(order, limit, lambda best, others: overlaps(boxes[best], boxes[others]) < threshold)


def keep_apart(order: Array, limit: int | None, stay: Callable[[int, Array], Array]) -> Array:
    """Those that stay beside all that were kept before them.

    They are looked at in blocks, each longer than the one before: where few are wanted, most are never compared.

    Args:
        order: indexes, those that are preferred first.
        limit: how many are kept at most; None for all.
        stay: says of indexes which of them stay beside one that is kept.
    """
    kept: list[int] = []
    begin, length = 0, len(order) if limit is None else _FIRST_BLOCK
    while begin < len(order) and (limit is None or len(kept) < limit):
        pending = order[begin : begin + length]
        begin, length = begin + length, 2 * length
        for each in kept:
            pending = pending[stay(each, pending)]
        while pending.size and (limit is None or len(kept) < limit):
            best, pending = int(pending[0]), pending[1:]
            kept.append(best)
            pending = pending[stay(best, pending)]
    return np.array(kept, np.intp)


def suppress_softly(
    boxes: Array, scores: Array, decay: Decay, lowest: float, limit: int | None = None
) -> tuple[Array, Array]:
    """Soft suppression: what overlaps a chosen box loses score, and goes once it has less than `lowest`.

    Args:
        boxes: (n, 4).
        scores: (n,).
        decay: how overlap lowers scores.
        lowest: the lowest score that stays.
        limit: how many boxes are kept at most; None for all.

    Returns:
        Indexes of the boxes that are kept in the order of their choice, of equal ones the lower first, and their
        scores, lowered.
    """
    scores = scores.astype(np.float32)
    pending = np.arange(len(scores))
    kept: list[int] = []
    while pending.size and (limit is None or len(kept) < limit):
        place = int(np.argmax(scores[pending]))
        best = int(pending[place])
        kept.append(best)
        pending = np.delete(pending, place)
        with np.errstate(all="ignore"):
            scores[pending] *= decay(overlaps(boxes[best], boxes[pending]))
        pending = pending[~(scores[pending] < lowest)]
    indexes = np.array(kept, np.intp)
    return indexes, scores[indexes]
