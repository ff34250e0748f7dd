"""Recipes for regions of interest, proposals and detections."""

import numpy as np

from neurald.hal.operations.machinery.call import Array
from neurald.service.conformance.recipes.draw import Draw
from neurald.service.conformance.recipes.recipe import RecipeArguments, RecipeRequest, integers


def boxes(draw: Draw, count: int, classes: int = 1) -> Array:
    """Draws boxes as an array of shape (count, 4 × classes).

    Each box is (left, top, right, bottom), in multiples of 1/8, which 16 bits represent exactly.
    """
    corners = np.array([[draw.integer(0, 32) for _ in range(4 * classes)] for _ in range(count)])
    shaped = corners.reshape(count, classes, 2, 2).astype(np.float64) / 8
    ends = shaped[:, :, 0] + np.abs(shaped[:, :, 1]) + 0.5
    return np.concatenate([shaped[:, :, 0], ends], axis=-1).reshape(count, 4 * classes)


def regions(request: RecipeRequest) -> RecipeArguments:
    """Draws a feature map and boxes on it."""
    draw, nchw = request.draw, request.nchw()
    batches, count = draw.integer(1, 2), draw.integer(1, 4)
    shape = request.image(batches=batches, height=8, width=8, channels=draw.integer(1, 3), nchw=nchw)
    return {
        "input": shape,
        "heatmap": shape if request.has("heatmap") else None,
        "boxes": boxes(draw, count) if request.has("boxes") else None,
        "images": integers(sorted(draw.integer(0, batches - 1) for _ in range(count))),
        "height": draw.integer(1, 3),
        "width": draw.integer(1, 3),
        "height_stride": draw.choice((1.0, 2.0)),
        "width_stride": draw.choice((1.0, 2.0)),
        "height_samples": draw.integer(0, 3),
        "width_samples": draw.integer(0, 3),
        "nchw": nchw,
    }


def heatmap(request: RecipeRequest) -> RecipeArguments:
    """Draws square heatmaps, and a box for each."""
    draw, nchw = request.draw, request.nchw()
    count, size = draw.integer(1, 4), draw.integer(2, 6)
    shape = request.image(batches=count, height=size, width=size, channels=draw.integer(1, 3), nchw=nchw)
    return {"heatmap": shape, "boxes": boxes(draw, count), "nchw": nchw}


def transformed_boxes(request: RecipeRequest) -> RecipeArguments:
    """Draws boxes, and deltas to transform them."""
    draw = request.draw
    count, classes, images = draw.integer(1, 4), draw.integer(1, 3), draw.integer(1, 2)
    return {
        "boxes": boxes(draw, count),
        "deltas": (count, 4 * classes),
        "images": integers(sorted(draw.integer(0, images - 1) for _ in range(count))),
        "image_sizes": np.full((images, 2), 16.0),
    }


def limited_boxes(request: RecipeRequest) -> RecipeArguments:
    """Draws boxes with a score for each class."""
    draw = request.draw
    count, classes = draw.integer(1, 6), draw.integer(2, 3)
    return {
        "scores": (count, classes),
        "boxes": boxes(draw, count, classes),
        "images": integers([0] * count),
        "score_threshold": 0.1,
        "limit": draw.choice((-1, 2)),
        "kernel": draw.integer(0, 2),
        "iou_threshold": 0.4,
        "sigma": 0.5,
        "nms_score_threshold": 0.1,
    }


def proposals(request: RecipeRequest) -> RecipeArguments:
    """Draws scores and deltas of anchors for each pixel."""
    draw, nchw = request.draw, request.nchw()
    images, anchors, side = draw.integer(1, 2), draw.integer(1, 2), draw.integer(1, 3)
    sides = {"batches": images, "height": side, "width": side}
    return {
        "scores": request.image(channels=anchors, nchw=nchw, **sides),
        "deltas": request.image(channels=4 * anchors, nchw=nchw, **sides),
        "anchors": boxes(draw, anchors),
        "image_sizes": np.full((images, 2), 32.0),
        "height_stride": 4.0,
        "width_stride": 4.0,
        "limit_before": -1,
        "limit_after": -1,
        "iou_threshold": 0.5,
        "min_size": 1.0,
        "nchw": nchw,
    }


def detection(request: RecipeRequest) -> RecipeArguments:
    """Draws scores and deltas of anchors."""
    draw = request.draw
    count, classes = draw.integer(1, 6), draw.integer(2, 3)
    return {
        "scores": (1, count, classes),
        "deltas": (1, count, 4),
        "boxes": (1, count, 4),
        "anchors": np.full((count, 4), 1.0),
        "classes": classes - 1,
        "detections": draw.integer(1, 4),
        "classes_per_detection": 1,
        "detections_per_class": draw.integer(1, 4),
        "score_threshold": 0.0,
        "iou_threshold": 0.5,
        "background": draw.chance(0.5),
    } | dict.fromkeys(("scale_y", "scale_x", "scale_height", "scale_width"), 10.0)


def suppression(request: RecipeRequest) -> RecipeArguments:
    """Draws boxes with one score each."""
    draw = request.draw
    count = draw.integer(1, 6)
    return {
        "boxes": boxes(draw, count),
        "scores": (count,),
        "limit": draw.integer(1, 6),
        "iou_threshold": draw.choice((0.3, 0.5)),
        "score_threshold": draw.choice((0.0, 0.5)),
        "sigma": draw.choice((0.0, 0.5)),
    }
