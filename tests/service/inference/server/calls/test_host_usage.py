"""The usage of the host, read from files that stand for those of the kernel."""

from pathlib import Path

import pytest

from neurald.service.inference.server.calls import host_usage
from neurald.service.inference.server.calls.host_usage import HostUsage


def write(folder: Path, busy: int, idle: int, meminfo: str = "MemTotal: 4 kB\nMemAvailable: 1 kB\n") -> None:
    """Writes the files of a host that was busy and idle for so long."""
    numbers = (busy, 0, 0, idle - 1, 1, 0, 0, 0, 7, 7)
    (folder / "stat").write_text(f"cpu  {' '.join(map(str, numbers))}\ncpu0 1 1 1 1 1 1 1 1 1 1\n")
    (folder / "meminfo").write_text(meminfo)


def values(usage: HostUsage) -> dict[str, float]:
    """Returns the metrics by name."""
    return {each.name: each.samples[0].value for each in usage.metrics()}


def test_usage_between_two_readings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, 100, 100)
    usage = HostUsage(tmp_path)
    monkeypatch.setattr(host_usage, "_MIN_INTERVAL_S", 0)
    write(tmp_path, 130, 110)
    expected = {
        "nv_cpu_utilization": 0.75,
        "nv_cpu_memory_total_bytes": 4096,
        "nv_cpu_memory_used_bytes": 3072,
    }
    assert values(usage) == expected
    assert usage.memory_utilization() == 0.75
    # As long as the counters stand still, and when they go back, the last value stays.
    assert values(usage) == expected
    write(tmp_path, 10, 10)
    assert values(usage) == expected
    monkeypatch.setattr(host_usage, "_MIN_INTERVAL_S", 3600)
    write(tmp_path, 500, 500)
    assert values(usage) == expected


@pytest.mark.parametrize("content", ["", "cpu 1 2", "cpu a b c d e f g h", None])
def test_what_cannot_be_read_is_left_out(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        for name in ("stat", "meminfo"):
            (tmp_path / name).write_text(content)
    assert values(HostUsage(tmp_path)) == {}
    (tmp_path / "meminfo").write_text("MemTotal: none\n")
    assert values(HostUsage(tmp_path)) == {}
    assert HostUsage(tmp_path).memory_utilization() is None


def test_this_host() -> None:
    found = values(HostUsage())
    assert 0 <= found["nv_cpu_utilization"] <= 1
    assert 0 < found["nv_cpu_memory_used_bytes"] < found["nv_cpu_memory_total_bytes"]
