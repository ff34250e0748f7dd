"""Names of the inputs and outputs of a model, of which each one is there once."""

from typing import Final, Literal

from neurald.hal.api_arguments import shown
from neurald.hal.errors import BadData
from neurald.hal.model.model import Model

Kind = Literal["input", "output"]

#: How many names a message lists.
_MAX_LISTED: Final = 20


def tensor_names(model: Model, kind: Kind) -> tuple[str, ...]:
    """Returns unique names of all inputs or outputs, in order.

    Names in files are free text: they may be missing or repeated.
    """
    operands = model.input_operands if kind == "input" else model.output_operands
    names = model.input_names if kind == "input" else model.output_names
    given = names or tuple(operand.name for operand in operands)
    unique: list[str] = []
    for position, name in enumerate(given):
        if not name or given.count(name) > 1:
            name = f"{name or kind}_{position}"
            while name in given or name in unique:
                name += "_"
        unique.append(name)
    return tuple(unique)


def tensor_position(model: Model, index: int | str, kind: Kind) -> int:
    """Returns the position of an input or output that is given by its name, or by its position.

    Raises:
        BadData: nothing has that name.
    """
    if not isinstance(index, str):
        return index
    names = tensor_names(model, kind)
    if index in names:
        return names.index(index)
    listed = ", ".join(shown(name) for name in names[:_MAX_LISTED]) or "none"
    more = ", …" if len(names) > _MAX_LISTED else ""
    raise BadData(f"there is no {kind} {shown(index)}; there are: {listed}{more}")
