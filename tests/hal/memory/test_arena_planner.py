"""All strategies of the arena planner: live values never overlap, and sharing never costs."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from support.sweeps import sweep

from neurald.hal.memory.arena_planner import Lifespan, Strategy, plan_memory

LIFESPANS = st.lists(
    st.tuples(st.integers(0, 5000), st.integers(0, 80), st.integers(0, 80)), max_size=40
).map(
    lambda rows: [
        Lifespan(value=n, size_bytes=size, first=min(a, b), last=max(a, b))
        for n, (size, a, b) in enumerate(rows)
    ]
)


def assert_apart(spans: list[Lifespan], offsets: dict[int, int]) -> None:
    for number, span in enumerate(spans):
        begin, end = offsets[span.value], offsets[span.value] + span.size_bytes
        for other in spans[:number]:
            apart = end <= offsets[other.value] or offsets[other.value] + other.size_bytes <= begin
            meets = span.first <= other.last and other.first <= span.last
            assert apart or not meets or not span.size_bytes or not other.size_bytes


@settings(max_examples=200)
@given(LIFESPANS, st.sampled_from((1, 4, 64, 128)))
def test_no_two_that_live_at_once_overlap(spans: list[Lifespan], alignment: int) -> None:
    plan = plan_memory(spans, alignment=alignment)
    assert sorted(plan.offsets) == [span.value for span in spans]
    assert_apart(spans, dict(plan.offsets))
    assert all(offset % alignment == 0 for offset in plan.offsets.values())
    assert all(plan.offsets[span.value] + span.size_bytes <= plan.size_bytes for span in spans)


@settings(max_examples=200)
@given(LIFESPANS)
def test_the_best_is_taken(spans: list[Lifespan]) -> None:
    plan = plan_memory(spans, alignment=64)
    assert set(plan.sizes_bytes) == set(Strategy)
    assert plan.size_bytes == plan.sizes_bytes[plan.strategy] == min(plan.sizes_bytes.values())
    assert all(size <= plan.unshared_bytes for size in plan.sizes_bytes.values())
    assert plan.unshared_bytes == plan.sizes_bytes[Strategy.NAIVE]
    alive = [sum(s.size_bytes for s in spans if s.first <= at <= s.last) for at in range(31)]
    assert plan.size_bytes >= max(alive)


def test_the_order_of_lifespans_does_not_matter() -> None:
    generator = random.Random(2)
    spans = []
    for number in range(30):
        first = generator.randrange(10)
        size = generator.choice((64, 100, 4000))
        last = first + generator.randrange(5)
        spans.append(Lifespan(value=number, size_bytes=size, first=first, last=last))
    shuffled = generator.sample(spans, k=len(spans))
    assert plan_memory(spans, alignment=64) == plan_memory(shuffled, alignment=64)


@sweep(
    ("strategy", "rows"),
    [
        (Strategy.SIZE, ((4, 0, 1), (4, 1, 2), (4, 2, 3))),
        (Strategy.FIRST_USE, ((2, 2, 3), (4, 0, 1), (2, 1, 2), (3, 3, 5))),
        (Strategy.BREADTH, ((3, 0, 2), (2, 1, 3), (3, 2, 4), (4, 0, 0))),
    ],
)
def test_each_strategy_is_the_best_of_some(
    strategy: Strategy, rows: tuple[tuple[int, int, int], ...]
) -> None:
    spans = [
        Lifespan(value=number, size_bytes=size, first=first, last=last)
        for number, (size, first, last) in enumerate(rows)
    ]
    plan = plan_memory(spans, alignment=1)
    assert plan.strategy is strategy
    assert plan.size_bytes < plan.unshared_bytes


def test_alignment_is_part_of_a_size() -> None:
    spans = [Lifespan(value=n, size_bytes=1, first=0, last=0) for n in range(3)]
    assert plan_memory(spans, alignment=256).size_bytes == 3 * 256
    assert plan_memory(spans, alignment=1).size_bytes == 3


def test_nothing_takes_nothing() -> None:
    plan = plan_memory([], alignment=64)
    assert (plan.size_bytes, plan.unshared_bytes, dict(plan.offsets)) == (0, 0, {})


@sweep("strategy", [Strategy.SIZE, Strategy.FIRST_USE, Strategy.BREADTH])
def test_values_that_live_long_share_with_those_that_they_never_meet(strategy: Strategy) -> None:
    """Values that are alive at many positions are compared with others one by one."""
    long = [Lifespan(value=n, size_bytes=4, first=50 * n, last=50 * n + 49) for n in range(3)]
    short = [Lifespan(value=3 + n, size_bytes=5, first=50 * n, last=50 * n + 1) for n in range(3)]
    plan = plan_memory(long, alignment=1, strategies=[strategy])
    assert plan.size_bytes == 4
    plan = plan_memory([*long, *short], alignment=1, strategies=[strategy])
    assert_apart([*long, *short], dict(plan.offsets))
    assert plan.size_bytes == 9
    later = Lifespan(value=9, size_bytes=5, first=60, last=61)
    assert plan_memory([long[0], later], alignment=1, strategies=[strategy]).size_bytes == 5
