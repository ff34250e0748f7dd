"""Selects which enumerated cases of a signature run by default.

Implementations differ mainly between floats and quantised integers. Therefore one row of types of
each kind, the first that the device accepts, runs all cases of Android's operations. Each of the
other rows runs some of the cases, so that the rows of a form cover all cases together. Operations
of the TFLite extension run fewer cases, since most are Android's operations for more types.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import QUANTIZED
from neurald.hal.operations.machinery.definition import Definition
from neurald.service.conformance.cases.case import CaseSignature

_T = TypeVar("_T")
_EXTENSION_PREFIX = "TFLITE_"
_FLOAT, _QUANTISED, _OTHER = "float", "quantised", "other"
#: Number of forms that run all cases. DENSIFY has forms that only differ in the number of levels.
_FULL_FORMS = 2
#: One of this many cases runs.
_SOME, _FEW, _FEWEST = 4, 8, 16


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseSelection:
    """Selects the cases of a signature that run.

    Attributes:
        every: one of this many cases runs.
        first: the position of the first case that runs.
        has_family: whether the base case and its neighbours run.
    """

    every: int = 1
    first: int = 0
    has_family: bool = True

    def apply(self, cases: Iterable[_T]) -> Iterator[_T]:
        """Yields the selected cases."""
        return islice(cases, self.first, None, self.every)


#: Selects every case.
ALL_CASES = CaseSelection()


def rows_before(signature: CaseSignature) -> list[int]:
    """Returns the earlier rows whose types are of the same kind."""
    kinds = _kinds(signature.definition)
    return [row for row in range(signature.row) if kinds[row] == kinds[signature.row]]


def default_selection(signature: CaseSignature, declined: Collection[int] = ()) -> CaseSelection:
    """Returns the selection of the cases of a signature that run by default.

    Args:
        signature: the signature.
        declined: the rows of the same form that the device has declined.
    """
    definition = signature.definition
    kinds = _kinds(definition)
    kind = kinds[signature.row]
    is_first = all(row in declined for row in rows_before(signature))
    name = definition.type.name
    if name.startswith(_EXTENSION_PREFIX):
        if not is_first or (kind is _OTHER and len(set(kinds)) > 1):
            return CaseSelection(every=_FEWEST, first=signature.row % _FEWEST, has_family=False)
        every = _FEWEST if name.removeprefix(_EXTENSION_PREFIX) in OperationType.__members__ else _FEW
    elif is_first and signature.form < _FULL_FORMS and (kind is not _OTHER or len(set(kinds)) == 1):
        return ALL_CASES
    else:
        every = _SOME
    return CaseSelection(every=every, first=(signature.row + signature.form) % every)


def _kinds(definition: Definition) -> tuple[str, ...]:
    """Returns the kind of each row's types."""
    found = []
    for row in definition.rows:
        types = set(row.types.values())
        is_float = any(each.dtype.kind in "fc" for each in types)
        found.append(_QUANTISED if types & QUANTIZED else _FLOAT if is_float else _OTHER)
    return tuple(found)
