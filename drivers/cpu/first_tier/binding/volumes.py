"""Binds convolutions of volumes."""

import math
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from neurald.drivers.cpu.first_tier.binding.products import windowed
from neurald.drivers.cpu.first_tier.binding.scope import BindingScope
from neurald.drivers.cpu.first_tier.binding.windows import WindowAxis
from neurald.drivers.cpu.first_tier.bound_call import BoundCall
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.tflite.convolution import convolution_3d


def bind_convolution_3d(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds CONV_3D."""
    image = call.shape("input")[1:4]
    filter_ = scope.constant(call, "filter")
    positions, heads = convolution_3d.window_positions(call, image, filter_.shape[:3])
    strides, dilations = convolution_3d.steps(call, "stride"), convolution_3d.steps(call, "dilation")
    axes = tuple(
        WindowAxis(*each)
        for each in zip(image, positions, filter_.shape[:3], strides, dilations, heads, strict=True)
    )
    weights = np.moveaxis(filter_, 4, 0)
    return windowed(scope, call, weights, axes, call.shape("input")[0] * math.prod(positions))


BINDINGS: Final[Mapping[OperationType, Callable[[BindingScope, Call], list[BoundCall]]]] = {
    OperationType.TFLITE_CONV_3D: bind_convolution_3d,
}
