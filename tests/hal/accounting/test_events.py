"""Events are counted and logged, each in one call."""

import ast
import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import neurald as nd
from neurald.hal.accounting import events
from neurald.hal.accounting.events import MAX_REASONS, CountedEvent, event_counts, event_of, note_event
from neurald.hal.accounting.exposition import Metric, Sample, exposition
from neurald.hal.errors import BadData, MissedDeadlineTransient, ResourceExhaustedTransient

_ROOT = Path(__file__).parents[3]
_LOGGER = logging.getLogger(__name__)


@pytest.fixture(autouse=True)
def no_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_counts", Counter())


def calls_of_note_event() -> Iterator[tuple[str, ast.Call]]:
    for package in ("hal", "runtime", "service"):
        for path in (_ROOT / package).rglob("*.py"):
            text = path.read_text()
            if "note_event(" in text and path.name != "events.py":
                for node in ast.walk(ast.parse(text)):
                    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "note_event":
                        yield str(path.relative_to(_ROOT)), node


def test_every_event_has_a_metric_a_line_of_the_log_and_a_description() -> None:
    noted = set()
    for path, call in calls_of_note_event():
        event, _, log = map(ast.unparse, call.args[:3])
        noted.add(event.removeprefix("CountedEvent."))
        level = log.removeprefix("partial(").partition(",")[0].rpartition(".")[2]
        assert level in ("info", "warning", "error", "_log"), f"{path}: {log}"
    # The failure log notes the event that an error stands for.
    assert noted == {"event", *CountedEvent.__members__}
    described = (_ROOT / "docs" / "reference" / "operating.md").read_text()
    for event in CountedEvent:
        assert f"| `{event}` |" in described
        assert f"{event.name}: " in (CountedEvent.__doc__ or "")


def test_events_are_counted_by_reason_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        note_event(CountedEvent.FALLBACK, "gpu", _LOGGER.warning, "%s failed", "gpu")
    note_event(CountedEvent.HANG, "", _LOGGER.error, "it hangs")
    assert caplog.messages == ["gpu failed", "gpu failed", "it hangs"]
    assert event_counts() == {(CountedEvent.FALLBACK, "gpu"): 2, (CountedEvent.HANG, ""): 1}
    assert 'neurald_events_total{event="fallback",reason="gpu"} 2' in nd.metrics()


def test_reasons_are_bounded() -> None:
    for number in range(MAX_REASONS + 10):
        reason = f"reason {number}" + "x" * 1000
        note_event(CountedEvent.CACHE_MISS, reason, _LOGGER.debug, "missed")
    note_event(CountedEvent.FALLBACK, "gpu", _LOGGER.debug, "failed")
    counts = event_counts()
    assert counts[CountedEvent.CACHE_MISS, "other"] == 10
    assert counts[CountedEvent.FALLBACK, "gpu"] == 1
    assert max(len(reason) for _, reason in counts) == 80


def test_errors_of_daemons() -> None:
    assert event_of(MissedDeadlineTransient("late")) is CountedEvent.DEADLINE
    assert event_of(ResourceExhaustedTransient("full")) is CountedEvent.REFUSAL
    assert event_of(BadData("wrong")) is None


def test_labels_are_escaped() -> None:
    metric = Metric(name="a_total", kind="counter", description="b", samples=[Sample({"x": 'a"\\\n'}, 0.5)])
    assert exposition([metric]) == '# HELP a_total b\n# TYPE a_total counter\na_total{x="a\\"\\\\\\n"} 0.5\n'
    assert exposition([Metric(name="n", kind="gauge", description="b", samples=[Sample({}, 2.0)])]).endswith(
        "\nn 2\n"
    )
