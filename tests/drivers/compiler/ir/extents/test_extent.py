"""Extents compute, compare and are spelled like the numbers that they stand for at run time."""

import itertools
import operator
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from neurald.drivers.compiler.ir.expression import Apply, Linear, axis, maximum, minimum, sum_of
from neurald.drivers.compiler.ir.extents.arithmetic import common_divisor
from neurald.drivers.compiler.ir.extents.extent import (
    MAX_LENGTH,
    Extent,
    at_least,
    estimate,
    excess,
    highest,
    integer,
    is_always_at_least,
    is_equal,
    is_multiple,
    is_one,
    is_surely_at_least,
    is_zero,
    least,
    lowest,
    most,
    surely_lowest,
)
from neurald.drivers.compiler.ir.extents.scope import ExtentScope
from neurald.drivers.compiler.ir.extents.terms import AtomKind, Relation

pytestmark = pytest.mark.quick

Lengths = tuple[int, int]
Value = Callable[[Lengths], int]


def value(number: Any, lengths: Lengths) -> int:
    """Evaluates an extent without the compiler's program."""
    if not isinstance(number, Extent):
        return int(number)
    total = 0
    for product, factor in number.terms.items():
        for atom in product:
            if atom.kind is AtomKind.SYMBOL:
                factor *= lengths[atom.number]
                continue
            one, other = value(atom.dividend, lengths), value(atom.divisor, lengths)
            if atom.kind is AtomKind.EXCESS:
                factor *= max(0, one)
                continue
            factor *= one // other if atom.kind is AtomKind.QUOTIENT else one % other
        total += factor
    return total


def passes(scope: ExtentScope, lengths: Lengths) -> bool:
    """Returns True if all guards hold."""
    for symbol, length in enumerate(lengths):
        low, high = scope.bounds(symbol)
        if not low <= length <= high:
            return False
    for guard in scope.guards.values():
        try:
            found = value(guard.extent, lengths)
        except ZeroDivisionError:
            return False
        if (found < 0 if guard.relation is Relation.NEGATIVE else found == 0) is not guard.holds:
            return False
    return True


def lesser(one: Any, other: Any) -> Any:
    return one - excess(one - other)


OPERATIONS = (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, lesser)
COMPARISONS = (operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge)


@pytest.mark.parametrize("seed", range(40))
def test_arithmetic_and_comparisons_hold_for_all_lengths_that_pass_the_guards(seed: int) -> None:
    chosen = random.Random(seed)
    for _ in range(25):
        scope = ExtentScope([chosen.randint(2, 99), chosen.randint(2, 9)])
        first, second = scope.symbols
        numbers: list[tuple[Any, Value]] = [
            (first, operator.itemgetter(0)),
            (second, operator.itemgetter(1)),
        ]
        for _ in range(6):
            (one, of_one), (other, of_other) = chosen.choice(numbers), chosen.choice(numbers)
            if chosen.random() < 0.5:
                known = chosen.randint(1, 20)
                other, of_other = known, lambda _, known=known: known  # type: ignore[misc]
            operation = chosen.choice(OPERATIONS)
            if operation in (operator.floordiv, operator.mod) and not other > 0:
                continue

            def result(
                lengths: Lengths, operation: Any = operation, one: Value = of_one, other: Value = of_other
            ) -> int:
                return int(operation(one(lengths), other(lengths)))

            numbers.append((operation(one, other), result))
        compared = []
        for _ in range(3):
            (one, of_one), (other, of_other) = chosen.choice(numbers), chosen.choice(numbers)
            comparison = chosen.choice(COMPARISONS)
            compared.append((comparison(one, other), comparison, of_one, of_other))
        assert passes(scope, (first.hint, second.hint))
        for _ in range(20):
            lengths = chosen.randint(2, 99), chosen.randint(2, 9)
            if not passes(scope, lengths):
                continue
            for number, expected in numbers:
                assert value(number, lengths) == expected(lengths)
                if isinstance(number, Extent):
                    low, high = number.range()
                    assert low <= expected(lengths) <= high
            for found, comparison, of_one, of_other in compared:
                assert found == comparison(of_one(lengths), of_other(lengths))


