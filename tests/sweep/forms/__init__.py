"""Forms of every builtin operator, one file for each family; `OPERATORS` are the names."""

from collections.abc import Callable, Iterator, Mapping

from sweep.form import Form
from sweep.forms import elementwise, gathering, recurrent, reduction, searching, shaping, subgraphs, windows

#: Maps the operators of a family to functions that yield their forms.
Table = Mapping[str, Callable[[str], Iterator[Form]]]

_FAMILIES = (elementwise, gathering, recurrent, reduction, searching, shaping, subgraphs, windows)
_FORMS: Table = {name: make for family in _FAMILIES for name, make in family.FORMS.items()}
OPERATORS = tuple(sorted(_FORMS))


def forms_of(operator: str) -> list[Form]:
    """Returns all forms of an operator."""
    return list(_FORMS[operator](operator))
