"""Recipes for convolutions, pooling, resizing and block operations."""

import numpy as np

from neurald.service.conformance.recipes.recipe import RecipeArguments, RecipeRequest, integers


def convolution(
    request: RecipeRequest, *, depthwise: bool = False, transposed: bool = False
) -> RecipeArguments:
    """Draws a feature map, a filter and a bias, and an output shape if transposed."""
    draw, nchw = request.draw, request.nchw()
    batches, channels, filters = draw.batches(), draw.integer(1, 4), draw.channels(4)
    size = {side: draw.integer(3, 7) for side in ("height", "width")}
    kernel = {side: draw.integer(1, 3) for side in size}
    groups = draw.integer(1, 3) if request.has("groups") else 1
    channels, filters = channels * groups, filters * groups
    multiplier = draw.integer(1, 3)
    filters = channels * multiplier if depthwise else filters
    shape = (1, *kernel.values(), filters) if depthwise else (filters, *kernel.values(), channels // groups)
    found: RecipeArguments = {
        "input": request.image(batches=batches, channels=channels, nchw=nchw, **size),
        "filter": shape,
        "bias": (filters,),
        "nchw": nchw,
        "depth_multiplier": multiplier,
        "groups": groups,
    }
    strides = {side: request.pinned(f"stride_{side}", draw.integer(1, 2)) for side in size}
    found |= {f"stride_{side}": stride for side, stride in strides.items()}
    if transposed and request.has("output_shape"):
        scheme = request.pinned("padding_scheme", draw.integer(1, 2))
        ends = {
            side: size[side] * strides[side]
            if scheme == 1
            else (size[side] - 1) * strides[side] + kernel[side]
            for side in size
        }
        found["padding_scheme"] = scheme
        found["output_shape"] = integers(request.image(batches=batches, channels=filters, nchw=nchw, **ends))
    return found


def convolution_3d(request: RecipeRequest) -> RecipeArguments:
    """Draws a feature map with a depth, a filter and a bias."""
    draw = request.draw
    kernel = tuple(draw.integer(1, 2) for _ in range(3))
    size = tuple(draw.integer(3, 5) for _ in range(3))
    batches, channels, filters = (draw.integer(1, 3) for _ in range(3))
    shape = (*kernel, filters, channels) if request.has("output_shape") else (*kernel, channels, filters)
    return {
        "input": (batches, *size, channels),
        "filter": shape,
        "bias": (filters,) if draw.chance(0.5) else None,
        "output_shape": integers((batches, *size, filters)),
        "padding_scheme": 1,
        **dict.fromkeys(("stride_depth", "stride_height", "stride_width"), 1),
        **dict.fromkeys(("dilation_depth", "dilation_height", "dilation_width"), 1),
    }


def pooling(request: RecipeRequest) -> RecipeArguments:
    """Draws a feature map that is larger than the window."""
    draw, nchw = request.draw, request.nchw()
    sides = {"height": draw.integer(2, 7), "width": draw.integer(2, 7)}
    shape = request.image(batches=draw.batches(), channels=draw.channels(4), nchw=nchw, **sides)
    return {"input": shape, "nchw": nchw, "filter_width": draw.integer(1, 2), "filter_height": 2}


def image(request: RecipeRequest) -> RecipeArguments:
    """Draws a feature map, and the size to resize it to."""
    draw, nchw = request.draw, request.nchw()
    sides = {"height": draw.integer(1, 7), "width": draw.integer(1, 7)}
    batches = 0 if draw.chance(0.05) else draw.batches()
    shape = request.image(batches=batches, channels=draw.channels(4), nchw=nchw, **sides)
    size = integers((draw.integer(1, 6), draw.integer(1, 6)))
    corners = draw.chance(0.3)
    return {
        "input": shape,
        "nchw": nchw,
        "size": size,
        "align_corners": corners,
        "half_pixel_centers": not corners,
    }


def blocks(request: RecipeRequest) -> RecipeArguments:
    """Draws a feature map that can be divided into blocks, or assembled from them."""
    draw, nchw = request.draw, request.nchw()
    block = draw.integer(1, 3)
    sides = {"height": block * draw.integer(1, 3), "width": block * draw.integer(1, 3)}
    channels = block * block * draw.integer(1, 2)
    blocks = integers((block, block))
    return {
        "input": request.image(batches=block * block, channels=channels, nchw=nchw, **sides),
        "nchw": nchw,
        "block_size": block,
        "block_shape": blocks,
        "paddings": np.zeros((2, 2), np.int64),
        "crops": np.zeros((2, 2), np.int64),
    }
