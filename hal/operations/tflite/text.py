"""SKIP_GRAM: splits strings into word sequences."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.signature import ANY_RANK, Form, row, scalar, tensor

#: Maximum number of sequences, shorter ones included; it grows with a power of their length.
_MAX_NODES = 1 << 19
#: Maximum total size of these sequences, in bytes.
_MAX_BYTES = 1 << 28
#: Maximum number of words of a text, size and skip of sequences that are remembered.
_FEW_WORDS, _SHORT, _NEAR = 256, 3, 4


class _Sequences(NamedTuple):
    """Ascending sequences of word indexes, as a tree: each node adds a word to the sequence of another.

    Attributes:
        nodes: the node that each one extends, which comes before it, and the word that it adds; -1
            and the word for a sequence of one word.
        results: the nodes whose sequences are results, in order.
    """

    nodes: Sequence[tuple[int, int]]
    results: Sequence[int]


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
    nodes: list[tuple[int, int]] = []
    results: list[int] = []
    for first in range(words):
        path, candidates = [len(nodes)], [first + 1]
        nodes.append((-1, first))
        while path:
            last = min(nodes[path[-1]][1] + 1 + skip, words - 1) if len(path) < size else -1
            if candidates[-1] <= last:
                if len(nodes) >= _MAX_NODES:
                    return None
                nodes.append((path[-1], candidates[-1]))
                candidates[-1] += 1
                path.append(len(nodes) - 1)
                candidates.append(nodes[-1][1] + 1)
                continue
            if shorter or len(path) == size:
                results.append(path[-1])
            path.pop()
            candidates.pop()
    return _Sequences(nodes, results)


#: Remembers the sequences of short texts, whose numbers of words repeat.
_known_sequences = lru_cache(maxsize=16)(_sequences)


def _grams(call: Call) -> Array:
    """Returns word sequences of the first string; empty if it has fewer words than required."""
    words = call.array("input").reshape(-1)[0].split()
    size = int(call.scalar("ngram_size"))
    if not 0 < size <= len(words):
        return np.empty(0, object)
    skip, shorter = int(call.scalar("max_skip_size")), bool(call.scalar("include_all_ngrams"))
    are_few = len(words) <= _FEW_WORDS and size <= _SHORT and skip <= _NEAR
    enumerated = _known_sequences if are_few else _sequences
    sequences = enumerated(len(words), size, skip, shorter=shorter)
    texts: list[bytes] = []
    if sequences is not None:
        following = [b" " + word for word in words]
        left = _MAX_BYTES
        for parent, word in sequences.nodes:
            text = texts[parent] + following[word] if parent >= 0 else words[word]
            left -= len(text)
            if left < 0:
                break
            texts.append(text)
    if sequences is None or len(texts) < len(sequences.nodes):
        raise BadData(f"{call.name('input')} has too many sequences of {size} of its {len(words)} words")
    return np.fromiter(map(texts.__getitem__, sequences.results), object, len(sequences.results))


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
