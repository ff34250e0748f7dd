"""A short run of `tests/faults/run.py --plans`."""

import json
from pathlib import Path

import pytest
from faults.plans import calls as playing
from faults.plans.calls import Calls
from faults.plans.driver import counts_of
from faults.plans.play import main, play, too_late

from neurald.hal.records import replace
from neurald.runtime.execution.measurement.receipt import DeviceCall, StepReceipt

#: Factor of the limit of time, since other tests keep the machine busy.
_SLACK = 20.0


@pytest.mark.timed
@pytest.mark.slow
def test_plans_are_right_while_drivers_are_killed() -> None:
    report = play(6.0)
    assert not report.wrong
    assert report.faults
    assert set(report.calls) >= {
        *("receipts", "stream", "verified", "drifting", "runs", "compiles", "limited: too late"),
        *("cancelled: in time", "tried", "lied"),
    }
    assert set(report.on_devices) > {"tanh@tanh", "logistic@logistic"}
    assert not too_late(report, _SLACK)
    longest_s = max(report.longest_s, report.longest_halted_s, report.longest_waiting_s)
    assert max(report.longest_of_s.values()) == longest_s


@pytest.mark.timed
@pytest.mark.slow
def test_receipts_agree_with_devices_that_are_killed() -> None:
    report = play(0.0, seed=2, receipts=600)
    assert not report.wrong
    assert report.faults
    assert set(report.calls) == {"receipts"}
    assert report.calls["receipts"] >= 600


def test_receipts_that_contradict_themselves_are_found(tmp_path: Path) -> None:
    right, failed = (
        DeviceCall(device="tanh", is_first_tier=False, duration_ns=1, error=each) for each in ("", "gone")
    )
    one = StepReceipt(
        step=0,
        device="tanh",
        driver_version="1",
        ran_on="tanh",
        tier="optimized",
        cache="miss",
        calls=(failed, right),
        durations=None,
    )
    whole = replace(one, step=-1, calls=(right,))
    lost = replace(one, ran_on="", calls=(failed,))
    for steps, is_right in (
        ([one], True),
        ([lost, whole], True),
        ([lost], False),
        ([replace(one, calls=(right, right))], False),
        ([replace(one, ran_on="cpu")], False),
        ([one, replace(whole, calls=(failed,))], False),
    ):
        calls = Calls(tmp_path, {})
        calls.check_receipt(steps)
        assert (not calls.report.wrong) is is_right


@pytest.mark.timed
@pytest.mark.slow
def test_what_receipts_do_not_tell_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def miscounted(folder: Path, device: str, rows: int) -> tuple[int, int]:
        begun, ended = counts_of(folder, device, rows)
        return begun + 1000, ended

    monkeypatch.setattr(playing, "counts_of", miscounted)
    assert main(0.1, 1, _SLACK, tmp_path / "report.json") == 1
    report = json.loads((tmp_path / "report.json").read_text())
    assert json.loads(capsys.readouterr().out) == report
    (tanh, logistic) = report["wrong"]
    assert "tanh@tanh: receipts tell" in tanh
    assert "logistic@logistic: receipts tell" in logistic
