"""Copies of immutable records with some fields changed.

Records that many objects are made of, or that every process defines, are `msgspec.Struct` classes:
they are defined 30 times as fast as dataclasses, created 10 times as fast, and copied 30 times as
fast.
"""

from typing import Any, TypeVar

from msgspec import Struct, structs

_Record = TypeVar("_Record")


def replace(record: _Record, /, **changes: Any) -> _Record:
    """Returns a copy of a `Struct` or dataclass with the given fields changed."""
    if isinstance(record, Struct):
        return structs.replace(record, **changes)
    import dataclasses  # slow to import, and rarely used

    copied: _Record = dataclasses.replace(record, **changes)  # type: ignore[type-var]
    return copied
