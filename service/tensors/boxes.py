"""Boxes that a detector may have meant: corners, how well they agree, and the best of them."""

from typing import Final

import numpy as np
from msgspec import Struct

from neurald.service.tensors.arrays import Array

#: Shares of two boxes' union that their intersection may have.
OVERLAP: Final = 0.5
#: Boxes that are compared with each other.
_MAX_CANDIDATES: Final = 1000
#: Exponents beyond this are of no use, and overflow.
MAX_EXPONENT: Final = 30.0
#: How many of the best boxes have to agree, and the share of the best score that theirs must have.
_JUDGED: Final = 100
_MIN_SHARE: Final = 0.5
#: A score that the boxes of things in an image have.
_MIN_SCORE: Final = 0.1
#: Minimum number of others with which a box has to agree, and their overlap if they are boxes of
#: the same thing.
_MIN_RIVALS: Final = 2
_MIN_OVERLAP: Final = 0.2


class Detection(Struct, frozen=True):
    """A box that was found.

    Attributes:
        score: from 0 to 1.
        kind: the number of the class.
        box: top, left, bottom and right as shares of the image.
    """

    score: float
    kind: int
    box: tuple[float, ...]


class Boxes(Struct, frozen=True):
    """All boxes of a detector before overlapping ones are suppressed.

    Attributes:
        name: the kind of detector, for display.
        corners: top, left, bottom and right as shares of the image, of shape (boxes, 4).
        scores: the scores, with shape (boxes, classes).
        overlap: see `OVERLAP`.
    """

    name: str
    corners: Array
    scores: Array
    overlap: float = OVERLAP


def corners_of(centers: Array, sizes: Array) -> Array:
    """Returns corners of boxes with these centres and sizes, as y and x."""
    return np.concatenate([centers - sizes / 2, centers + sizes / 2], axis=1)


def exponential(values: Array) -> Array:
    """Returns the exponential of values, without overflow."""
    return np.asarray(np.exp(np.minimum(values, MAX_EXPONENT)), np.float32)


def sigmoid(values: Array) -> Array:
    """Returns the sigmoid of values."""
    return np.asarray(1 / (1 + np.exp(-np.clip(values, -MAX_EXPONENT, MAX_EXPONENT))), np.float32)


def are_probabilities(values: Array) -> bool:
    """Returns whether values are from 0 to 1."""
    return bool(values.size == 0 or (values.min() >= 0 and values.max() <= 1))


def probabilities(values: Array) -> Array:
    """Returns values that are probabilities, or their sigmoids."""
    return values if are_probabilities(values) else sigmoid(values)


def agreement(found: Boxes) -> float:
    """Returns how well the best boxes agree, from 0 to 1.

    A detector finds a thing from several cells or anchors, whose boxes are about the same if they
    are decoded right.
    """
    scores = np.nan_to_num(found.scores)
    best, kinds = scores.max(1), scores.argmax(1)
    limit = max(_MIN_SCORE, _MIN_SHARE * float(best.max(initial=0)))
    order = np.argsort(-best, kind="stable")[:_JUDGED]
    order = order[best[order] >= limit]
    total = weight = 0.0
    for place in order.tolist():
        rivals = order[(kinds[order] == kinds[place]) & (order != place)]
        if len(rivals) < _MIN_RIVALS:
            continue
        shares = overlaps(found.corners[place], found.corners[rivals])
        same = shares[shares >= _MIN_OVERLAP]
        weight += float(best[place])
        if len(same) >= _MIN_RIVALS:
            total += float(best[place]) * float(same.mean())
    return total / weight if weight else 0.0


def best_boxes(found: Boxes, count: int) -> list[Detection]:
    """Returns the best boxes, without those that overlap with better ones of their class."""
    scores = np.nan_to_num(found.scores).reshape(-1)
    order = np.argsort(-scores, kind="stable")[:_MAX_CANDIDATES]
    classes = found.scores.shape[1]
    kept: list[tuple[int, int]] = []
    for place in order.tolist():
        box, kind = divmod(place, classes)
        rivals = [other for other, of in kept if of == kind]
        if not rivals or overlaps(found.corners[box], found.corners[rivals]).max() <= found.overlap:
            kept.append((box, kind))
        if len(kept) == count:
            break
    return [
        Detection(float(scores[box * classes + kind]), kind, tuple(map(float, found.corners[box])))
        for box, kind in kept
    ]


def overlaps(box: Array, others: Array) -> Array:
    """Returns the intersection over the union of a box with each of others."""
    top, bottom = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    shared = np.prod(np.maximum(bottom - top, 0), axis=1)
    areas = [np.prod(np.maximum(each[..., 2:] - each[..., :2], 0), axis=-1) for each in (box, others)]
    return np.asarray(shared / np.maximum(areas[0] + areas[1] - shared, np.finfo(np.float32).tiny))
