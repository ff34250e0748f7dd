"""Computes the extents of compiled code for given lengths of the open dimensions.

An artifact contains such a program instead of the compiler's extents. Its contents are checked
before they are used.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import msgspec

from neurald.hal.errors import BadData

if TYPE_CHECKING:
    # Running a cached step must not import the compiler.
    from neurald.drivers.compiler.ir.extents.extent import Extent
    from neurald.drivers.compiler.ir.extents.scope import ExtentScope
    from neurald.drivers.compiler.ir.extents.terms import Atom

#: A sum of products: factors, each with the numbers of the atoms that it multiplies.
Sum: TypeAlias = tuple[tuple[int, tuple[int, ...]], ...]

#: Limits on programs from artifacts, and on all numbers.
_MAX_ATOMS: Final = 10_000
_MAX_TERMS: Final = 64
_MAX_DEGREE: Final = 8
MAX_NUMBER: Final = 1 << 62
#: How many excesses of a sum are taken apart to find its bounds: each doubles the number of cases.
_MAX_CASES: Final = 4
#: See `AtomKind` and `Relation`.
QUOTIENT: Final = 1
_REMAINDER: Final = 2
EXCESS: Final = 3
NEGATIVE: Final = 0
_ZERO: Final = 1


class Division(msgspec.Struct, frozen=True, array_like=True):
    """An atom that is a quotient or remainder of two sums over earlier atoms.

    Or it is the excess of the first one over 0; the second one is 1.
    """

    kind: int
    dividend: Sum
    divisor: Sum


class Condition(msgspec.Struct, frozen=True, array_like=True):
    """A test of a sum's sign; see `neurald.drivers.compiler.ir.extents.scope.Guard`."""

    value: Sum
    relation: int
    holds: bool


