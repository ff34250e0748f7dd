"""Variants that are used often are improved once, and functions of a replaced variant end."""

from neurald.drivers.compiler.frontend.variants.variant_uses import FREQUENT_USES, VariantUses


def test_a_frequent_variant_is_improved_once() -> None:
    calls: list[int] = []

    def improve() -> bool:
        calls.append(len(calls))
        return len(calls) == 2

    uses = VariantUses(improve)
    for _ in range(FREQUENT_USES - 1):
        uses.add()
    assert not calls
    uses.add()
    assert len(calls) == 1
    # Since there was too much to do, it is tried again later.
    for _ in range(10 * FREQUENT_USES):
        uses.add()
    assert len(calls) == 2


def test_functions_count_and_end_with_their_variant() -> None:
    calls: list[int] = []

    def improve() -> bool:
        calls.append(1)
        return True

    uses = VariantUses(improve)
    call = uses.counted_call(lambda one, other: one + other if one >= 0 else None)
    # A call that is refused is none.
    assert all(call(-1, 1) is None for _ in range(2 * FREQUENT_USES))
    assert not calls
    assert [call(number, 1) for number in range(FREQUENT_USES)] == list(range(1, FREQUENT_USES + 1))
    assert calls == [1]
    uses.is_over = True
    assert call(1, 1) is None


def test_a_variant_that_is_replaced_anyway_only_ends() -> None:
    uses = VariantUses(None)
    for _ in range(2 * FREQUENT_USES):
        uses.add()
    assert not uses.is_over
