"""Lowers FULLY_CONNECTED with TFLite's types.

See `neurald.hal.operations.tflite.convolution.fully_connected`.
"""

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.arithmetic.row_quantization import products, quantize_rows
from neurald.drivers.compiler.lowering.convolution.fully_connected import exact_products, rows
from neurald.drivers.compiler.lowering.convolution.weighted_sum import finish
from neurald.drivers.compiler.lowering.machinery.table import Lowerings
from neurald.drivers.compiler.lowering.tflite.convolution import hybrid
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call
from neurald.hal.operations.tflite.convolution.fully_connected import rounding
from neurald.hal.operations.tflite.convolution.hybrid import is_hybrid


def _lower(call: Call, builder: Builder) -> tuple[Value, ...]:
    weights = builder.value(call, "filter")
    if is_hybrid(call):
        quantised = quantize_rows(builder, rows(call, builder), asymmetric=bool(call.scalar("asymmetric")))
        if call.has("block_scales"):
            scales = builder.value(call, "block_scales")
            sums = hybrid.blockwise_products(builder, quantised, weights, scales)
        else:
            sums = products(builder, quantised, weights)
        result = hybrid.finish(call, builder, sums, quantised.scales)
    else:
        result = finish(call, builder, exact_products(call, builder), rounding(call))
    is_kept = call.scalar("keep_dimensions")
    return (builder.reshape(result, (*call.shape("input")[:-1], weights.shape[0])) if is_kept else result,)


LOWERINGS: Lowerings = {OperationType.TFLITE_FULLY_CONNECTED: _lower}
