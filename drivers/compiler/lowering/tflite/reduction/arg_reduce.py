"""Lowers ARG_MAX, ARG_MIN and TOPK_V2."""

from neurald.drivers.compiler.ir.op import ReductionOp
from neurald.drivers.compiler.lowering.reduction.arg_reduce import lower_extreme, lower_top
from neurald.hal.model.operation_type import OperationType

LOWERINGS = {
    OperationType.TFLITE_ARG_MAX: lower_extreme(ReductionOp.MAXIMUM),
    OperationType.TFLITE_ARG_MIN: lower_extreme(ReductionOp.MINIMUM),
    OperationType.TFLITE_TOPK_V2: lower_top(prefers_lower_index=True),
}
