"""The arena of a plan: values that are alive at the same time never overlap, and sharing never
costs memory.
"""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from neurald.hal.memory.alignment import ALIGNMENT
from neurald.hal.memory.arena_planner import Lifespan
from neurald.runtime.plan.arena import plan_arena


def overlapping(spans: list[Lifespan], offsets: dict[int, int]) -> list[tuple[int, int]]:
    """Returns pairs of temporaries that are alive at the same time and share bytes."""
    return [
        (a.value, b.value)
        for n, a in enumerate(spans)
        for b in spans[:n]
        if a.first <= b.last
        and b.first <= a.last
        and offsets[a.value] < offsets[b.value] + b.size_bytes
        and offsets[b.value] < offsets[a.value] + a.size_bytes
    ]


lifespans = st.lists(
    st.tuples(st.integers(1, 5000), st.integers(0, 30), st.integers(0, 30)), max_size=40
).map(
    lambda rows: [
        Lifespan(value=n, size_bytes=size, first=min(a, b), last=max(a, b))
        for n, (size, a, b) in enumerate(rows)
    ]
)


@settings(max_examples=200)
@given(lifespans)
def test_no_two_that_live_at_once_overlap(spans: list[Lifespan]) -> None:
    plan = plan_arena(spans)
    offsets = dict(plan.offsets)
    assert sorted(offsets) == [span.value for span in spans]
    assert not overlapping(spans, offsets)
    assert all(offset % ALIGNMENT == 0 for offset in offsets.values())
    assert all(offsets[span.value] + span.size_bytes <= plan.size_bytes for span in spans)
    assert plan.size_bytes <= plan.unshared_bytes


def test_a_chain_takes_as_much_as_its_largest_pair() -> None:
    spans = [Lifespan(value=n, size_bytes=6400, first=n, last=n + 1) for n in range(20)]
    plan = plan_arena(spans)
    assert plan.size_bytes == 2 * 6400
    assert plan.unshared_bytes == 20 * 6400


def test_the_same_temporaries_are_always_placed_alike() -> None:
    generator = random.Random(1)
    spans = [
        Lifespan(value=n, size_bytes=generator.choice((64, 128)), first=generator.randrange(5), last=6)
        for n in range(20)
    ]
    shuffled = generator.sample(spans, k=len(spans))
    assert plan_arena(spans) == plan_arena(shuffled)


def test_nothing_takes_nothing() -> None:
    assert plan_arena([]).size_bytes == 0
