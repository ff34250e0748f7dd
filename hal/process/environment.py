"""Reads variables of the environment, most of which few users set.

`os.environ` raises an error for each that is not set, and catches it. A start from the cache asks
for twenty variables, which takes longer than reading an entry of the cache.
"""

import os
from collections.abc import Mapping
from typing import Final

#: What `os.environ` reads and changes, without its conversions. It is private to the standard
#: library, so another implementation of Python may not have it.
_encoded: Final[Mapping[bytes, bytes] | None] = vars(os.environ).get("_data")


def variables_with(*prefixes: str) -> dict[str, str]:
    """Returns the variables whose names begin with one of these, in the order of their names."""
    if _encoded is None:
        return {name: os.environ[name] for name in sorted(os.environ) if name.startswith(prefixes)}
    encoded = tuple(prefix.encode() for prefix in prefixes)
    return {
        os.fsdecode(name): os.fsdecode(_encoded[name])
        for name in sorted(_encoded)
        if name.startswith(encoded)
    }


def environment_variable(name: str) -> str | None:
    """Returns the value of a variable as it is now; None if it is not set."""
    if _encoded is None:
        return os.environ.get(name)
    found = _encoded.get(name.encode())
    return None if found is None else os.fsdecode(found)
