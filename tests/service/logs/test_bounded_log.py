"""A log of bounded size in place of stderr."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from neurald.hal.errors import BadState
from neurald.service.logs.bounded_log import BoundedLog

_PROGRAM = """
import os, sys
from pathlib import Path
from neurald.service.logs.bounded_log import BoundedLog
log = BoundedLog(Path(sys.argv[1]), 1000)
for number in range(300):
    log.write(f"line {number}\\n")
    log.flush()
os.write(2, b"by the process itself\\n")
"""


def test_it_has_one_predecessor_and_the_last_lines(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_text("before\n")
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(file)], capture_output=True, check=True, text=True
    )
    assert ended.stderr == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "log.1"]
    assert file.stat().st_size <= 1000
    assert file.with_name("log.1").stat().st_size <= 1010
    lines = (file.with_name("log.1").read_text() + file.read_text()).splitlines()
    assert lines[-1] == "by the process itself"
    numbers = [int(line.split()[1]) for line in lines[:-1]]
    assert numbers == list(range(numbers[0], 300))


def test_a_link_is_refused(tmp_path: Path) -> None:
    link = tmp_path / "log"
    link.symlink_to(tmp_path / "other")
    before = os.fstat(2)
    with pytest.raises(BadState, match="cannot be opened"):
        BoundedLog(link)
    assert os.fstat(2) == before


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log")
    with pytest.raises(BadState, match="cannot be opened"):
        BoundedLog(tmp_path / "log")
