"""HASHTABLE_IMPORT, HASHTABLE_FIND, HASHTABLE_SIZE, and HASHTABLE_LOOKUP of strings.

A table consists of three tensors: its distinct keys, their values, and whether it is filled, which
happens once.
"""

from itertools import repeat
from typing import Any
from weakref import ref

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.signature import ANY_RANK, Form, Parameter, row, tensor
from neurald.hal.operations.movement import gather
from neurald.hal.operations.tflite.machinery.elements import ELEMENTS_AND_STRINGS, element_rows
from neurald.hal.operations.tflite.machinery.widening import widen
from neurald.hal.records import replace

_LOOKUP = next(d for d in gather.DEFINITIONS if d.type is OperationType.HASHTABLE_LOOKUP)

_ROWS = (
    row(FeatureLevel.LEVEL_1, K=OperandType.TENSOR_INT64, V=OperandType.TENSOR_STRING),
    row(FeatureLevel.LEVEL_1, K=OperandType.TENSOR_STRING, V=OperandType.TENSOR_INT64),
)


def _table(suffix: str = "") -> tuple[Parameter, ...]:
    return (
        tensor(f"table_keys{suffix}", "K", rank=1),
        tensor(f"table_values{suffix}", "V", rank=1),
        tensor(f"is_filled{suffix}", OperandType.TENSOR_BOOL8, rank=0),
    )


def _check_table(call: Call) -> None:
    keys, values = call.shape("table_keys"), call.shape("table_values")
    if keys != values:
        raise BadData(
            f"{call.name('table_values')} has shape {list(values)}; that of table_keys, {list(keys)}, is "
            "expected"
        )


def _check_pairs(call: Call) -> None:
    keys, values = call.shape("keys"), call.shape("values")
    if keys != values:
        raise BadData(
            f"{call.name('values')} has shape {list(values)}; that of keys, {list(keys)}, is expected"
        )


def _imported(call: Call) -> tuple[Array, ...]:
    """Returns the table with those keys and values; a filled table is unchanged.

    The first of equal keys wins.
    """
    if call.array("is_filled").item():
        return call.array("table_keys"), call.array("table_values"), np.array(True)
    keys, values = call.array("keys").reshape(-1), call.array("values").reshape(-1)
    first_indexes: dict[int | bytes, int] = {}
    for index, key in enumerate(keys.tolist()):
        first_indexes.setdefault(key, index)
    chosen = np.fromiter(first_indexes.values(), np.intp, len(first_indexes))
    return keys[chosen], values[chosen], np.array(True)


def _import_shape(call: Call) -> tuple[Shape, ...]:
    return tuple(part.shape for part in call.once(_imported))


def _import(call: Call) -> tuple[Array, ...]:
    return call.once(_imported)


def _check_filled(call: Call) -> None:
    if not call.array("is_filled").item():
        raise BadData(f"{call.name('is_filled')} is false: nothing has been imported into the table")


def _check_default(call: Call) -> None:
    if 0 in call.shape("default"):
        raise BadData(
            f"{call.name('default')} has shape {list(call.shape('default'))}; at least one element is "
            "expected"
        )


def _found_shape(call: Call) -> tuple[Shape, ...]:
    return (call.shape("keys"),)


def _find(call: Call) -> tuple[Array, ...]:
    """Looks up values; unknown keys give the first element of the default."""
    keys = call.array("keys")
    known = _dictionary(call.array("table_keys"), call.array("table_values"))
    default = call.array("default").reshape(-1)[:1].tolist()[0]
    found = map(known.get, keys.reshape(-1).tolist(), repeat(default))
    return (np.fromiter(found, call.operand("output").type.dtype, keys.size).reshape(keys.shape),)


def _dictionary(keys: Array, values: Array) -> dict[Any, Any]:
    """Returns the values by their keys. Tables that are constants are converted once."""
    last = _dictionaries.get(id(keys))
    if last is not None and last[0]() is keys and last[1]() is values:
        return last[2]
    made = dict(zip(keys.tolist(), values.tolist(), strict=True))
    if not (keys.flags.writeable or values.flags.writeable):
        if len(_dictionaries) >= _MAX_DICTIONARIES:
            _dictionaries.clear()
        _dictionaries[id(keys)] = ref(keys), ref(values), made
    return made


#: Dictionaries of tables by the identity of their keys.
_dictionaries: dict[int, tuple[ref[Array], ref[Array], dict[Any, Any]]] = {}
_MAX_DICTIONARIES = 16


def _count_shape(_: Call) -> tuple[Shape, ...]:
    return ((1,),)


def _count(call: Call) -> tuple[Array, ...]:
    return (np.array([len(call.array("table_keys"))], np.int64),)


def _lookup(call: Call) -> tuple[Array, ...]:
    """Looks up rows; unknown keys give empty strings."""
    rows, hits = _LOOKUP.reference(call)
    if call.operand("values").type is OperandType.TENSOR_STRING:
        rows[hits == 0] = b""
    return rows, hits


DEFINITIONS = (
    replace(
        widen(
            _LOOKUP,
            OperationType.TFLITE_HASHTABLE_LOOKUP,
            rows=element_rows(ELEMENTS_AND_STRINGS),
            checks=_LOOKUP.checks[1:],
        ),
        forms=_LOOKUP.forms,
        reference=_lookup,
    ),
    Definition(
        type=OperationType.TFLITE_HASHTABLE_IMPORT,
        forms=(
            Form(
                inputs=(
                    *_table(),
                    tensor("keys", "K", rank=ANY_RANK),
                    tensor("values", "V", rank=ANY_RANK),
                ),
                outputs=_table("_after"),
            ),
        ),
        rows=_ROWS,
        checks=(_check_table, _check_pairs),
        shape=_import_shape,
        reference=_import,
    ),
    Definition(
        type=OperationType.TFLITE_HASHTABLE_FIND,
        forms=(
            Form(
                inputs=(
                    *_table(),
                    tensor("keys", "K", rank=ANY_RANK),
                    tensor("default", "V", rank=ANY_RANK),
                ),
                outputs=(tensor("output", "V", rank=ANY_RANK),),
            ),
        ),
        rows=_ROWS,
        checks=(_check_table, _check_filled, _check_default),
        shape=_found_shape,
        reference=_find,
    ),
    Definition(
        type=OperationType.TFLITE_HASHTABLE_SIZE,
        forms=(
            Form(
                inputs=(tensor("table_keys", rank=1),),
                outputs=(tensor("output", OperandType.TENSOR_INT64, rank=1),),
            ),
        ),
        rows=element_rows((OperandType.TENSOR_INT64, OperandType.TENSOR_STRING)),
        shape=_count_shape,
        reference=_count,
    ),
)
