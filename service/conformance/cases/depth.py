"""Selects which enumerated cases of a signature run by default.

Implementations differ mainly between floats and quantised integers. Therefore one row of types of
each kind runs every case of Android's operations. The other rows run some, different ones in each
row, so that the rows of a form cover all cases together. Extension operations run fewer: most are
Android's operations for more types.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.quantization import QUANTIZED
from neurald.hal.operations.machinery.definition import Definition
from neurald.service.conformance.cases.case import Signature

_T = TypeVar("_T")
_EXTENSION_PREFIX = "TFLITE_"
_FLOAT, _QUANTISED, _OTHER = "float", "quantised", "other"
#: DENSIFY has forms that differ in the number of levels only.
_FULL_FORMS = 2
_SOME, _FEW, _FEWEST = 4, 8, 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Depth:
    """Selection of the cases of a signature.

    Attributes:
        every: runs one of this many cases.
        first: the position of the first one.
        has_family: whether the base case and its neighbours run.
    """

    every: int = 1
    first: int = 0
    has_family: bool = True

    def chosen(self, cases: Iterable[_T]) -> Iterator[_T]:
        """Yields the selected cases."""
        return islice(cases, self.first, None, self.every)


#: Selects every case.
EVERY = Depth()


def default_depth(signature: Signature) -> Depth:
    """Returns the selection for a signature unless all cases are requested."""
    definition = signature.definition
    kinds = _kinds(definition)
    kind = kinds[signature.row]
    is_first = kinds.index(kind) == signature.row
    name = definition.type.name
    if name.startswith(_EXTENSION_PREFIX):
        if not is_first or (kind is _OTHER and len(set(kinds)) > 1):
            return Depth(every=_FEWEST, first=signature.row % _FEWEST, has_family=False)
        every = _FEWEST if name.removeprefix(_EXTENSION_PREFIX) in OperationType.__members__ else _FEW
    elif is_first and signature.form < _FULL_FORMS and (kind is not _OTHER or len(set(kinds)) == 1):
        return EVERY
    else:
        every = _SOME
    return Depth(every=every, first=(signature.row + signature.form) % every)


def _kinds(definition: Definition) -> tuple[str, ...]:
    """Returns the kind of each row's types."""
    found = []
    for row in definition.rows:
        types = set(row.types.values())
        is_float = any(each.dtype.kind in "fc" for each in types)
        found.append(_QUANTISED if types & QUANTIZED else _FLOAT if is_float else _OTHER)
    return tuple(found)
