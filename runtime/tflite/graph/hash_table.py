"""Hash tables of a `.tflite` file: resources that operators access by a handle, like variables.

A table consists of three variables: its keys, their values, and whether it is filled.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from neurald.hal.model.graph import Operand
from neurald.hal.model.types import Lifetime, OperandType
from neurald.hal.operations.machinery.call import Array
from neurald.runtime.tflite.file.options import OPTIONS
from neurald.runtime.tflite.file.schema import Operator
from neurald.runtime.tflite.file.schema_enums import BuiltinOperator, TensorType
from neurald.runtime.tflite.graph.state import TABLE, Effects, VariableKey

#: Operators on tables.
TABLE_OPERATORS = frozenset(
    (BuiltinOperator.HASHTABLE_FIND, BuiltinOperator.HASHTABLE_IMPORT, BuiltinOperator.HASHTABLE_SIZE)
)

_TYPES = {
    (TensorType.INT64, TensorType.STRING): (OperandType.TENSOR_INT64, OperandType.TENSOR_STRING),
    (TensorType.STRING, TensorType.INT64): (OperandType.TENSOR_STRING, OperandType.TENSOR_INT64),
}


def table_types(operator: Operator) -> tuple[OperandType, OperandType] | None:
    """Returns the types of keys and values of a HASHTABLE operator.

    None if they are not supported.
    """
    options = OPTIONS["HashtableOptions"].read(operator.options)
    return _TYPES.get((options["key_dtype"], options["value_dtype"]))


def table_parts(handle: VariableKey | None) -> tuple[VariableKey, ...]:
    """Returns the variables of a table (keys, values, whether it is filled).

    Empty for other handles.
    """
    if handle is None or handle[0] != TABLE:
        return ()
    kind, number, _ = handle
    return (kind, number, "keys"), (kind, number, "values"), (kind, number, "filled")


def empty_table(handle: VariableKey, operator: Operator) -> Mapping[VariableKey, tuple[Operand, Array]]:
    """Returns the variables and initial values of the table that an operator creates, if any."""
    parts = table_parts(handle)
    types = table_types(operator) if parts else None
    if types is None:
        return {}
    keys, values = (
        (Operand(type=kind, dimensions=(0,), lifetime=Lifetime.SUBGRAPH_INPUT), np.empty(0, kind.dtype))
        for kind in types
    )
    filled = Operand(type=OperandType.TENSOR_BOOL8, dimensions=(), lifetime=Lifetime.SUBGRAPH_INPUT)
    return dict(zip(parts, (keys, values, (filled, np.array(False))), strict=True))


def table_effects(operator: Operator, keys: Sequence[VariableKey | None]) -> Effects:
    """Returns the effects of an operator on the variables of a table.

    Args:
        operator: one of `TABLE_OPERATORS`.
        keys: the variables that its inputs refer to.
    """
    parts = table_parts(keys[0] if keys else None)
    if operator.code == BuiltinOperator.HASHTABLE_SIZE:
        return Effects(touched=parts[:1])
    is_import = operator.code == BuiltinOperator.HASHTABLE_IMPORT
    return Effects(touched=parts, assigned=frozenset(parts if is_import else ()))
