"""Programs compute extents from lengths, and refuse what they do not support."""

import random
from typing import Any

import msgspec
import pytest

from neurald.drivers.compiler.ir.extent import Extent
from neurald.drivers.compiler.ir.extent_scope import ExtentScope
from neurald.drivers.compiler.memory.extent_program import (
    Condition,
    Division,
    ExtentProgram,
    ProgramBuilder,
)
from neurald.hal.errors import BadData

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("seed", range(20))
def test_values_are_those_of_arithmetic(seed: int) -> None:
    chosen = random.Random(seed)
    scope = ExtentScope([chosen.randint(2, 99), chosen.randint(2, 9)])
    steps = [
        (chosen.randrange(2 + step), chosen.randrange(2 + step), chosen.randrange(5), chosen.randint(1, 30))
        for step in range(8)
    ]

    def computed(start: list[Any]) -> list[Any]:
        numbers = list(start)
        for first, second, operation, known in steps:
            one, other = numbers[first], numbers[second]
            numbers.append((one + other, one * known, one // known, one % known, one - other)[operation])
        return numbers

    numbers = computed(list(scope.symbols))
    builder = ProgramBuilder(scope)
    places = [builder.number(number) for number in numbers]
    program = builder.result()
    program.check()
    for _ in range(20):
        lengths = [chosen.randint(2, 200), chosen.randint(2, 50)]
        found = program.evaluate(lengths)
        assert found is not None
        assert [found[place] for place in places] == computed(lengths)
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(program), type=ExtentProgram)
    assert again == program


def test_equal_numbers_are_stored_once() -> None:
    builder = ProgramBuilder(scope := ExtentScope([37]))
    length = scope.symbols[0]
    assert builder.number(length * 2) == builder.number(length + length)
    assert builder.number(3) == builder.number(3)
    assert len(builder.result().values) == 2


def test_lengths_outside_the_guards_are_refused() -> None:
    scope = ExtentScope([37])
    length = scope.symbols[0]
    assert length >= 10
    assert length % 4 == 1
    assert length // 3 % 5 != 1
    builder = ProgramBuilder(scope)
    builder.number(length)
    program = builder.result()
    for known in range(2, 200):
        expected = known >= 10 and known % 4 == 1 and known // 3 % 5 != 1
        assert (program.evaluate([known]) == [known]) is expected


def test_a_divisor_that_is_not_positive_is_refused() -> None:
    scope = ExtentScope([37])
    length = scope.symbols[0]
    quotient = (length * length) // (length - 7)
    assert isinstance(quotient, Extent)
    builder = ProgramBuilder(scope)
    builder.number(quotient)
    program = msgspec.structs.replace(builder.result(), bounds=((2, 100),))
    assert program.evaluate([7]) is None
    assert program.evaluate([8]) == [64]


def test_numbers_that_are_too_large_are_refused() -> None:
    power: tuple[tuple[int, tuple[int, ...]], ...] = ((1, (0,) * 8),)
    for change in (
        {"values": (power,)},
        {"divisions": tuple(Division(1, ((1, (n,) * 8),), ((1, ()),)) for n in range(100))},
    ):
        program = ExtentProgram(bounds=((2, 1 << 31),), divisions=(), guards=(), values=())
        program = msgspec.structs.replace(program, **change)
        program.check()
        assert program.evaluate([1 << 20]) is None


@pytest.mark.parametrize(
    "change",
    [
        {"bounds": ((-1, 5),)},
        {"bounds": ((6, 5),)},
        {"values": (((1, (1,)),),)},
        {"values": (((1, (-1,)),),)},
        {"values": (((1, (0,) * 9),),)},
        {"values": (((1 << 63, (0,)),),)},
        {"values": (((1, ()),) * 65,)},
        {"divisions": (Division(3, ((1, (0,)),), ((2, ()),)),)},
        {"divisions": (Division(1, ((1, (1,)),), ((2, ()),)),)},
        {"divisions": (Division(1, ((1, (0,)),), ((2, (1,)),)),)},
        {"divisions": (Division(1, ((1, (0,)),), ((2, ()),)),) * 10_000},
        {"guards": (Condition(((1, (0,)),), 2, True),)},
        {"guards": (Condition(((1, (5,)),), 0, True),)},
    ],
)
def test_hostile_programs_are_refused(change: dict[str, Any]) -> None:
    program = ExtentProgram(bounds=((2, 5),), divisions=(), guards=(), values=(((1, (0,)),),))
    program.check()
    with pytest.raises(BadData):
        msgspec.structs.replace(program, **change).check()
