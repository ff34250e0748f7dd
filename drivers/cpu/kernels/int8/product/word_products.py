"""Adds the products of a word of each position of a tile and of a panel's vectors of weights.

The sums of a tile are vectors of channels, those of a position one after another. While matrices
are multiplied, the sums of two positions are joined instead: each vector has two channels of both,
in the place of four channels of one. The words of weights are in the same order. If the number of
positions is odd, the last one is joined with itself.
"""

from collections.abc import Iterable, Iterator, Sequence

from neurald.drivers.cpu.emit.instructions import Instructions
from neurald.drivers.cpu.kernels.int8.scheme import Scheme


def joined(code: Instructions, scheme: Scheme, totals: Sequence[str], vectors: int) -> list[str]:
    """Returns the sums of a tile in the form that `add_words` takes.

    Args:
        code: receives the instructions.
        scheme: multiplication scheme.
        totals: the sums.
        vectors: number of vectors of a position.
    """
    if not scheme.has_matrices:
        return list(totals)
    whole = [*totals, *totals[-vectors:]] if len(totals) // vectors % 2 else totals
    return _exchanged(code, whole, vectors)


def separated(
    code: Instructions, scheme: Scheme, totals: Sequence[str], vectors: int, positions: int
) -> list[str]:
    """Returns the sums of this many positions, given the form that `add_words` takes."""
    if not scheme.has_matrices:
        return list(totals)
    return _exchanged(code, totals, vectors)[: vectors * positions]


def add_words(
    code: Instructions, scheme: Scheme, totals: Sequence[str], places: Iterable[str], columns: Sequence[str]
) -> list[str]:
    """Returns the sums after a word of every position, in the same form.

    Args:
        code: receives the instructions.
        scheme: multiplication scheme.
        totals: the sums before, see `joined`.
        places: addresses of the words; code that computes them is written between products.
        columns: registers of weights, vectors of i32; `Scheme.word_registers` for a vector of
            channels.
    """
    if scheme.has_matrices:
        return _add_matrices(code, scheme, totals, places, columns)
    results = []
    for number, at in enumerate(places):
        word = scheme.broadcast(code, code.fresh(f"load i32, ptr {at}, align 1"))
        for each, column in enumerate(columns):
            total = totals[number * len(columns) + each]
            results.append(scheme.step(code, total, word, column, is_broadcast=True))
    return results


def _add_matrices(
    code: Instructions, scheme: Scheme, totals: Sequence[str], places: Iterable[str], columns: Sequence[str]
) -> list[str]:
    """Adds the products of pairs of positions; see `add_words`."""
    weights = [code.value(f"bitcast <4 x i32> {each} to <2 x i64>") for each in columns]
    of_word = len(weights) // scheme.matrix_words
    vectors = of_word // 2
    results: list[str] = []
    for pair in _pairs(places):
        own = list(totals[len(results) : len(results) + of_word])
        for word, inputs in enumerate(_words_of(code, scheme, pair)):
            for vector in range(vectors):
                first = (vector * scheme.matrix_words + word) * 2
                for half, each in enumerate(weights[first : first + 2]):
                    place = vector + half * vectors
                    own[place] = scheme.multiply_matrices(code, own[place], inputs, each)
        results += own
    return results


def _words_of(code: Instructions, scheme: Scheme, pair: tuple[str, str]) -> list[str]:
    """Loads a word of two positions; returns vectors with 64 bits of both."""
    kind = "<2 x i64>"
    if scheme.matrix_words == 1:
        inputs = "poison"
        for lane, at in enumerate(pair):
            word = code.fresh(f"load i64, ptr {at}, align 1")
            inputs = code.fresh(f"insertelement {kind} {inputs}, i64 {word}, i64 {lane}")
        return [inputs]
    rows = [code.fresh(f"load {kind}, ptr {at}, align 1") for at in pair]
    return [
        code.fresh(
            f"shufflevector {kind} {rows[0]}, {kind} {rows[1]}, <2 x i32> <i32 {word}, i32 {word + 2}>"
        )
        for word in range(2)
    ]


def _pairs(places: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Returns the addresses of two positions at a time."""
    left = iter(places)
    for first in left:
        yield first, next(left, first)


def _exchanged(code: Instructions, totals: Sequence[str], vectors: int) -> list[str]:
    """Exchanges the second half of each first position's vectors and the first half of the next."""
    kind = "<4 x i32>"
    results = list(totals)
    for first in range(0, len(totals), 2 * vectors):
        for place in range(first, first + vectors):
            both = f"{kind} {totals[place]}, {kind} {totals[place + vectors]}"
            for offset, lanes in ((0, (0, 1, 4, 5)), (vectors, (2, 3, 6, 7))):
                order = ", ".join(f"i32 {lane}" for lane in lanes)
                results[place + offset] = code.fresh(f"shufflevector {both}, <4 x i32> <{order}>")
    return results
