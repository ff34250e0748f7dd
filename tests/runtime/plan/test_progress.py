"""The application hears of preparations that take long, and only of these."""

import time

import pytest
from support.models.small import add_model
from support.process.threads import refuse_threads
from support.waiting import wait_until

import neurald as nd
from neurald.hal.errors import BadData
from neurald.runtime.plan import progress
from neurald.runtime.plan.progress import ProgressMonitor


@pytest.fixture
def monitored(monkeypatch: pytest.MonkeyPatch) -> list[nd.StepProgress]:
    """Shortens the times; the list is for the calls."""
    monkeypatch.setattr(progress, "_LONG_S", 0.05)
    monkeypatch.setattr(progress, "_INTERVAL_S", 0.01)
    return []


def wait_for(heard: list[nd.StepProgress], count: int) -> None:
    end_s = time.monotonic() + 10
    while len(heard) < count and time.monotonic() < end_s:
        time.sleep(0.005)


def test_long_preparations_are_shown_until_their_end(monitored: list[nd.StepProgress]) -> None:
    monitor = ProgressMonitor(monitored.append)
    for _ in range(2):  # The thread ends in between.
        monitored.clear()
        with monitor.of_step(1, 3, "gpu") as reached:
            reached(0.5)
            reached(0.25)
            wait_until(lambda: len(monitored) >= 2 and monitored[-1].share)
        first, *_, last = monitored
        assert (first.step, first.steps, first.device) == (1, 3, "gpu")
        # On a busy machine, the first call may come before any progress.
        shares = [each.share for each in monitored if each.share]
        assert set(shares) == {0.5, 1.0}
        assert shares == sorted(shares)
        assert last.share == 1.0
        assert 0.05 <= first.elapsed_s <= last.elapsed_s
        time.sleep(0.05)


def test_short_preparations_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_INTERVAL_S", 0.001)
    heard: list[nd.StepProgress] = []
    with ProgressMonitor(heard.append).of_step(0, 1, "cpu") as reached:
        reached(0.5)
        time.sleep(0.02)
    assert heard == []


def test_without_a_thread_nothing_is_shown(
    monitored: list[nd.StepProgress], monkeypatch: pytest.MonkeyPatch
) -> None:
    monitor = ProgressMonitor(monitored.append)
    with monkeypatch.context() as refused:
        refuse_threads(refused)
        with monitor.of_step(0, 1, "cpu"):
            time.sleep(0.1)
    assert monitored == []
    with monitor.of_step(0, 1, "cpu"):
        wait_for(monitored, 1)
    assert monitored


def test_a_callback_that_fails_changes_nothing(
    monitored: list[nd.StepProgress], caplog: pytest.LogCaptureFixture
) -> None:
    def fail(found: nd.StepProgress) -> None:
        monitored.append(found)
        raise ValueError("no screen")

    with ProgressMonitor(fail).of_step(0, 1, "cpu"):
        wait_for(monitored, 2)
    assert len(monitored) >= 2
    assert "ValueError: no screen" in caplog.text


def test_compilations_report_their_progress(
    monitored: list[nd.StepProgress], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first compilation of a shape takes long enough at these times."""
    builder = nd.CompilationBuilder(add_model((7, 5), operations=40), [nd.devices()[0]])
    builder.set_caching(None)
    monkeypatch.setattr(progress, "_LONG_S", 0.0)
    monkeypatch.setattr(progress, "_INTERVAL_S", 0.001)
    builder.set_progress_callback(monitored.append)
    builder.finish()
    assert monitored
    assert {(each.step, each.steps, each.device) for each in monitored} == {(0, 1, "cpu")}
    assert monitored[-1].share == 1.0


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(BadData, match="a function is expected"):
        nd.CompilationBuilder(add_model()).set_progress_callback(3)  # type: ignore[arg-type]
