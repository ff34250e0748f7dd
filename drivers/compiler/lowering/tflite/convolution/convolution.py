"""Lowers convolutions with TFLite's types."""

from collections.abc import Callable

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.convolution.convolution import plan_convolution, plan_depthwise
from neurald.drivers.compiler.lowering.convolution.transpose_convolution import plan_transposed
from neurald.drivers.compiler.lowering.convolution.weighted_sum import ContractionPlanner, exact_sums, finish
from neurald.drivers.compiler.lowering.machinery.layout import from_nhwc, to_nhwc
from neurald.drivers.compiler.lowering.machinery.table import Lowering, Lowerings
from neurald.drivers.compiler.lowering.tflite.convolution import hybrid
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.machinery.layout import is_nchw
from neurald.hal.operations.tflite.convolution.convolution import has_zero_points, rounding
from neurald.hal.operations.tflite.convolution.hybrid import is_hybrid


def _lower(planner: ContractionPlanner, asymmetric: Callable[[Call], bool]) -> Lowering:
    """Extends `lower_windows` to float images with quantised weights.

    Args:
        planner: plans the operation as a contraction.
        asymmetric: decides whether a call's images are quantised with zero points.
    """

    def lower(call: Call, builder: Builder) -> tuple[Value, ...]:
        source = to_nhwc(builder, builder.value(call, "input"), is_nchw(call))
        plan = planner(call, builder)
        if is_hybrid(call):
            result = hybrid.windows(call, builder, plan, source, asymmetric=asymmetric(call))
        else:
            result = finish(call, builder, exact_sums(call, plan, source), rounding(call))
        return (from_nhwc(builder, result, is_nchw(call)),)

    return lower


LOWERINGS: Lowerings = {
    OperationType.TFLITE_CONV_2D: _lower(plan_convolution, has_zero_points),
    OperationType.TFLITE_DEPTHWISE_CONV_2D: _lower(plan_depthwise, lambda _: True),
    OperationType.TFLITE_TRANSPOSE_CONV: _lower(plan_transposed, lambda _: True),
}
