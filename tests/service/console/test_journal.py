"""Output to systemd's journal is recognised, and errors there have their level."""

import os
import subprocess
import sys
from pathlib import Path

from support.daemon.processes import python_path

_PROGRAM = """
from neurald.service.console.journal import goes_to_journal
from neurald.service.console.output import write_error
print(goes_to_journal())
write_error("it fails")
"""


def written(path: Path, stream: str) -> tuple[str, str]:
    """Returns what the program says and what it writes to stderr, which is a file."""
    environment = {**os.environ, "PYTHONPATH": python_path(), "JOURNAL_STREAM": stream}
    with path.open("w") as file:
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            stdout=subprocess.PIPE,
            stderr=file,
            env=environment,
            check=True,
            timeout=60,
        )
    return done.stdout.decode().strip(), path.read_text()


def test_an_error_in_the_journal_has_its_level(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.touch()
    status = file.stat()
    assert written(file, f"{status.st_dev}:{status.st_ino}") == ("True", "<3>error: it fails\n")
    for other in ("", "1:1"):
        assert written(file, other) == ("False", "error: it fails\n")
