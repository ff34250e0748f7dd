"""Lowers CONV_2D, GROUPED_CONV_2D and DEPTHWISE_CONV_2D."""

from functools import partial

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.value import Shape, Value
from neurald.drivers.compiler.lowering.convolution.dead_taps import without_dead_taps
from neurald.drivers.compiler.lowering.convolution.weighted_sum import ContractionPlan, lower_windows
from neurald.drivers.compiler.lowering.machinery.table import Lowerings
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.convolution import convolution, depthwise_convolution, grouped_convolution
from neurald.hal.operations.convolution.windowing import Pair, Window
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.machinery.layout import is_nchw


def _dense(call: Call, builder: Builder, geometry: tuple[Window, Shape]) -> ContractionPlan:
    window, shape = geometry
    depth = call.shape("input")[1 if is_nchw(call) else 3]
    window, weights = without_dead_taps(builder, window, builder.value(call, "filter"), _image(call), 1)
    return ContractionPlan(
        weights=weights,
        channels=0,
        padding=window.padding,
        contract=partial(
            builder.convolution,
            weights=weights,
            output=shape,
            stride=window.stride,
            dilation=window.dilation,
            groups=depth // weights.shape[3],
        ),
        window=window,
    )


def plan_convolution(call: Call, builder: Builder) -> ContractionPlan:
    """Plans CONV_2D; the number of groups follows from the filter's depth."""
    return _dense(call, builder, convolution.geometry(call, grouped=True))


def _plan_grouped(call: Call, builder: Builder) -> ContractionPlan:
    return _dense(call, builder, grouped_convolution.geometry(call))


def plan_depthwise(call: Call, builder: Builder) -> ContractionPlan:
    """Plans DEPTHWISE_CONV_2D."""
    window, shape = depthwise_convolution.geometry(call)
    weights = _without_leading_axis(builder, builder.value(call, "filter"))
    window, weights = without_dead_taps(builder, window, weights, _image(call), 0)
    return ContractionPlan(
        weights=weights,
        channels=2,
        padding=window.padding,
        contract=partial(
            builder.depthwise_convolution,
            weights=weights,
            output=shape,
            stride=window.stride,
            dilation=window.dilation,
        ),
    )


def _image(call: Call) -> Pair:
    """Returns height and width of the image."""
    height, width = call.shape("input")[2:4] if is_nchw(call) else call.shape("input")[1:3]
    return height, width


def _without_leading_axis(builder: Builder, filter_: Value) -> Value:
    """Returns depthwise weights without their leading dimension of length 1."""
    if filter_.constant is not None:
        return builder.constant(filter_.constant[0], filter_.name)
    return builder.reshape(filter_, filter_.shape[1:])


LOWERINGS: Lowerings = {
    OperationType.CONV_2D: lower_windows(plan_convolution),
    OperationType.GROUPED_CONV_2D: lower_windows(_plan_grouped),
    OperationType.DEPTHWISE_CONV_2D: lower_windows(plan_depthwise),
}
