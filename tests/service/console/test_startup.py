"""The bar of preparations that take long."""

import pytest

import neurald as nd
from neurald.service.console.startup import preparing

pytestmark = pytest.mark.quick


def progress(step: int, share: float) -> nd.StepProgress:
    return nd.StepProgress(step=step, steps=2, device="gpu", share=share, elapsed_s=2.0)


def test_nothing_is_shown_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with preparing("model", quiet=False) as bar:
        bar.step(progress(0, 0.5))
    assert capsys.readouterr() == ("", "")


def test_steps_have_bars_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with preparing("model", quiet=False) as bar:
        bar.step(progress(0, 0.5))
        bar.step(progress(1, 0.25))
    bar.step(progress(1, 0.75))
    shown = capsys.readouterr().err
    assert "step 1 of 2 on gpu" in shown
    assert "50%" in shown
    assert "step 2 of 2 on gpu" in shown
    assert "75%" not in shown
