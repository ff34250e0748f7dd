"""Where elements are: ARG_MAX, ARG_MIN and TOPK_V2."""

from neurald.drivers.compiler.ir.op import Fold
from neurald.drivers.compiler.lowering.reduction.arg_reduce import lower_extreme, lower_top
from neurald.hal.model.operation_type import OperationType

LOWERINGS = {
    OperationType.TFLITE_ARG_MAX: lower_extreme(Fold.MAXIMUM),
    OperationType.TFLITE_ARG_MIN: lower_extreme(Fold.MINIMUM),
    OperationType.TFLITE_TOPK_V2: lower_top(is_first_first=True),
}
