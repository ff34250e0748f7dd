"""Programs store each number once, and refuse what is not valid."""

from typing import Any

import msgspec
import pytest

from neurald.drivers.compiler.ir.extents.extent import excess
from neurald.drivers.compiler.ir.extents.scope import ExtentScope
from neurald.drivers.compiler.memory.extent_program import (
    Condition,
    Division,
    ExtentProgram,
    ProgramBuilder,
)
from neurald.hal.errors import BadData

pytestmark = pytest.mark.quick


def test_equal_numbers_are_stored_once() -> None:
    builder = ProgramBuilder(scope := ExtentScope([37]))
    length = scope.symbols[0]
    assert builder.number(length * 2) == builder.number(length + length)
    assert builder.number(3) == builder.number(3)
    assert len(builder.result().values) == 2


def test_a_builder_returns_no_program_that_a_cache_would_refuse() -> None:
    builder = ProgramBuilder(scope := ExtentScope([37]))
    builder.number(scope.symbols[0] + (1 << 70))
    with pytest.raises(BadData, match="is too large"):
        builder.result()


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
        {"divisions": (Division(4, ((1, (0,)),), ((2, ()),)),)},
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


def test_upper_bounds_of_the_smaller_one_of_two_numbers() -> None:
    """Else the scores of an attention to a window would get memory for those of all positions."""
    builder = ProgramBuilder(scope := ExtentScope([100, 90]))
    one, other = scope.symbols
    window = one - excess(one - 16)
    numbers = [one * window, other * window, window, excess(16 - one), one + excess(other - one)]
    places = [builder.number(each) for each in numbers]
    found = builder.result().largest([50, 30])
    assert found is not None
    assert [found[each] for each in places] == [50 * 16, 30 * 16, 16, 16, 50]


def test_guards_on_lengths_that_are_known() -> None:
    """Guards that need an unknown length, or divide by an impossible number, permit every size."""
    scope = ExtentScope([37, 41])
    one, other = scope.symbols
    builder = ProgramBuilder(scope)
    assert one * one // 3 >= 12
    assert (one - 4) * 5 // (one * one - 9) >= 0
    assert one * other != 12
    program = builder.result()
    assert program.permits((7, 9))
    assert program.permits((7, None))
    assert not program.permits((5, 9))
    assert not program.permits((5, None))
    assert not program.permits((2, 6))
    assert program.permits((None, 6))
