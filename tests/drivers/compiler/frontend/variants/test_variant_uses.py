"""Variants that are used often are improved once, and functions of a replaced variant end."""

import gc
import weakref

import pytest

from neurald.drivers.compiler.frontend.variants.variant_uses import FREQUENT_USES, VariantUses, improving
from neurald.hal.execution import background_worker
from neurald.hal.execution.background_worker import SubmittedWork
from neurald.hal.sync.interpreter_turns import turns


class _Variant:
    """Counts how often it is improved, and refuses that at first."""

    def __init__(self, refusals: int = 0) -> None:
        self._calls = 0
        self.work = SubmittedWork()
        self._refusals = refusals

    def count(self) -> int:
        """Returns how often it was to be improved."""
        return self._calls

    def improve(self) -> SubmittedWork | None:
        self._calls += 1
        return None if self._calls <= self._refusals else self.work


def use_often(uses: VariantUses) -> None:
    for _ in range(FREQUENT_USES):
        uses.add()
        uses.give_way()


def test_a_frequent_variant_is_improved_once() -> None:
    variant = _Variant(refusals=1)
    uses = VariantUses(variant.improve)
    for _ in range(FREQUENT_USES - 1):
        uses.add()
    assert variant.count() == 0
    uses.add()
    assert variant.count() == 1
    # Since there was too much to do, it is tried again later.
    for _ in range(10):
        use_often(uses)
    assert variant.count() == 2


def test_functions_count_and_end_with_their_variant() -> None:
    variant = _Variant()
    uses = VariantUses(variant.improve)
    call = uses.counted_call(lambda one, other: one + other if one >= 0 else None)
    # A call that is refused is none.
    assert all(call(-1, 1) is None for _ in range(2 * FREQUENT_USES))
    assert variant.count() == 0
    assert [call(number, 1) for number in range(FREQUENT_USES)] == list(range(1, FREQUENT_USES + 1))
    assert variant.count() == 1
    uses.is_over = True
    assert call(1, 1) is None


def test_a_variant_that_is_replaced_anyway_only_ends() -> None:
    variant = _Variant()
    uses = VariantUses(variant.improve, variant.work)
    use_often(uses)
    use_often(uses)
    assert variant.count() == 0
    assert not uses.is_over


def test_uses_give_way_until_the_work_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float | None] = []
    monkeypatch.setattr(turns, "give_way", given.append)
    variant = _Variant()
    uses = VariantUses(variant.improve)
    uses.give_way(1.0)
    assert not given
    for _ in range(FREQUENT_USES):
        uses.add()
    uses.give_way(2.0)
    assert uses.counted_call(lambda: True)()
    assert given == [2.0, None]
    variant.work.end()
    uses.give_way(3.0)
    use_often(uses)
    assert given == [2.0, None]
    assert variant.count() == 1


def test_work_that_a_fork_has_lost_is_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    variant = _Variant()
    uses = VariantUses(variant.improve)
    use_often(uses)
    monkeypatch.setattr(background_worker, "_process", [0])
    uses.give_way()
    monkeypatch.undo()
    use_often(uses)
    assert variant.count() == 1
    for _ in range(3):
        use_often(uses)
    assert variant.count() == 2


def test_work_that_lacked_a_resource_is_tried_less_and_less_often() -> None:
    variant = _Variant()
    uses = VariantUses(variant.improve)
    variant.work.end(lacked=True)
    for _ in range(100):
        use_often(uses)
    # After 1, 4, 16 and 64 times as many uses as are frequent.
    assert variant.count() == 4


def test_functions_do_not_keep_what_they_improve_alive() -> None:
    class Owner:
        def improve(self, key: int) -> SubmittedWork | None:
            assert key == 3
            return SubmittedWork()

    owner = Owner()
    improve = improving(weakref.WeakMethod(owner.improve), 3)
    assert improve() is not None
    del owner
    gc.collect()
    assert improve() is None
