"""The inputs and outputs of a model, by their indexes."""

from collections.abc import Sequence
from typing import TypeVar

from neurald.hal.errors import BadData

_Port = TypeVar("_Port")


def port_at(ports: Sequence[_Port], index: int, *, is_output: bool) -> _Port:
    """Returns the input or output with this index.

    Args:
        ports: the inputs or the outputs of a model.
        index: the index.
        is_output: which of both they are, for the error.

    Raises:
        BadData: there is none.
    """
    if not 0 <= index < len(ports):
        raise BadData(f"there is no {'output' if is_output else 'input'} {index}; the model has {len(ports)}")
    return ports[index]
