"""Ports that are not inside their buffer, or not of their type, are refused."""

import pytest
from support.sweeps import sweep

from neurald.drivers.compiler.memory.buffer_location import Port
from neurald.hal.errors import BadData
from neurald.hal.types import OperandType

FLOAT = OperandType.TENSOR_FLOAT32


@sweep(
    "changes",
    [
        {"offset": -1},
        {"offset": 41},
        {"size_bytes": 20},
        {"dimensions": (2, -3)},
        {"type": 9999},
    ],
)
def test_invalid_ports_are_refused(changes: dict[str, int]) -> None:
    fields = {
        "offset": 40,
        "size_bytes": 24,
        "dimensions": (2, 3),
        "type": int(FLOAT),
        "scale": 0.0,
        "zero_point": 0,
    }
    Port(**fields).check(64)  # type: ignore[arg-type]
    with pytest.raises(BadData):
        Port(**{**fields, **changes}).check(64)  # type: ignore[arg-type]
