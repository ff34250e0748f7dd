"""Limits of the machine and of control groups on a process."""

import os
from pathlib import Path

from neurald.hal.process.memory import machine

MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_without_control_groups_it_is_the_machine(tmp_path: Path) -> None:
    assert machine.memory_bytes(tmp_path / "missing", tmp_path) == MACHINE
    assert 0 < machine.memory_bytes() <= MACHINE


def test_control_groups_leave_less(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("4:cpu,cpuset:/a\n3:memory:/c/d\n0::/a/b\nnonsense\n")
    for name, text in {
        "a/memory.max": "5000\n",
        "a/b/memory.max": "max\n",
        "memory/c/d/memory.limit_in_bytes": "4000\n",
        "memory/c/memory.limit_in_bytes": "9223372036854771712\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert machine.memory_bytes(own, tmp_path) == 4000
    (tmp_path / "memory/c/d/memory.limit_in_bytes").write_text("what?")
    assert machine.memory_bytes(own, tmp_path) == 5000


def test_descriptors() -> None:
    assert 0 < machine.descriptors() <= machine.MAX_DESCRIPTORS
