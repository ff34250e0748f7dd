"""SKIP_GRAM: splits strings into word sequences."""

from collections.abc import Iterator

import numpy as np

from neurald.hal.errors import BadData
from neurald.hal.model.operation_type import OperationType
from neurald.hal.model.types import FeatureLevel, OperandType
from neurald.hal.operations.machinery.call import Array, Call, Shape
from neurald.hal.operations.machinery.definition import Definition
from neurald.hal.operations.machinery.signature import ANY_RANK, Form, row, scalar, tensor

#: Maximum number of search steps; the number of sequences grows with a power of their length.
_MAX_STEPS = 1 << 20
#: Maximum total size of the results of one call, in bytes.
_MAX_BYTES = 1 << 28


def _sequences(words: int, size: int, skip: int, *, shorter: bool) -> Iterator[tuple[int, ...]]:
    """Enumerates ascending sequences of word indexes, skipping at most `skip` at a time.

    Sequences with the same start are ordered by proximity.

    Args:
        words: number of words.
        size: at least 1.
        skip: may be negative: then no word has a successor.
        shorter: also yield shorter sequences, after all that begin with them.

    Yields:
        Sequences; an empty one for a step without a result.
    """
    for first in range(words):
        path, candidates = [first], [first + 1]
        while path:
            last = min(path[-1] + 1 + skip, words - 1) if len(path) < size else -1
            if candidates[-1] <= last:
                path.append(candidates[-1])
                candidates[-1] += 1
                candidates.append(path[-1] + 1)
                yield ()
                continue
            yield tuple(path) if shorter or len(path) == size else ()
            path.pop()
            candidates.pop()


def _grams(call: Call) -> Array:
    """Returns word sequences of the first string; empty if it has fewer words than required."""
    words = call.array("input").reshape(-1)[0].split()
    size = int(call.scalar("ngram_size"))
    found: list[bytes] = []
    if 0 < size <= len(words):
        size_bytes = 0
        sequences = _sequences(
            len(words),
            size,
            int(call.scalar("max_skip_size")),
            shorter=bool(call.scalar("include_all_ngrams")),
        )
        for step, sequence in enumerate(sequences):
            if step >= _MAX_STEPS or size_bytes > _MAX_BYTES:
                raise BadData(
                    f"{call.name('input')} has too many sequences of {size} of its {len(words)} words"
                )
            if sequence:
                found.append(b" ".join(words[index] for index in sequence))
                size_bytes += len(found[-1])
    result = np.empty(len(found), object)
    result[:] = found
    return result


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
