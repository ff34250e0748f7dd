"""Evaluates a program of extents for many sets of lengths, all its sums at once."""

from collections.abc import Sequence
from typing import Final

from neurald.drivers.compiler.memory.extent_program import (
    MAX_NUMBER,
    NEGATIVE,
    QUOTIENT,
    ExtentProgram,
    Sum,
    total,
)
from neurald.hal.lazy_numpy import Array, np

#: Limit on each term of a sum; a sum of the most terms that there may be fits into 64 bits.
_MAX_TERM: Final = float(1 << 56)


class ExtentEvaluation:
    """See this module.

    Args:
        program: has been checked.
    """

    def __init__(self, program: ExtentProgram) -> None:
        self._program = program
        products: dict[tuple[int, ...], int] = {}
        factors: list[int] = []
        terms: list[int] = []
        starts: list[int] = []
        for value in (*(guard.value for guard in program.guards), *program.values):
            starts.append(len(factors))
            nothing: Sum = ((0, ()),)
            for factor, atoms in value or nothing:
                factors.append(factor)
                terms.append(products.setdefault(atoms, len(products)))
        #: The atoms that are multiplied, of which each term is a multiple.
        self._products = tuple(products)
        self._factors, self._terms = np.array(factors, np.int64), np.array(terms, np.intp)
        self._magnitudes = np.abs(self._factors.astype(np.float64))
        degree, largest = max(map(len, products), default=0), max(map(abs, factors), default=1)
        #: Atoms up to this do not make a term too large.
        self._small = int((_MAX_TERM / max(1, largest)) ** (1 / max(1, degree))) // 2
        self._starts = np.array(starts, np.intp)
        guards = program.guards
        self._guards = len(guards)
        self._are_negative = np.array([guard.relation == NEGATIVE for guard in guards], np.bool_)
        self._hold = np.array([guard.holds for guard in guards], np.bool_)

    def evaluate(self, lengths: Sequence[int]) -> Array | None:
        """Returns the numbers of the program as 64-bit integers.

        Returns None if the code is not valid for these lengths, or if a number is too large.
        """
        atoms = self._atoms(lengths)
        if atoms is None:
            return None
        products: list[int] = []
        for numbers in self._products:
            product = 1
            for number in numbers:
                product *= atoms[number]
            products.append(product)
        if products and (max(products) > MAX_NUMBER or min(products) < -MAX_NUMBER):
            return None
        if not self._starts.size:
            return np.zeros(0, np.int64)
        found = np.array(products, np.int64)[self._terms]
        if max(atoms, default=0) > self._small or min(atoms, default=0) < -self._small:
            magnitudes = np.abs(found.astype(np.float64)) * self._magnitudes
            if magnitudes.max() >= _MAX_TERM:
                return None
        totals: Array = np.add.reduceat(found * self._factors, self._starts)
        if self._guards:
            tested = totals[: self._guards]
            if (np.where(self._are_negative, tested < 0, tested == 0) != self._hold).any():
                return None
        return totals[self._guards :]

    def _atoms(self, lengths: Sequence[int]) -> list[int] | None:
        """Returns the lengths, quotients and remainders; None if one of them is not valid."""
        program = self._program
        if any(
            not low <= length <= high for length, (low, high) in zip(lengths, program.bounds, strict=True)
        ):
            return None
        atoms = list(lengths)
        for division in program.divisions:
            divisor = total(division.divisor, atoms)
            if divisor <= 0:
                return None
            dividend = total(division.dividend, atoms)
            atom = dividend // divisor if division.kind == QUOTIENT else dividend % divisor
            if abs(atom) > MAX_NUMBER:
                return None
            atoms.append(atom)
        return atoms
