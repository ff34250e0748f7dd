"""Draws the values of arguments that control an operation, by parameter name."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from neurald.hal.operations.machinery.call import Shape
from neurald.service.conformance.recipes.draw import Draw

#: Draws the value of a parameter, given the shape of the operation's first tensor.
DrawValue = Callable[[Draw, Shape], Any]


def _axis(draw: Draw, shape: Shape) -> Any:
    rank = max(1, len(shape))
    return draw.integer(-rank, rank - 1)


def _axes(draw: Draw, shape: Shape) -> Any:
    axes = draw.sample(range(len(shape)), draw.integer(0, len(shape)))
    return np.array([axis - len(shape) if draw.chance(0.3) else axis for axis in axes], np.int64)


def _permutation(draw: Draw, shape: Shape) -> Any:
    return np.array(draw.sample(range(len(shape)), len(shape)), np.int64)


def _paddings(draw: Draw, shape: Shape) -> Any:
    sides = [[draw.integer(0, min(2, max(0, length - 1))) for _ in range(2)] for length in shape]
    return np.array(sides, np.int64).reshape(len(shape), 2)


def _for_each_dimension(draw_length: Callable[[Draw, int], int]) -> DrawValue:
    def value(draw: Draw, shape: Shape) -> Any:
        return np.array([draw_length(draw, length) for length in shape], np.int64)

    return value


def _between(low: int, high: int) -> DrawValue:
    return lambda draw, shape: draw.integer(low, high)


def _real(low: float, high: float) -> DrawValue:
    return lambda draw, shape: draw.real(low, high)


def _flag(draw: Draw, shape: Shape) -> Any:
    return draw.chance(0.5)


def _mask(draw: Draw, shape: Shape) -> Any:
    return draw.integer(0, (1 << len(shape)) - 1)


def _zero(draw: Draw, shape: Shape) -> Any:
    return 0


_ONE_OR_TWO = _between(1, 2)
_DEPTH = _between(1, 4)

CONTROL_VALUES: Mapping[str, DrawValue] = {
    "activation": _between(0, 3),
    "cell_activation": _between(0, 3),
    "padding_scheme": _ONE_OR_TWO,
    **dict.fromkeys(("padding_left", "padding_right", "padding_top", "padding_bottom"), _between(0, 1)),
    **dict.fromkeys(("stride_width", "stride_height", "stride_depth"), _ONE_OR_TWO),
    **dict.fromkeys(("dilation_width", "dilation_height", "dilation_depth"), _ONE_OR_TWO),
    **dict.fromkeys(("width", "height"), _between(1, 6)),
    **dict.fromkeys(("width_scale", "height_scale"), _real(0.5, 2.0)),
    **dict.fromkeys(("nchw", "exclusive", "reverse", "approximate", "asymmetric", "offset"), _zero),
    **dict.fromkeys(("keep_dims", "align_corners", "half_pixel_centers"), _flag),
    **dict.fromkeys(("adjoint1", "adjoint2", "power_of_two_scales", "keep_dimensions"), _zero),
    "axis": _axis,
    "batch_axis": _zero,
    "axes": _axes,
    "permutation": _permutation,
    **dict.fromkeys(("paddings", "crops"), _paddings),
    **dict.fromkeys(
        ("low", "high", "interior"), _for_each_dimension(lambda draw, length: draw.integer(0, 2))
    ),
    "begin": _for_each_dimension(lambda draw, length: draw.integer(0, max(0, length - 1))),
    "size": _for_each_dimension(lambda draw, length: draw.choice((1, 1, -1))),
    "start": _for_each_dimension(lambda draw, length: 0),
    "end": _for_each_dimension(lambda draw, length: length),
    **dict.fromkeys(
        ("strides", "window", "dilations"), _for_each_dimension(lambda draw, length: draw.integer(1, 2))
    ),
    "multiples": _for_each_dimension(lambda draw, length: draw.integer(0 if draw.chance(0.05) else 1, 3)),
    **dict.fromkeys(("begin_mask", "end_mask"), _mask),
    **dict.fromkeys(("shrink_axis_mask", "ellipsis_mask", "new_axis_mask"), _zero),
    "mode": _between(0, 1),
    "k": lambda draw, shape: draw.integer(1, max(1, shape[-1] if shape else 1)),
    "beta": _real(0.25, 2.0),
    "alpha": _real(0.1, 1.5),
    "gamma": _real(0.5, 1.5),
    "epsilon": _real(0.001, 0.1),
    "bias": _real(0.5, 2.0),
    "radius": _between(0, 3),
    "value": _real(-3.0, 3.0),
    "samples": _between(1, 8),
    "seeds": lambda draw, shape: np.array([draw.integer(0, 99), draw.integer(1, 99)], np.int64),
    "depth": _DEPTH,
    "count": lambda draw, shape: 10,
    "bits": lambda draw, shape: 8,
    "minimum": _real(-4.0, -1.0),
    "maximum": _real(1.0, 4.0),
    "wide_scale": _real(0.01, 0.5),
    "wide_zero_point": _zero,
    "function": _between(0, 4),
    "algorithm": _between(0, 2),
    "lengths": lambda draw, shape: np.array([1, 1], np.int64),
    "limit": _DEPTH,
}
