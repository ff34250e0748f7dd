"""Variants that were used least recently are dropped, by number and by memory."""

from typing import Any

from neurald.drivers.compiler.frontend.variants.kept_variants import (
    MAX_COMPILED,
    MAX_OPEN,
    MAX_OPEN_BYTES,
    KeptVariants,
    OpenVariant,
)
from neurald.drivers.compiler.frontend.variants.variant_uses import VariantUses


class Fake:
    """Takes the place of a prepared model that is not executed."""


def prepared() -> Any:
    return Fake()


def rows(count: int) -> tuple[tuple[int, ...], ...]:
    return ((count, 3),)


def kept(variants: KeptVariants, among: range) -> list[int]:
    return [count for count in among if rows(count) in variants]


def test_few_variants_have_code_of_their_own() -> None:
    variants = KeptVariants()
    for count in range(20):
        variants.keep(rows(count), prepared())
        variants.use(rows(0))
    assert kept(variants, range(20)) == [0, *range(21 - MAX_COMPILED, 20)]


def test_a_variant_that_was_compiled_in_place_of_another_one_is_not_dropped_at_once() -> None:
    variants = KeptVariants()
    variants.keep(rows(0), OpenVariant(prepared()))
    for count in range(1, MAX_COMPILED + 1):
        variants.keep(rows(count), prepared())
    variants.keep(rows(0), prepared())
    assert kept(variants, range(MAX_COMPILED + 1)) == [0, *range(2, MAX_COMPILED + 1)]


def test_variants_that_share_code_are_dropped_by_number_and_apart_from_others() -> None:
    variants = KeptVariants()
    variants.keep(rows(0), prepared())
    for count in range(1, MAX_OPEN + 11):
        variants.keep(rows(count), OpenVariant(prepared(), lambda: 0))
    assert kept(variants, range(MAX_OPEN + 11)) == [0, *range(11, MAX_OPEN + 11)]


def test_variants_that_share_code_are_dropped_by_memory_of_their_own() -> None:
    variants, own_bytes = KeptVariants(), [0] * 97
    for count in range(1, 81):
        variants.keep(rows(count), OpenVariant(prepared(), lambda count=count: own_bytes[count]))  # type: ignore[misc]
    assert kept(variants, range(81)) == list(range(1, 81))
    # Some get memory as they are used; those without any stay.
    own_bytes[:60:2] = [MAX_OPEN_BYTES // 16] * 30
    for count in range(81, 97):
        variants.keep(rows(count), OpenVariant(prepared()))
    assert kept(variants, range(0, 97, 2)) == [*range(28, 97, 2)]
    assert kept(variants, range(1, 97, 2)) == [*range(1, 97, 2)]


def test_uses_end_with_the_variant() -> None:
    variants, counted = KeptVariants(), [VariantUses(lambda: None) for _ in range(3)]
    for count, uses in enumerate(counted):
        variants.keep(rows(count), OpenVariant(prepared()), uses)
    variants.keep(rows(0), prepared())
    variants.end_uses(rows(1))
    assert [uses.is_over for uses in counted] == [True, True, False]
    assert variants.get(rows(1))[0] is not None
    last = variants.get(rows(2))[0]
    assert variants.latest() is last
    assert variants.drop(rows(2)) is last
    assert variants.get(rows(2)) == (None, None)