def test_equal_extents_have_one_form() -> None:
    scope = ExtentScope([37])
    length = scope.symbols[0]
    assert length * 64 // 64 == length
    assert (length * 64) % 64 == 0
    assert (length * 64 - 1) // length == 63
    assert (length - 1) % length == length - 1
    assert (length - 1) // length == 0
    assert -(-length // 16) == (length + 15) // 16
    assert (length * 20 + 7) // 16 == length + (length + 1) // 4
    assert hash(length) != hash(37)
    assert hash(-(-length // 16)) == hash((length + 15) // 16)
    assert not scope.guards


def test_what_holds_for_all_lengths_is_no_guard() -> None:
    scope = ExtentScope([37])
    length = scope.symbols[0]
    assert length != 1
    assert length > 0
    assert length * 16 >= 32
    assert not length < length - 1
    assert length
    assert scope.bounds(0) == (2, MAX_LENGTH)
    assert not scope.guards


def test_guards_of_one_length_become_its_bounds() -> None:
    scope = ExtentScope([37])
    length = scope.symbols[0]
    assert length >= 16
    assert length * 4 < 1024
    assert scope.bounds(0) == (16, 255)
    # Decided by the bounds now.
    assert length > 8
    assert not scope.guards
    assert length.bit_length() == 6
    assert scope.bounds(0) == (32, 63)


@pytest.mark.parametrize("factor", [1, -1, 3, -3])
@pytest.mark.parametrize("compare", COMPARISONS)
def test_guards_of_a_quotient_become_bounds(compare: Callable[[Any, Any], bool], factor: int) -> None:
    """Shapes outside of them are known to need other code before it runs."""
    if compare in (operator.eq, operator.ne):
        pytest.skip("the quotient's value is no range of lengths")
    for limit in range(-20, 21, 5):
        scope = ExtentScope([37])
        (length,) = scope.symbols
        found = compare((2 * length + 3) // 7 * factor, limit)
        assert not scope.guards
        for each in range(2, 120):
            low, high = scope.bounds(0)
            assert (low <= each <= high) == (compare((2 * each + 3) // 7 * factor, limit) == found)


def test_a_quotient_that_is_not_the_least_of_its_range_exceeds_it() -> None:
    for sign in (1, -1):
        scope = ExtentScope([37])
        (length,) = scope.symbols
        assert sign * (length // 8) != 0
        assert not scope.guards
        assert scope.bounds(0) == (8, MAX_LENGTH)
        assert sign * (length // 8) != 3 * sign
        assert scope.guards


def test_a_number_that_python_or_numpy_needs_pins_the_extent() -> None:
    for use in (range, np.zeros, int, float, lambda length: [0] * length, lambda length: f"{length:d}"):
        scope = ExtentScope([37])
        use(scope.symbols[0])
        assert scope.bounds(0) == (37, 37)
        ((_, where),) = scope.pins
        assert "test_extent.py" in where or "numpy" in where


def test_estimates_pin_nothing() -> None:
    scope = ExtentScope([37])
    length = scope.symbols[0]
    scope.estimates = True
    assert length * 0.5 == 18.5
    assert 1 / length == 1 / 37
    assert length / 2 == 18.5
    assert estimate(length * 2) == 74
    assert estimate(5) == 5
    assert scope.bounds(0) == (2, MAX_LENGTH)


def test_numpy_scalars_are_integers() -> None:
    length = ExtentScope([37]).symbols[0]
    assert np.int64(3) * length is length * 3
    assert length + np.int32(1) is length + 1


def test_extents_of_another_compilation_are_others() -> None:
    one, other = ExtentScope([37]).symbols[0], ExtentScope([37]).symbols[0]
    assert one != other


def test_excessive_extents_are_pinned() -> None:
    scope = ExtentScope([37])
    number: Any = scope.symbols[0]
    for divisor in range(3, 60):
        number = number * number // divisor + number % divisor
        assert len(getattr(number, "key", "")) <= 1000
        if not isinstance(number, Extent):
            break
    assert scope.pins


def test_division_by_zero_is_refused() -> None:
    length = ExtentScope([37]).symbols[0]
    with pytest.raises(ZeroDivisionError):
        length // (length - length)


def test_short_and_excessive_lengths_are_not_open() -> None:
    for length in (0, 1, MAX_LENGTH + 1):
        with pytest.raises(ValueError, match="cannot be open"):
            ExtentScope([length])


def test_helpers() -> None:
    scope = ExtentScope([37])
    length = scope.symbols[0]
    assert not is_one(length)
    assert is_one(1)
    assert integer(length) is length
    assert integer(2.0) == 2
    assert common_divisor(length * 12, 18) == 6
    assert common_divisor(length, length) is length
    assert common_divisor(length * 3, length) == length
    assert common_divisor(length, length * 3) == length
    assert common_divisor(length + 1, length) == 1
    least = at_least(length, 14)
    for known in (2, 13, 14, 15, 1000):
        assert value(least, (known, 0)) == at_least(known, 14)


def test_lengths_cancel_in_bounds() -> None:
    """The padding of a strided window, and how far the last one is from the end of the image."""
    scope = ExtentScope([67])
    (size,) = scope.symbols
    for layer in range(3):
        for stride, kernel in ((2, 3), (2, 7), (3, 4), (4, 7)):
            positions = -(-size // stride)
            total = kernel - stride + (-size) % stride
            before = total // 2
            after = total - before
            distance = size - (positions - 1) * stride + before
            assert lowest(distance + after) == highest(distance + after) == kernel
            for number in (before, after):
                found = {value(number, (length, 0)) for length in range(2, 300)}
                assert (lowest(number), highest(number)) == (min(found), max(found)), (layer, stride)
        size = -(-size // 2)
    assert not scope.guards


@pytest.mark.parametrize("seed", range(30))
def test_bounds_hold_for_all_lengths(seed: int) -> None:
    chosen = random.Random(seed)
    scope = ExtentScope([chosen.randrange(2, 90), chosen.randrange(2, 90)])
    known: list[Any] = [*scope.symbols]
    for _ in range(12):
        one, other, number = chosen.choice(known), chosen.choice(known), chosen.randrange(1, 7)
        known.append(
            chosen.choice(
                (
                    one + other,
                    one - number * other,
                    one // number,
                    one % number,
                    (-one) % number,
                    one * number,
                    excess(one - other),
                    lesser(one, 20 * number),
                )
            )
        )
    for _ in range(60):
        lengths = chosen.randrange(2, 200), chosen.randrange(2, 200)
        for each in known:
            assert lowest(each) <= value(each, lengths) <= highest(each)


def test_is_equal() -> None:
    (size,) = ExtentScope([67]).symbols
    rest = size % 5
    for number in range(-1, 6):
        found = is_equal(rest, number)
        assert [value(found, (length, 0)) for length in range(2, 60)] == [
            int(length % 5 == number) for length in range(2, 60)
        ]
    assert is_equal(7, 7) == 1
    assert is_equal(7, 8) == 0
    assert sum(is_equal(rest, number) for number in range(5)) == 1


def test_bounds_of_products_of_many_lengths_fit_into_64_bits() -> None:
    one, two, three, four = ExtentScope([5, 7, 9, 11]).symbols
    lowest_one, highest_one = one - two * three * four, two * three * four - one
    assert -(2**62) < least(lowest_one, highest_one) < 0
    assert 0 < most(lowest_one, highest_one) < 2**62


def test_quotients_by_a_known_number_less_a_length() -> None:
    """Neither form of these has a term with a length that is not negative."""
    scope = ExtentScope(())
    length = scope.add_symbol(5, 0, 30)
    for known in (1, 8, 9, 33):
        up, rest, other = -(-known // (33 - length)), -known % (33 - length), (length - 20) // (33 - length)
        for number in range(31):
            assert value(up, (number, 0)) == -(-known // (33 - number))
            assert value(rest, (number, 0)) == -known % (33 - number)
            assert value(other, (number, 0)) == (number - 20) // (33 - number)


def test_text_is_a_name_and_the_same_in_every_process() -> None:
    scope = ExtentScope([37])
    length = scope.symbols[0]
    assert str(length * 4) == "%extent.b539b418009104a5"
    assert f"add i64 %v1, {length * 4}" == "add i64 %v1, %extent.b539b418009104a5"
    assert scope.named == {"%extent.b539b418009104a5": length * 4}


def test_nested_quotients_become_one() -> None:
    """As sizes are halved by several layers of a network."""
    (size,) = ExtentScope((67,)).symbols
    assert ((size + 1) // 2 + 1) // 2 is (size + 3) // 4
    assert (size // 3 - 2) // 5 is (size - 6) // 15
    assert not is_zero(size - 67)
    assert is_zero(size - size * 1)


def test_the_smaller_and_the_larger_one_of_two_lengths() -> None:
    """Checks forms such as the keys of a window, and paddings up to a length."""
    one, other = ExtentScope((67, 40)).symbols
    smaller = one - excess(one - other)
    assert smaller is other - excess(other - one)
    assert other + excess(one - other) is one + other - smaller
    assert excess(3 * one - 3 * other) is 3 * excess(one - other)
    assert lesser(one, 1) == 1
    assert excess(one + 5) is one + 5
    assert excess(-one) == 0
    window = one - excess(one - 16)
    assert (lowest(window), highest(window)) == (2, 16)
    assert (lowest(window * other - other), highest(one * other - excess(one - 16) * other)) == (
        2,
        16 * MAX_LENGTH,
    )
    assert (lowest(one + excess(16 - one)), highest(excess(16 - one))) == (16, 14)
    assert not one.scope.guards
    assert window >= 16
    assert one.scope.readable(window) == "-max(-16 + n0, 0) + n0"


def test_bounds_of_many_excesses_take_no_long_time() -> None:
    scope = ExtentScope(range(20, 60))
    total = sum(excess(each - 10) for each in scope.symbols[:8])
    assert lowest(total) == 0
    nested: Any = 0
    for each in scope.symbols:
        nested = excess(nested + each - 10)
        assert lowest(nested) == 0


def test_a_length_padded_to_a_multiple_is_one() -> None:
    """Models that divide images and sequences into blocks pad them so."""
    (size,) = ExtentScope((67,)).symbols
    for padding in ((8 - size % 8) % 8, -size % 8):
        assert is_multiple(size + padding, 8)
        assert (size + padding) * 24 // 192 is (size + 7) // 8
        assert (lowest(padding), highest(padding)) == (0, 7)
    assert not size.scope.guards


def test_ratios_of_one_length_have_close_bounds() -> None:
    scope = ExtentScope(())
    rows, blocks = scope.add_symbol(5, least=0), scope.add_symbol(9, 3, 40)
    assert (lowest(at_least(rows, 1)), highest(at_least(rows, 1))) == (0, 1)
    assert (lowest(at_least(rows, 3)), highest(at_least(rows, 3))) == (0, 1)
    assert (lowest(7 * blocks // (2 * blocks + 1)), highest(7 * blocks // (2 * blocks + 1))) == (3, 3)
    assert (lowest(90 // blocks), highest(90 // blocks)) == (2, 30)
    with scope.assuming(2):
        assert lowest(at_least(rows, 1)) == 1
        # It may be 0, so that this must be checked.
        assert at_least(rows, 1) == 1
    assert scope.guards


def test_remainders_of_remainders_end_whatever_bounds_were_found_meanwhile() -> None:
    scope = ExtentScope((67,))
    (size,) = scope.symbols
    inner = (size - 40) % 8
    assert size < 72
    assert size >= 64
    for offset in range(-9, 10):
        found = (offset - inner) % 8
        assert [value(found, (length, 0)) for length in range(64, 72)] == [
            (offset - (length - 40) % 8) % 8 for length in range(64, 72)
        ]


@pytest.mark.parametrize("least", [2, 8, 9, 12])
def test_an_assumption_does_not_decide_which_elements_exist(least: int) -> None:
    scope = ExtentScope(())
    rows = scope.add_symbol(5, least=0)
    elements = 3 * (1 + rows)
    with scope.assuming(2):
        assert lowest(elements) == 9
        assert surely_lowest(elements) == 3
        fills, is_three = at_least(elements, least), is_equal(elements, 3)
    for length in range(6):
        count = 3 * (1 + length)
        assert value(fills, (length, 0)) == (count >= least)
        assert value(is_three, (length, 0)) == (count == 3)


def test_what_is_too_long_to_be_kept_is_guarded_whatever_is_assumed() -> None:
    scope = ExtentScope(())
    one, two, three, four, five, six, seven, eight = (scope.add_symbol(5, least=0) for _ in range(8))
    elements = (one + two) * (2 + three + four) * (five + six) * (1 + seven + eight)
    with scope.assuming(2):
        assert at_least(elements, 64) == 1
    (guard,) = scope.guards.values()
    assert guard.relation is Relation.ZERO
    assert guard.holds


@pytest.mark.parametrize("seed", range(20))
def test_arithmetic_holds_for_lengths_that_are_shorter_than_assumed(seed: int) -> None:
    chosen = random.Random(seed)
    for _ in range(25):
        scope = ExtentScope(())
        symbols = [scope.add_symbol(7, 0, chosen.choice((8, 16, 32))) for _ in range(2)]
        numbers: list[tuple[Any, Value]] = [(each, operator.itemgetter(n)) for n, each in enumerate(symbols)]
        with scope.assuming(chosen.choice((1, 2, 8, 16))):
            for _ in range(6):
                (one, of_one), (other, of_other) = chosen.choice(numbers), chosen.choice(numbers)
                operation = chosen.choice(OPERATIONS)
                divides = operation in (operator.floordiv, operator.mod)
                if divides or chosen.random() < 0.5:
                    known = chosen.choice((1, 2, 3, 8, 16, 20, 32))
                    other, of_other = known, lambda _, known=known: known  # type: ignore[misc]
                    if not divides and chosen.random() < 0.5:
                        one, of_one, other, of_other = other, of_other, one, of_one

                def result(
                    lengths: Lengths, operation: Any = operation, one: Value = of_one, other: Value = of_other
                ) -> int:
                    return int(operation(one(lengths), other(lengths)))

                numbers.append((operation(one, other), result))
        few = (0, 1, 2, 3, 8, 16, 31, 32)
        for lengths in itertools.product(few, few):
            if passes(scope, lengths):
                for number, expected in numbers:
                    assert value(number, lengths) == expected(lengths)


def test_bounds_hold_for_lengths_that_are_shorter_than_assumed() -> None:
    """They decide which conditions around loads are left out."""
    scope = ExtentScope([9])
    length = scope.add_symbol(9, 0)
    with scope.assuming(2):
        assert surely_lowest(least(length, 2)) == 0
        assert highest(most(length, 2) - length) >= 1
        at = minimum(axis(8), length)
        assert isinstance(at < 1, Apply)
        assert not isinstance(maximum(sum_of({}, length), 2), Linear)


def test_a_length_is_surely_enough_or_guarded() -> None:
    scope = ExtentScope([9])
    length = scope.add_symbol(9, 0)
    with scope.assuming(2):
        assert is_surely_at_least(length + 2, 2)
        assert not scope.guards
        assert is_surely_at_least(length, 2)
        assert len(scope.guards) == 1
        assert not is_surely_at_least(1, 2)


def test_lengths_that_may_change_are_never_assumed_to_be_enough() -> None:
    """Others are, and then guarded, since there is other code for shorter ones."""
    scope = ExtentScope([40])
    changing = scope.add_symbol(40, 0)
    assert not is_always_at_least(changing, 16)
    assert is_always_at_least(changing + 16, 16)
    assert not scope.guards
    assert is_always_at_least(scope.symbols[0], 16)
    assert scope.bounds(0)[0] == 16
    assert is_always_at_least(16, 16)
    assert not is_always_at_least(15, 16)


def test_what_is_surely_a_multiple_needs_no_guard() -> None:
    scope = ExtentScope([8])
    (length,) = scope.symbols
    assert all(is_multiple(each, 4) for each in (12, length * 8, length * 4 - 8))
    assert not any(is_multiple(each, 4) for each in (13, length, length * 4 + 1))
    assert not scope.guards


def test_messages_have_lengths_as_sums_of_symbols() -> None:
    scope = ExtentScope([8, 9])
    rows, columns = scope.symbols
    for extent, text in (
        (rows, "n0"),
        (rows * 2 + 1, "1 + 2 * n0"),
        (rows * columns - 3, "-3 + n0 * n1"),
        (-rows, "-n0"),
        ((rows + 1) // 4 * columns, "((1 + n0) // 4) * n1"),
        (rows % columns, "(n0 % n1)"),
    ):
        for message in (f"axis of {extent} elements", f"axis of {extent!r} elements"):
            assert scope.readable(message) == f"axis of {text} elements"
    assert scope.readable(f"length {ExtentScope([7, 5]).symbols[1]!r}") == "length n1"
    assert scope.readable("%extent.00 and <extent 1*n7 of 0>") == "a length and a length"
    assert scope.readable(ValueError("8 elements")) == "8 elements"
