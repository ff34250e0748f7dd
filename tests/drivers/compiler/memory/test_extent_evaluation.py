"""Evaluations compute extents from lengths, and refuse what a program does not support."""

import random
from typing import Any

import msgspec
import pytest

from neurald.drivers.compiler.ir.extents.extent import Extent, excess
from neurald.drivers.compiler.ir.extents.scope import ExtentScope
from neurald.drivers.compiler.memory.extent_evaluation import ExtentEvaluation
from neurald.drivers.compiler.memory.extent_program import Division, ExtentProgram, ProgramBuilder

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("seed", range(20))
def test_values_are_those_of_arithmetic(seed: int) -> None:
    chosen = random.Random(seed)
    scope = ExtentScope([chosen.randint(2, 99), chosen.randint(2, 9)])
    steps = [
        (chosen.randrange(2 + step), chosen.randrange(2 + step), chosen.randrange(6), chosen.randint(1, 30))
        for step in range(8)
    ]

    def computed(start: list[Any]) -> list[Any]:
        numbers = list(start)
        for first, second, operation, known in steps:
            one, other = numbers[first], numbers[second]
            results = one + other, one * known, one // known, one % known, one - other, excess(one - other)
            numbers.append(results[operation])
        return numbers

    numbers = computed(list(scope.symbols))
    builder = ProgramBuilder(scope)
    places = [builder.number(number) for number in numbers]
    program = builder.result()
    program.check()
    evaluation = ExtentEvaluation(program)
    for _ in range(20):
        lengths = [chosen.randint(2, 200), chosen.randint(2, 50)]
        found = evaluation.evaluate(lengths)
        assert found is not None
        assert [found[place] for place in places] == computed(lengths)
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(program), type=ExtentProgram)
    assert again == program


def test_lengths_outside_the_guards_are_refused() -> None:
    scope = ExtentScope([37])
    length = scope.symbols[0]
    assert length >= 10
    assert length % 4 == 1
    assert length // 3 % 5 != 1
    builder = ProgramBuilder(scope)
    builder.number(length)
    evaluation = ExtentEvaluation(builder.result())
    for known in range(2, 200):
        expected = known >= 10 and known % 4 == 1 and known // 3 % 5 != 1
        found = evaluation.evaluate([known])
        assert (found is not None and found.tolist() == [known]) is expected


def test_a_divisor_that_is_not_positive_is_refused() -> None:
    scope = ExtentScope([37])
    length = scope.symbols[0]
    quotient = (length * length) // (length - 7)
    assert isinstance(quotient, Extent)
    builder = ProgramBuilder(scope)
    builder.number(quotient)
    program = msgspec.structs.replace(builder.result(), bounds=((2, 100),))
    evaluation = ExtentEvaluation(program)
    assert evaluation.evaluate([7]) is None
    found = evaluation.evaluate([8])
    assert found is not None
    assert found.tolist() == [64]


def test_numbers_that_are_too_large_are_refused() -> None:
    power: tuple[tuple[int, tuple[int, ...]], ...] = ((1, (0,) * 8),)
    for change in (
        {"values": (power,)},
        {"values": (((1 << 50, (0,)),),)},
        {"values": (((-(1 << 62), ()), (1, (0,))),)},
        {"divisions": tuple(Division(1, ((1, (n,) * 8),), ((1, ()),)) for n in range(100))},
    ):
        program = ExtentProgram(bounds=((2, 1 << 31),), divisions=(), guards=(), values=())
        program = msgspec.structs.replace(program, **change)
        program.check()
        assert ExtentEvaluation(program).evaluate([1 << 20]) is None


def test_long_sums_are_exact() -> None:
    terms = tuple((factor, (0,) * degree) for factor in (-3, 5, (1 << 40) + 1) for degree in (0, 1, 2))
    values = (terms, (), ((7, ()),), terms[4:])
    program = ExtentProgram(bounds=((0, 5000),), divisions=(), guards=(), values=values)
    evaluation = ExtentEvaluation(program)
    for length in (0, 1, 2, 17, 100, 150, 5000):
        expected = [sum(factor * length ** len(atoms) for factor, atoms in value) for value in values]
        found = evaluation.evaluate([length])
        if max(abs(factor) * length ** len(atoms) for factor, atoms in terms) < 1 << 55:
            assert found is not None
        assert found is None or found.tolist() == expected
