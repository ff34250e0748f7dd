"""Lowers MATRIX_DIAG and MATRIX_SET_DIAG, which act on the last two axes."""

from neurald.drivers.compiler.ir.builder import Builder
from neurald.drivers.compiler.ir.expression import Expression, load
from neurald.drivers.compiler.ir.value import Value
from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.call import Call


def _diagonal(call: Call, builder: Builder) -> tuple[Value, ...]:
    diagonal = builder.value(call, "diagonal")

    def body(*at: Expression) -> Expression:
        return load(diagonal, at[:-1], at[-2].equals(at[-1]))

    return (builder.compute((*diagonal.shape, diagonal.shape[-1]), body),)


def _set_diagonal(call: Call, builder: Builder) -> tuple[Value, ...]:
    source, diagonal = builder.value(call, "input"), builder.value(call, "diagonal")

    def body(*at: Expression) -> Expression:
        return load(diagonal, at[:-1], at[-2].equals(at[-1]), load(source, at))

    return (builder.compute(source.shape, body),)


LOWERINGS = {
    OperationType.TFLITE_MATRIX_DIAG: _diagonal,
    OperationType.TFLITE_MATRIX_SET_DIAG: _set_diagonal,
}
