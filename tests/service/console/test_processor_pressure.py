"""The share of time in which programs waited for a processor."""

from pathlib import Path

import pytest

from neurald.service.console import processor_pressure
from neurald.service.console.processor_pressure import ProcessorPressure


class _Clock:
    """Stands for the module `time`."""

    now_s = 10.0

    def monotonic(self) -> float:
        return self.now_s


def test_the_share_since_the_beginning_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "cpu"
    clock = _Clock()
    monkeypatch.setattr(processor_pressure, "_PRESSURE", file)
    monkeypatch.setattr(processor_pressure, "time", clock)
    rest = "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
    file.write_text(f"some avg10=9.00 avg60=9.00 avg300=9.00 total=7000000\n{rest}")
    pressure = ProcessorPressure()
    file.write_text(f"some avg10=9.00 avg60=9.00 avg300=9.00 total=8000000\n{rest}")
    clock.now_s += 4.0
    assert pressure.share() == pytest.approx(0.25)


@pytest.mark.parametrize("content", [None, "", "full total=3\n", "some total=many\n"])
def test_a_system_that_does_not_tell(
    content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cpu"
    if content is not None:
        file.write_text(content)
    monkeypatch.setattr(processor_pressure, "_PRESSURE", file)
    assert ProcessorPressure().share() is None
