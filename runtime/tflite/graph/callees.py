"""Finds the subgraphs that an operator runs."""

from collections.abc import Mapping

from neurald.runtime.tflite.file.options import OPTIONS
from neurald.runtime.tflite.file.schema import STABLEHLO_CASE, STABLEHLO_CASE_OPTIONS, Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator

_FIELDS: Mapping[int, tuple[str, tuple[str, ...], int]] = {
    BuiltinOperator.IF: ("IfOptions", ("then_subgraph", "else_subgraph"), 1),
    BuiltinOperator.WHILE: ("WhileOptions", ("cond_subgraph", "body_subgraph"), 0),
}

#: Operators that exchange values with the subgraphs that they run.
CALLERS = frozenset((*_FIELDS, STABLEHLO_CASE))


def called_subgraphs(operator: Operator) -> tuple[tuple[int, ...], int]:
    """Returns the subgraphs that an operator runs, and how many leading inputs they skip."""
    if operator.code == STABLEHLO_CASE:
        options2 = operator.options2 if operator.options2_type == STABLEHLO_CASE_OPTIONS else None
        return () if options2 is None else options2.integers(0), 1
    kind, fields, skipped = _FIELDS.get(operator.code, ("CallOnceOptions", ("init_subgraph",), 0))
    right = operator.options_type in (0, OPTIONS[kind].number)
    options = OPTIONS[kind].read(operator.options if operator.options_type and right else None)
    return tuple(options[field] for field in fields), skipped
