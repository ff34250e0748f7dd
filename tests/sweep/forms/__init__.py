"""The forms of every builtin operator, one file for each family; `OPERATORS` are the names."""

from collections.abc import Callable, Iterator, Mapping

from sweep.form import Form
from sweep.forms import elementwise, gathering, reduction, shaping

#: What a family has: operator → its forms.
Table = Mapping[str, Callable[[str], Iterator[Form]]]

_TABLES: tuple[Table, ...] = (elementwise.FORMS, gathering.FORMS, reduction.FORMS, shaping.FORMS)
_FORMS: Table = {name: make for table in _TABLES for name, make in table.items()}
OPERATORS = tuple(sorted(_FORMS))


def forms_of(operator: str) -> list[Form]:
    """All forms of an operator."""
    return list(_FORMS[operator](operator))
