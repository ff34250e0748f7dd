"""Binds convolutions of volumes."""

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from neurald.drivers.cpu.first_tier.binding.convolution.convolutions import transposed
from neurald.drivers.cpu.first_tier.binding.convolution.products import windowed
from neurald.drivers.cpu.first_tier.binding.convolution.windows import WindowAxis
from neurald.drivers.cpu.first_tier.binding.scope import Bind, BindingScope, output_shape
from neurald.drivers.cpu.first_tier.bound_call import BoundCall, NotBound
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.convolution.windowing import shows_padding
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.operations.tflite.convolution import convolution_3d


def _filter(scope: BindingScope, call: Call) -> Array:
    """Returns the weights, which give 0 where they are multiplied by padding."""
    filter_ = scope.constant(call, "filter")
    if shows_padding(filter_):
        raise NotBound("weights are infinite or NaN")
    return filter_


def bind_convolution_3d(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds CONV_3D."""
    image = call.shape("input")[1:4]
    filter_ = _filter(scope, call)
    positions, heads = convolution_3d.window_positions(call, image, filter_.shape[:3])
    strides, dilations = convolution_3d.steps(call, "stride"), convolution_3d.steps(call, "dilation")
    axes = tuple(
        WindowAxis(*each)
        for each in zip(image, positions, filter_.shape[:3], strides, dilations, heads, strict=True)
    )
    weights = np.moveaxis(filter_, 4, 0)
    return windowed(scope, call, weights.shape, weights, axes, call.shape("input")[0] * math.prod(positions))


def bind_transposed_convolution_3d(scope: BindingScope, call: Call) -> list[BoundCall]:
    """Binds CONV_3D_TRANSPOSE without dilations."""
    filter_, shape = _filter(scope, call), output_shape(call)
    _, heads = convolution_3d.window_positions(call, shape[1:4], filter_.shape[:3])
    if any(each != 1 for each in convolution_3d.steps(call, "dilation")):
        raise NotBound("taps are dilated")
    strides = convolution_3d.steps(call, "stride")
    weights = np.moveaxis(filter_, 3, 0)
    return transposed(scope, call, weights.shape, weights, strides, heads, shape)


BINDINGS: Final[Mapping[OperationType, Bind]] = {
    OperationType.TFLITE_CONV_3D: bind_convolution_3d,
    OperationType.TFLITE_CONV_3D_TRANSPOSE: bind_transposed_convolution_3d,
}
