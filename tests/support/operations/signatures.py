"""Signatures in every form, and operands for them."""

from collections.abc import Sequence

from neurald.hal.model.graph import Operand, Operation
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, Lifetime, OperandType
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.signature import Binding, Form, Row, layout, row, scalar, tensor

FLOAT32, FLOAT16, INT32 = (
    OperandType.TENSOR_FLOAT32,
    OperandType.TENSOR_FLOAT16,
    OperandType.TENSOR_INT32,
)
ROWS = (
    row(FeatureLevel.LEVEL_1, T=FLOAT32, B=FLOAT32),
    row(FeatureLevel.LEVEL_3, T=FLOAT16, B=FLOAT16),
    row(FeatureLevel.LEVEL_4, T=OperandType.TENSOR_QUANT8_ASYMM_SIGNED, B=INT32),
)
FORM = Form(
    inputs=(
        tensor("input", rank=(1, 4)),
        tensor("bias", "B", rank=1),
        tensor("axes", INT32, rank=1, optional=True),
        scalar("activation"),
        layout(),
    ),
    outputs=(tensor("output", rank=(1, 4)),),
)
BY_SCALE = Form(
    inputs=(tensor("input"), scalar("scale", OperandType.FLOAT32)),
    outputs=(tensor("output"),),
    level=FeatureLevel.LEVEL_2,
)
VARIADIC = Form(
    inputs=(tensor("inputs", variadic=True), scalar("axis")),
    outputs=(tensor("output"),),
)
SPLIT = Form(
    inputs=(tensor("input"), scalar("count", constant=True)),
    outputs=(tensor("outputs", variadic=True),),
)


def operand(
    operand_type: OperandType, *dimensions: int, lifetime: Lifetime = Lifetime.TEMPORARY_VARIABLE
) -> Operand:
    """Returns an operand without a value."""
    return Operand(type=operand_type, dimensions=dimensions, lifetime=lifetime)


SCALAR = operand(OperandType.INT32, lifetime=Lifetime.CONSTANT_COPY)
OMITTED = operand(INT32, lifetime=Lifetime.NO_VALUE)
FLAG = operand(OperandType.BOOL, lifetime=Lifetime.CONSTANT_COPY)


def match(
    inputs: Sequence[Operand],
    outputs: Sequence[Operand],
    *forms: Form,
    rows: Sequence[Row] = ROWS,
    values_known: bool = True,
) -> Binding:
    """Binds an ADD with these operands to one of the forms.

    Raises:
        BadData: none fits.
    """
    operation = Operation(
        type=OperationType.ADD,
        inputs=tuple(range(len(inputs))),
        outputs=tuple(range(len(inputs), len(inputs) + len(outputs))),
    )
    definition = Definition(
        type=operation.type, forms=forms, rows=tuple(rows), shape=lambda _: (), reference=lambda _: ()
    )
    return definition.bind(operation, [*inputs, *outputs], values_known=values_known)


def plain(operand_type: OperandType = FLOAT32, bias: OperandType = FLOAT32) -> list[Operand]:
    """Returns the inputs of `FORM`, without the last one."""
    return [operand(operand_type, 2, 3), operand(bias, 3), operand(INT32, 1), SCALAR]
