"""Extends Android's operations to more types and ranks."""

from collections.abc import Sequence

from neurald.hal.model.operation_type import OperationType
from neurald.hal.operations.machinery.definition import Check, Definition
from neurald.hal.operations.machinery.signature import ANY_RANK, Form, Parameter, Row
from neurald.hal.records import replace


def widen(
    definition: Definition,
    operation_type: OperationType,
    *,
    rows: Sequence[Row] | None = None,
    checks: Sequence[Check] | None = None,
) -> Definition:
    """Extends `definition` under another type to tensors of any rank.

    Args:
        definition: the definition of the Android operation; its shape rule and reference must
            support the extension.
        operation_type: operation of the extension.
        rows: types that replace Android's.
        checks: checks that replace Android's.
    """
    return replace(
        definition,
        type=operation_type,
        forms=tuple(_of_any_rank(form) for form in definition.forms),
        rows=definition.rows if rows is None else tuple(rows),
        checks=definition.checks if checks is None else tuple(checks),
        level=None,
        widens=definition.type,
    )


def _of_any_rank(form: Form) -> Form:
    return replace(
        form,
        inputs=tuple(_ranked(parameter) for parameter in form.inputs),
        outputs=tuple(_ranked(parameter) for parameter in form.outputs),
    )


def _ranked(parameter: Parameter) -> Parameter:
    """Allows any rank for data tensors, whose type is a variable.

    Other parameters are unchanged.
    """
    if isinstance(parameter.types, str):
        return replace(parameter, ranks=ANY_RANK)
    return parameter
