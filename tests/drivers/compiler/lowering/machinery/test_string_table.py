"""Hash tables of strings have every key where a search finds it."""

import random

import numpy as np
import pytest
from support.sweeps import sweep

from neurald.drivers.compiler.lowering.machinery.string_table import StringTable, string_hash, string_table

pytestmark = pytest.mark.quick


def found(table: StringTable, key: bytes) -> int:
    """Searches as the table's description says; returns the number of the key, or of all keys."""
    count = len(table.places)
    place = string_hash(key) >> 64 - (count.bit_length() - 1)
    while (number := int(table.places[place % count])) > 0:
        start, length = table.keys.reshape(-1, 2)[number - 1]
        assert start % 8 == 0
        if table.characters[start : start + length].tobytes() == key:
            return number - 1
        place += 1
    return len(table.keys) // 2


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


def test_numbered_words_are_spread() -> None:
    keys = [b"token%d" % number for number in range(5000)]
    table = string_table(keys)
    taken = np.flatnonzero(table.places)
    # How far each key is from its place, on average.
    distances = [
        (place - (string_hash(keys[table.places[place] - 1]) >> 64 - 14)) % len(table.places)
        for place in taken.tolist()
    ]
    assert len(table.places) == 1 << 14
    assert sum(distances) / len(distances) < 1
