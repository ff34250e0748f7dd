from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from neurald.runtime.litert.arguments import flag, integer, lengths, text


@pytest.mark.parametrize("value", [7, np.int64(7), np.uint8(7), np.array(7), np.float32(7.9), Decimal(7)])
def test_integers(value: Any) -> None:
    assert integer(value, "Call") == 7


@pytest.mark.parametrize(
    "value",
    [7.0, np.float64(7), "7", b"7", None, [7], np.array([1, 2]), 1j, np.float32("nan"), 2**31, -(2**40)],
)
def test_what_is_no_integer(value: Any) -> None:
    with pytest.raises(TypeError, match=r"Call\(\): incompatible function arguments\. .* is given"):
        integer(value, "Call")


def test_texts() -> None:
    assert [text(value, "Call") for value in ("ä", "ä".encode(), bytearray(b"a"))] == ["ä", "ä", "a"]
    for value in (None, 3, ["a"]):
        with pytest.raises(TypeError, match="a str is expected"):
            text(value, "Call")


def test_lengths() -> None:
    assert lengths(np.array([2, 3]), "Call") == [2, 3]
    wrong: tuple[Any, ...] = (None, 3, [2.0], "23", [None])
    for value in wrong:
        with pytest.raises(TypeError):
            lengths(value, "Call")


def test_flags() -> None:
    assert [flag(value, "Call") for value in (True, 1, np.bool_(True), 2.0, 0, None)] == [
        *[True] * 4,
        *[False] * 2,
    ]
    for value in ("x", "", [], [1]):
        with pytest.raises(TypeError, match="a bool is expected"):
            flag(value, "Call")
