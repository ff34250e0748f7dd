import random
from collections.abc import Iterator
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


def extended(
    words: list[bytes], size: int, skip: int, *, shorter: bool, text: bytes = b"", last: int = -1
) -> Iterator[bytes]:
    """Yields the sequences from a text of words to the last one, one word at a time."""
    if size:
        for word in range(last + 1, len(words) if last < 0 else min(last + skip + 2, len(words))):
            longer = text + b" " * (last >= 0) + words[word]
            yield from extended(words, size - 1, skip, shorter=shorter, text=longer, last=word)
    if last >= 0 and (shorter or not size):
        yield text


@sweep("seed", range(40))
def test_sequences_of_random_texts(seed: int) -> None:
    random_ = random.Random(seed)
    alphabet = ["a", "é", "語", "🙂", "\0", "\x85", "\u2028", "\x1c", "%s", "\\"]
    words = [
        "".join(random_.choices(alphabet, k=random_.randint(1, 5))).encode()
        for _ in range(random_.choice((0, 1, 2, 5, 9, 300)))
    ]
    spaces = [bytes(random_.choices(b" \t\n\v\f\r", k=random_.randint(1, 3))) for _ in range(len(words) + 1)]
    text = b"".join(space + word for space, word in zip(spaces, words, strict=False)) + spaces[-1]
    size, skip = random_.randint(1, 2 if len(words) > 9 else 5), random_.randint(-1, 6)
    for shorter in (False, True):
        expected = list(extended(words, size, skip, shorter=shorter)) if len(words) >= size else []
        assert grams([text], size, skip, shorter=shorter) == expected


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
    with pytest.raises(BadData, match="too many sequences of 400 of its 400 words"):
        grams([b"a " * 400], 400, 0, shorter=True)
