"""The log of a process: its level, its format, and how the journal is recognised."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.daemon.processes import python_path

from neurald.service.logs import setup
from neurald.service.logs.choices import LogFormat, LogLevel

_PROGRAM = """
import logging
from neurald.service.logs.choices import LogFormat, LogLevel
from neurald.service.logs.setup import notice, start_log

start_log(LogFormat.AUTO, LogLevel.NOTICE)
logging.getLogger("a").info("hidden")
logging.getLogger("a").warning("shown")
notice("serving")
"""


@pytest.fixture
def restored() -> Iterator[None]:
    root = logging.getLogger()
    before = root.handlers[:], root.level, logging.raiseExceptions
    yield
    root.handlers[:], level, logging.raiseExceptions = before
    root.setLevel(level)


@pytest.mark.usefixtures("restored")
def test_messages_of_all_loggers_are_written_in_the_format(capsys: pytest.CaptureFixture[str]) -> None:
    setup.start_log(LogFormat.JSON, LogLevel.INFO)
    logging.getLogger("any.one").info("two\nlines")
    logging.getLogger("any.one").debug("hidden")
    setup.notice("serving")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["message"] for line in lines] == ["two\\nlines", "serving"]


def _written(path: Path, stream: str) -> str:
    with path.open("w") as file:
        environment = {**os.environ, "PYTHONPATH": python_path(), "JOURNAL_STREAM": stream}
        subprocess.run([sys.executable, "-c", _PROGRAM], stderr=file, env=environment, check=True, timeout=60)
    return path.read_text()


def test_the_journal_is_recognised(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.touch()
    status = file.stat()
    assert _written(file, f"{status.st_dev}:{status.st_ino}") == "<4>a: shown\n<5>serving\n"
    for other in ("", "1:1", "nonsense", f"{status.st_dev}:{status.st_ino + 1}"):
        text = _written(file, other)
        assert " WARNING a: shown\nserving\n" in text
        assert "<4>" not in text
