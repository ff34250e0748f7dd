"""SKIP_GRAM: splits strings into word sequences."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.signature import ANY_RANK, Form, row, scalar, tensor

#: Maximum number of sequences, shorter ones included; it grows with a power of their length.
_MAX_SEQUENCES = 1 << 19
#: Maximum number of words of all results together.
_MAX_WORDS = 1 << 23
#: Maximum total size of the results, in bytes.
_MAX_BYTES = 1 << 28
#: Maximum number of words of a text, size and skip of sequences that are remembered.
_FEW_WORDS, _SHORT, _NEAR = 256, 3, 4


class _Sequences(NamedTuple):
    """Ascending sequences of the words of a text.

    Attributes:
        words: number of words of all results together.
        select: takes these words from the list of all words that are followed by another one in
            their sequence, all words that end one, and an empty string. The latter is taken twice
            at the end, so that any number of words results in a tuple.
    """

    words: int
    select: Callable[[Sequence[bytes]], tuple[bytes, ...]]


def _sequences(words: int, size: int, skip: int, *, shorter: bool) -> _Sequences | None:
    """Enumerates sequences of words, skipping at most `skip` at a time.

    Sequences with the same start are ordered by proximity.

    Args:
        words: number of words.
        size: at least 1.
        skip: may be negative: then no word has a successor.
        shorter: also include shorter sequences, after all that begin with them.

    Returns:
        None if there are too many.
    """
    chosen: list[int] = []
    count = 0
    for first in range(words):
        path, candidates = [first], [first + 1]
        count += 1
        while path:
            last = min(path[-1] + 1 + skip, words - 1) if len(path) < size else -1
            if candidates[-1] <= last:
                if count >= _MAX_SEQUENCES or len(chosen) > _MAX_WORDS:
                    return None
                count += 1
                path.append(candidates[-1])
                candidates[-1] += 1
                candidates.append(path[-1] + 1)
                continue
            if shorter or len(path) == size:
                chosen += path
                chosen[-1] += words
            path.pop()
            candidates.pop()
    return _Sequences(len(chosen), itemgetter(*chosen, 2 * words, 2 * words))


#: Remembers the sequences of short texts, whose numbers of words repeat.
_known_sequences = lru_cache(maxsize=16)(_sequences)


def _grams(call: Call) -> Array:
    """Returns word sequences of the first string; empty if it has fewer words than required.

    All sequences are joined at once, as lines, which no word divides: a string for each line
    costs less than one for each word that is added to a sequence.
    """
    words = call.array("input").reshape(-1)[0].split()
    size = int(call.scalar("ngram_size"))
    if not 0 < size <= len(words):
        return np.empty(0, object)
    skip, shorter = int(call.scalar("max_skip_size")), bool(call.scalar("include_all_ngrams"))
    are_few = len(words) <= _FEW_WORDS and size <= _SHORT and skip <= _NEAR
    enumerated = _known_sequences if are_few else _sequences
    sequences = enumerated(len(words), size, skip, shorter=shorter)
    joined = None if sequences is None else _joined(words, sequences)
    if joined is None:
        raise BadData(f"{call.name('input')} has too many sequences of {size} of its {len(words)} words")
    lines = joined.splitlines()
    return np.fromiter(lines, object, len(lines))


def _joined(words: Sequence[bytes], sequences: _Sequences) -> bytes | None:
    """Returns the sequences as lines; None if they are too large."""
    # Joining and splitting all words is faster than extending each one by a byte.
    lines = b"\n".join(words) + b"\n"
    parts = lines.replace(b"\n", b" \n").split(b"\n")
    parts[-1:] = lines.splitlines(keepends=True)
    parts.append(b"")
    selected = sequences.select(parts)
    if sequences.words * len(lines) > _MAX_BYTES and sum(map(len, selected)) > _MAX_BYTES:
        return None
    return b"".join(selected)


def _check(call: Call) -> None:
    if 0 in call.shape("input"):
        raise BadData(f"{call.name('input')} has shape {list(call.shape('input'))}; a string is needed")


def _shape(call: Call) -> tuple[Shape, ...]:
    return (call.once(_grams).shape,)


def _reference(call: Call) -> tuple[Array, ...]:
    return (call.once(_grams),)


DEFINITIONS = (
    Definition(
        type=OperationType.TFLITE_SKIP_GRAM,
        forms=(
            Form(
                inputs=(
                    tensor("input", rank=ANY_RANK),
                    scalar("ngram_size"),
                    scalar("max_skip_size"),
                    scalar("include_all_ngrams", OperandType.BOOL),
                ),
                outputs=(tensor("output", rank=1),),
            ),
        ),
        rows=(row(FeatureLevel.LEVEL_1, T=OperandType.TENSOR_STRING),),
        checks=(_check,),
        shape=_shape,
        reference=_reference,
    ),
)
