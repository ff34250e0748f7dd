"""Evaluates a program of extents for many sets of lengths, all its sums at once."""

from collections.abc import Sequence
from typing import Final

from neurald.drivers.compiler.memory.extent_program import (
    MAX_NUMBER,
    NEGATIVE,
    ExtentProgram,
    Sum,
    atom_of,
    total,
)
from neurald.hal.lazy_numpy import Array, np

#: Limit on each term of a sum; a sum of the most terms that there may be fits into 64 bits.
_MAX_TERM: Final = float(1 << 56)


class ExtentEvaluation:
    """Computes the numbers of a program for many sets of lengths at once.

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
        self._guards = tuple([(guard.relation == NEGATIVE, guard.holds) for guard in program.guards])
        #: Each division: the dividend, the divisor, this as a number if it is constant, and the
        #: kind.
        self._divisions = tuple(
            [(each.dividend, each.divisor, _constant(each.divisor), each.kind) for each in program.divisions]
        )

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
        count = len(self._guards)
        if not count:
            return totals
        for tested, (is_negative, holds) in zip(totals[:count].tolist(), self._guards, strict=True):
            if (tested < 0 if is_negative else tested == 0) is not holds:
                return None
        return totals[count:]

    def _atoms(self, lengths: Sequence[int]) -> list[int] | None:
        """Returns the lengths and the atoms after them; None if one of them is not valid."""
        for length, (low, high) in zip(lengths, self._program.bounds, strict=True):
            if not low <= length <= high:
                return None
        atoms = list(lengths)
        for dividend, divisor, constant, kind in self._divisions:
            by = total(divisor, atoms) if constant is None else constant
            if by <= 0:
                return None
            atom = atom_of(kind, total(dividend, atoms), by)
            if abs(atom) > MAX_NUMBER:
                return None
            atoms.append(atom)
        return atoms


def _constant(value: Sum) -> int | None:
    """Returns a sum that does not depend on atoms; None for others."""
    return None if any(atoms for _, atoms in value) else total(value, ())
