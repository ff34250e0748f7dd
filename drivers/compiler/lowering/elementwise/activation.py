"""Lowers activations of one operand: RELU, RELU1, RELU6, LOGISTIC, TANH."""

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression
from neurald.drivers.compiler.ir.op import Op
from neurald.drivers.compiler.ir.scalar import Scalar
from neurald.drivers.compiler.ir.value import Value
from neurald.drivers.compiler.lowering.arithmetic.quantized import activate, saturate
from neurald.drivers.compiler.lowering.elementwise.pointwise import UNARY_INPUTS, pointwise, widen
from neurald.drivers.compiler.lowering.elementwise.unary import lower_unary, op_function
from neurald.drivers.compiler.lowering.machinery.table import Lowering
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import FusedActivation
from neurald.hal.operations.machinery.call import Call


def _clamped(activation: FusedActivation) -> Lowering:
    """Returns the lowering of a clamp. Quantised values are clamped to the quantised limits."""

    def lower(call: Call, builder: Builder) -> tuple[Value, ...]:
        output = call.operand("output")

        def function(value: Expression) -> Expression:
            if is_quantized(output):
                return saturate(value.to(Scalar.INT32), output, activation)
            return activate(widen(value), activation).to(value.type)

        return pointwise(call, builder, UNARY_INPUTS, function)

    return lower


LOWERINGS = {
    OperationType.RELU: _clamped(FusedActivation.RELU),
    OperationType.RELU1: _clamped(FusedActivation.RELU1),
    OperationType.RELU6: _clamped(FusedActivation.RELU6),
    OperationType.LOGISTIC: lower_unary(op_function(Op.LOGISTIC)),
    OperationType.TANH: lower_unary(op_function(Op.TANH)),
}
