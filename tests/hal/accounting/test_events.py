from collections import Counter

import pytest

import neurald as nd
from neurald.hal.accounting import events
from neurald.hal.accounting.events import MAX_REASONS, CountedEvent, count_event, count_failure, event_counts
from neurald.hal.accounting.exposition import Metric, Sample, exposition
from neurald.hal.errors import BadData, MissedDeadlineTransient, ResourceExhaustedTransient


@pytest.fixture(autouse=True)
def no_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_counts", Counter())


def test_events_are_counted_by_reason() -> None:
    count_event(CountedEvent.FALLBACK, "gpu")
    count_event(CountedEvent.FALLBACK, "gpu")
    count_event(CountedEvent.HANG)
    assert event_counts() == {(CountedEvent.FALLBACK, "gpu"): 2, (CountedEvent.HANG, ""): 1}
    assert 'neurald_events_total{event="fallback",reason="gpu"} 2' in nd.metrics()


def test_reasons_are_bounded() -> None:
    for number in range(MAX_REASONS + 10):
        count_event(CountedEvent.CACHE_MISS, f"reason {number}" + "x" * 1000)
    count_event(CountedEvent.FALLBACK, "gpu")
    counts = event_counts()
    assert counts[CountedEvent.CACHE_MISS, "other"] == 10
    assert counts[CountedEvent.FALLBACK, "gpu"] == 1
    assert max(len(reason) for _, reason in counts) == 80


def test_errors_of_daemons() -> None:
    assert count_failure(MissedDeadlineTransient("late")) is CountedEvent.DEADLINE
    assert count_failure(ResourceExhaustedTransient("full")) is CountedEvent.REFUSAL
    assert count_failure(BadData("wrong")) is None
    assert event_counts() == {
        (CountedEvent.DEADLINE, "MissedDeadlineTransient"): 1,
        (CountedEvent.REFUSAL, "ResourceExhaustedTransient"): 1,
    }


def test_labels_are_escaped() -> None:
    metric = Metric(name="a_total", kind="counter", description="b", samples=[Sample({"x": 'a"\\\n'}, 0.5)])
    assert exposition([metric]) == '# HELP a_total b\n# TYPE a_total counter\na_total{x="a\\"\\\\\\n"} 0.5\n'
    assert exposition([Metric(name="n", kind="gauge", description="b", samples=[Sample({}, 2.0)])]).endswith(
        "\nn 2\n"
    )
