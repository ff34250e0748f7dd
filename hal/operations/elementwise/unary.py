"""Functions of one number: ABS, ELU, EXP, FLOOR, LOG, NEG, RSQRT, SIN, SQRT."""

from collections.abc import Callable

import numpy as np

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import is_quantized
from neurald.hal.model.types import FeatureLevel
from neurald.hal.operations.elementwise.activation import table_lookup
from neurald.hal.operations.machinery.call import Array, Call
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.rules import data_rows, shape_of_input
from neurald.hal.operations.machinery.signature import MAX_RANK, Form, Parameter, Row, scalar, tensor


def _form(max_rank: int = MAX_RANK, *extra: Parameter) -> Form:
    ranks = (0, max_rank)
    return Form(inputs=(tensor("input", rank=ranks), *extra), outputs=(tensor("output", rank=ranks),))


def _reciprocal_root(values: Array) -> Array:
    return 1 / np.sqrt(values)


def _elu(values: Array, alpha: float) -> Array:
    # If e^x overflows and alpha is 0 the product is NaN, which fmin ignores.
    result: Array = np.maximum(0, values) + np.fmin(0, values.dtype.type(alpha) * np.expm1(values))
    return result


def _without_nan(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Wraps a function to return 0 for NaN, which cannot be quantised."""
    return lambda values: np.nan_to_num(function(values), nan=0.0, posinf=np.inf, neginf=-np.inf)


def _apply(function: Callable[[Array], Array]) -> Callable[[Call], tuple[Array, ...]]:
    """Returns a reference: floats in float32, quantised values by a table, int32 directly."""

    def reference(call: Call) -> tuple[Array, ...]:
        operand, output, values = call.operand("input"), call.operand("output"), call.array("input")
        with np.errstate(all="ignore"):
            if is_quantized(output):
                return (table_lookup(_without_nan(function), values, operand, output),)
            real = values.astype(np.float32) if values.dtype.kind == "f" else values
            return (function(real).astype(output.type.dtype),)

    return reference


def _elu_reference(call: Call) -> tuple[Array, ...]:
    alpha = call.scalar("alpha")
    return _apply(lambda values: _elu(values, alpha))(call)


def _definition(
    operation_type: OperationType,
    function: Callable[[Array], Array],
    rows: tuple[Row, ...],
    form: Form | None = None,
) -> Definition:
    return Definition(
        type=operation_type,
        forms=(form or _form(),),
        rows=rows,
        shape=shape_of_input,
        reference=_apply(function),
        arithmetic=frozenset({"input"}),
    )


_FLOATS = data_rows(FeatureLevel.LEVEL_3)

DEFINITIONS = (
    _definition(OperationType.ABS, np.abs, data_rows(FeatureLevel.LEVEL_3, int32=FeatureLevel.LEVEL_4)),
    Definition(
        type=OperationType.ELU,
        forms=(_form(MAX_RANK, scalar("alpha", "S")),),
        rows=data_rows(FeatureLevel.LEVEL_4),
        shape=shape_of_input,
        reference=_elu_reference,
        arithmetic=frozenset({"input"}),
    ),
    _definition(OperationType.EXP, np.exp, _FLOATS),
    _definition(OperationType.FLOOR, np.floor, data_rows(), _form(4)),
    _definition(OperationType.LOG, np.log, _FLOATS),
    _definition(OperationType.NEG, np.negative, data_rows(FeatureLevel.LEVEL_3, int32=FeatureLevel.LEVEL_3)),
    _definition(
        OperationType.RSQRT,
        _reciprocal_root,
        data_rows(FeatureLevel.LEVEL_3, quant8=FeatureLevel.LEVEL_7),
    ),
    _definition(OperationType.SIN, np.sin, _FLOATS),
    _definition(OperationType.SQRT, np.sqrt, _FLOATS),
)