class ExtentProgram(msgspec.Struct, frozen=True, array_like=True):
    """Numbers as functions of the lengths of open dimensions; see `ExtentEvaluation`.

    Attributes:
        bounds: smallest and largest length of each open dimension. These are the first atoms.
        divisions: the further atoms.
        guards: conditions for which the code is valid.
        values: the numbers.
    """

    bounds: tuple[tuple[int, int], ...]
    divisions: tuple[Division, ...]
    guards: tuple[Condition, ...]
    values: tuple[Sum, ...]

    def largest(self, lengths: Sequence[int]) -> list[int] | None:
        """Returns upper bounds of the numbers for lengths of at most these.

        Returns None if one is too large.
        """
        atoms = [(0, length) for length in lengths]
        excesses: dict[int, Sum] = {}
        for division in self.divisions:
            low, high = _range(division.dividend, atoms, excesses)
            least, most = (max(1, end) for end in _range(division.divisor, atoms, excesses))
            if division.kind == _REMAINDER:
                atoms.append((0, most - 1))
                continue
            if division.kind == EXCESS:
                excesses[len(atoms)] = division.dividend
                atoms.append((max(0, low), max(0, high)))
                continue
            corners = [end // by for end in (low, high) for by in (least, most)]
            atoms.append((min(corners), max(corners)))
        numbers = [_range(value, atoms, excesses)[1] for value in self.values]
        return None if any(number > MAX_NUMBER for number in numbers) else numbers

    def at(self, lengths: Sequence[int], numbers: Iterable[int]) -> dict[int, int]:
        """Returns numbers by their positions, whether or not the code is valid.

        Quotients and remainders are 0 if the divisor is not positive.
        """
        wanted = [(number, self.values[number]) for number in numbers]
        atoms = list(lengths)
        # Shapes mostly need none of the divisions, which are in order.
        last = max((atom for _, value in wanted for _, product in value for atom in product), default=0)
        for division in self.divisions[: max(0, last + 1 - len(atoms))]:
            dividend, divisor = total(division.dividend, atoms), total(division.divisor, atoms)
            atoms.append(0 if divisor <= 0 else atom_of(division.kind, dividend, divisor))
        return {number: total(value, atoms) for number, value in wanted}

    def permits(self, lengths: Sequence[int | None]) -> bool:
        """Returns True unless a guard does not hold whatever the unknown lengths are.

        Args:
            lengths: the lengths of the open dimensions; None for those that are not known yet.
        """
        atoms = list(lengths)
        for division in self.divisions:
            dividend, divisor = (_known_total(each, atoms) for each in (division.dividend, division.divisor))
            if dividend is None or divisor is None or divisor <= 0:
                atoms.append(None)
            else:
                atoms.append(atom_of(division.kind, dividend, divisor))
        for guard in self.guards:
            value = _known_total(guard.value, atoms)
            if value is not None and (value < 0 if guard.relation == NEGATIVE else value == 0) != guard.holds:
                return False
        return True

    def check(self) -> None:
        """Raises BadData unless every sum refers to atoms before it, and is small."""
        if len(self.bounds) + len(self.divisions) > _MAX_ATOMS:
            raise BadData(f"a program has {len(self.divisions)} divisions; at most {_MAX_ATOMS} are expected")
        if any(not 0 <= low <= high for low, high in self.bounds):
            raise BadData("the bounds of an open dimension are not valid")
        count = len(self.bounds)
        for number, division in enumerate(self.divisions, start=count):
            if division.kind not in (QUOTIENT, _REMAINDER, EXCESS):
                raise BadData(f"unknown kind {division.kind} of a division")
            _check(division.dividend, number)
            _check(division.divisor, number)
        count += len(self.divisions)
        for guard in self.guards:
            if guard.relation not in (NEGATIVE, _ZERO):
                raise BadData(f"unknown relation {guard.relation} of a guard")
            _check(guard.value, count)
        for value in self.values:
            _check(value, count)


def total(value: Sum, atoms: Sequence[int]) -> int:
    """Returns a sum for these atoms."""
    found = 0
    for factor, numbers in value:
        for number in numbers:
            factor *= atoms[number]
        found += factor
    return found


def atom_of(kind: int, dividend: int, divisor: int) -> int:
    """Returns an atom of a kind for these numbers, of which the second one is positive."""
    if kind == EXCESS:
        return max(0, dividend)
    return dividend // divisor if kind == QUOTIENT else dividend % divisor


def _known_total(value: Sum, atoms: Sequence[int | None]) -> int | None:
    """Returns a sum for these atoms; None if one of those that it has is not known."""
    if any(atoms[number] is None for _, numbers in value for number in numbers):
        return None
    return total(value, cast("Sequence[int]", atoms))


def _range(
    value: Sequence[tuple[int, tuple[int, ...]]],
    atoms: Sequence[tuple[int, int]],
    excesses: Mapping[int, Sum],
    depth: int = _MAX_CASES,
) -> tuple[int, int]:
    """Returns bounds of a sum over atoms that are in these ranges.

    Args:
        value: the sum.
        atoms: the ranges.
        excesses: what has each excess among the atoms.
        depth: how many of them are replaced by it, and by 0, so that lengths cancel.
    """
    low, high = _range_of_terms(value, atoms)
    last = max((number for _, numbers in value for number in numbers if number in excesses), default=None)
    if last is None or not depth or any(numbers.count(last) > 1 for _, numbers in value):
        return low, high
    with_it = [(factor, _without(numbers, last)) for factor, numbers in value if last in numbers]
    none = {numbers: factor for factor, numbers in value if last not in numbers}
    whole = dict(none)
    for factor, numbers in with_it:
        for other, more in excesses[last]:
            product = tuple(sorted((*numbers, *more)))
            whole[product] = whole.get(product, 0) + factor * other
    least, most = _range_of_terms(with_it, atoms)
    lows, highs = zip(
        *(
            _range([(factor, numbers) for numbers, factor in each.items()], atoms, excesses, depth - 1)
            for each in (none, whole)
        ),
        strict=True,
    )
    # It is the larger one of both if the factor is positive, and the smaller one if it is negative.
    low = max(low, (max if least >= 0 else min)(lows))
    return low, min(high, (min if most <= 0 else max)(highs))


def _without(numbers: tuple[int, ...], last: int) -> tuple[int, ...]:
    return tuple(number for number in numbers if number != last)


def _range_of_terms(
    value: Sequence[tuple[int, tuple[int, ...]]], atoms: Sequence[tuple[int, int]]
) -> tuple[int, int]:
    """Returns bounds of a sum over atoms in these ranges that do not depend on each other."""
    low = high = 0
    for factor, numbers in value:
        least = most = factor
        for number in numbers:
            corners = [end * other for end in (least, most) for other in atoms[number]]
            least, most = min(corners), max(corners)
        low, high = low + least, high + most
    return low, high


def _check(value: Sum, count: int) -> None:
    if len(value) > _MAX_TERMS:
        raise BadData(f"a sum has {len(value)} terms; at most {_MAX_TERMS} are expected")
    for factor, numbers in value:
        if len(numbers) > _MAX_DEGREE or abs(factor) > MAX_NUMBER:
            raise BadData(f"a product of {len(numbers)} factors and {factor} is too large")
        if any(not 0 <= number < count for number in numbers):
            raise BadData(f"a sum refers to an atom beyond the {count} before it")


class ProgramBuilder:
    """Builds a program from the extents of a compilation.

    Args:
        scope: the scope of the extents.
    """

    def __init__(self, scope: "ExtentScope") -> None:
        self._scope = scope
        self._divisions: list[Division] = []
        self._atoms: dict[Atom, int] = {}
        self._values: list[Sum] = []
        self._numbers: dict[int | str, int] = {}

    def number(self, value: "int | Extent") -> int:
        """Returns the position of a number among the values of the program."""
        key = int(value) if isinstance(value, int) else value.key
        if key not in self._numbers:
            self._numbers[key] = len(self._values)
            self._values.append(self._sum(value))
        return self._numbers[key]

    def result(self) -> ExtentProgram:
        """Returns the program, with the guards that the scope has now.

        Raises:
            BadData: its numbers are too large, or there are too many; see `ExtentProgram.check`.
        """
        guards = tuple(
            Condition(self._sum(guard.extent), int(guard.relation), guard.holds)
            for guard in self._scope.guards.values()
        )
        program = ExtentProgram(
            bounds=tuple(self._scope.bounds(symbol) for symbol in range(len(self._scope.hints))),
            divisions=tuple(self._divisions),
            guards=guards,
            values=tuple(self._values),
        )
        program.check()
        return program

    def _sum(self, value: "int | Extent") -> Sum:
        if isinstance(value, int):
            return ((value, ()),)
        return tuple(
            (factor, tuple(self._atom(atom) for atom in product)) for product, factor in value.terms.items()
        )

    def _atom(self, atom: "Atom") -> int:
        if atom.number >= 0:
            return atom.number
        if atom not in self._atoms:
            division = Division(int(atom.kind), self._sum(atom.dividend), self._sum(atom.divisor))
            self._atoms[atom] = len(self._scope.hints) + len(self._divisions)
            self._divisions.append(division)
        return self._atoms[atom]
