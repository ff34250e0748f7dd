from itertools import combinations, pairwise

import numpy as np
import pytest
from support.operations.single_operation import evaluate, given, scalars, wanted
from support.sweeps import sweep

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import OperandType

STRING = OperandType.TENSOR_STRING


def grams(texts: list[bytes], size: int, skip: int, *, shorter: bool) -> list[bytes]:
    inputs = given(STRING, np.array(texts, object)), *scalars(size, skip, shorter)
    result: list[bytes] = evaluate(OperationType.TFLITE_SKIP_GRAM, inputs, wanted(STRING)).tolist()
    return result


@sweep(
    ("size", "skip", "shorter", "expected"),
    [
        (2, 1, True, "the quick,the brown,the,quick brown,quick fox,quick,brown fox,brown,fox"),
        (3, 0, False, "the quick brown,quick brown fox"),
        (2, 2, False, "the quick,the brown,the fox,quick brown,quick fox,brown fox"),
        (1, 0, True, "the,quick,brown,fox"),
        (2, -1, True, "the,quick,brown,fox"),
        (2, -1, False, ""),
        (5, 3, True, ""),
        (0, 1, True, ""),
        (-1, 1, True, ""),
    ],
)
def test_sequences_of_words(size: int, skip: int, shorter: bool, expected: str) -> None:
    found = grams([b" the  quick\tbrown\nfox ", b"another text"], size, skip, shorter=shorter)
    assert b",".join(found).decode() == expected


@sweep("size", [1, 2, 3, 5])
@sweep("skip", [0, 1, 4])
def test_sequences_against_all_combinations(size: int, skip: int) -> None:
    words = [b"%d" % number for number in range(6)]

    def sequences(length: int) -> list[tuple[int, ...]]:
        return [
            positions
            for positions in combinations(range(6), length)
            if all(b - a <= skip + 1 for a, b in pairwise(positions))
        ]

    expected = sorted(b" ".join(words[position] for position in positions) for positions in sequences(size))
    assert sorted(grams([b" ".join(words)], size, skip, shorter=False)) == expected
    every = sorted(
        b" ".join(words[position] for position in positions)
        for length in range(1, size + 1)
        for positions in sequences(length)
    )
    assert sorted(grams([b" ".join(words)], size, skip, shorter=True)) == every


def test_words_are_separated_by_white_space() -> None:
    assert grams([b"a\x0bb\x0cc\rd e\0f\xa0g"], 1, 0, shorter=True) == [b"a", b"b", b"c", b"d", b"e\0f\xa0g"]
    assert grams([b""], 1, 0, shorter=True) == []


def test_refusals() -> None:
    with pytest.raises(BadData, match="a string is needed"):
        grams([], 1, 0, shorter=True)
    with pytest.raises(BadData, match="too many sequences of 20"):
        grams([b"a " * 60], 20, 40, shorter=False)
    with pytest.raises(BadData, match="too many sequences"):
        grams([b"x" * 200_000 + b" a" * 3000], 2, 3000, shorter=False)
