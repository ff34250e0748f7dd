"""Usage of processes, according to a folder like /proc and to the real one."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from neurald.service.console import process_usage
from neurald.service.console.process_usage import UsageMeter


class Kernel:
    """A folder like /proc."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "uptime").write_text("1000.00 1900.00\n")

    def has(
        self, process: int, used_s: float, pages: int, children: str = "", started_s: float = 990
    ) -> None:
        ticks = int(used_s * process_usage._TICKS_PER_S)
        folder = self._folder / str(process)
        (folder / "task" / str(process)).mkdir(parents=True, exist_ok=True)
        (folder / "task" / str(process) / "children").write_text(children)
        fields = ["S", *["0"] * 10, str(ticks - 3), "1", "1", "1", *["0"] * 4]
        fields += [str(int(started_s * process_usage._TICKS_PER_S)), "0", str(pages)]
        (folder / "stat").write_text(f"{process} (a) name) " + " ".join(fields))


def test_a_family_counts_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, meter, now = Kernel(tmp_path), UsageMeter(tmp_path), [50.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    kernel.has(7, 5.0, 10, "8 9 ")
    kernel.has(8, 1.0, 20, "11")
    kernel.has(11, 4.0, 30)
    usage = meter.measure(7)
    assert usage is not None
    assert usage.processes == 3, "process 9 has ended"
    assert usage.memory_bytes == 60 * process_usage._PAGE_BYTES
    assert usage.cores == pytest.approx(1.0), "10 s of its life of 10 s"
    now[0] += 4
    kernel.has(11, 10.0, 30)
    usage = meter.measure(7)
    assert usage is not None
    assert usage.cores == pytest.approx(1.5)
    kernel.has(7, 5.0, 10, "")
    now[0] += 1
    usage = meter.measure(7)
    assert usage is not None
    assert (usage.cores, usage.processes) == (0.0, 1), "what its children had used is gone"


def test_a_process_that_has_ended(tmp_path: Path) -> None:
    assert UsageMeter(tmp_path).measure(7) is None


def test_a_process_that_computes() -> None:
    meter = UsageMeter()
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            end = time.monotonic() + 60
            meter.measure(process.pid)
            while True:
                time.sleep(0.2)
                usage = meter.measure(process.pid)
                assert usage is not None
                assert usage.cores < 3
                assert usage.memory_bytes > 1 << 20
                if usage.cores > 0.02:
                    break
                assert time.monotonic() < end
        finally:
            process.kill()
    assert meter.measure(process.pid) is None
