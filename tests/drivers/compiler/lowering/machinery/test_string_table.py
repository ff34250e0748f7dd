"""Hash tables of strings have every key where a search finds it."""

import random

import numpy as np
import pytest
from support.sweeps import sweep

from neurald.drivers.compiler.lowering.machinery.string_table import StringTable, string_hash, string_table

pytestmark = pytest.mark.quick


def found(table: StringTable, key: bytes) -> int:
    """Searches as the table's description says; returns the number of the key, or of all keys."""
    place, count = string_hash(key), len(table.places)
    while (number := int(table.places[place % count])) > 0:
        start, end = table.ends[number - 1 : number + 1]
        if table.characters[start:end].tobytes() == key:
            return number - 1
        place += 1
    return len(table.ends) - 1


@sweep("count", [0, 1, 2, 3, 100, 1000])
def test_searches(count: int) -> None:
    generator = random.Random(count)
    keys = list(dict.fromkeys(generator.randbytes(generator.randrange(30)) for _ in range(count)))
    table = string_table(keys)
    assert len(table.places) >= 2 * len(keys)
    assert np.count_nonzero(table.places) == len(keys)
    for number, key in enumerate(keys):
        assert found(table, key) == number
        assert found(table, key + b" no key of the table") == len(keys)


def test_hashes_depend_on_every_byte_and_the_length() -> None:
    content = bytes(range(1, 30))
    hashes = {string_hash(content[:length]) for length in range(30)}
    hashes |= {string_hash(bytes(length)) for length in range(1, 30)}
    hashes |= {string_hash(content[:at] + b"\0" + content[at + 1 :]) for at in range(29)}
    assert len(hashes) == 30 + 29 + 29
