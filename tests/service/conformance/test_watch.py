"""Another process tells in which check the suite's process ended or waits."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from neurald.service.conformance.watch import Watch


def run(program: str) -> "subprocess.CompletedProcess[str]":
    """Runs a program whose watch loses patience after 0.3 s."""
    start = "import os, time\nfrom neurald.service.conformance.watch import Watch\n"
    return subprocess.run(
        [sys.executable, "-c", start + textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_the_end_of_the_process_is_told_with_the_last_check() -> None:
    ended = run(
        """
        with Watch() as watch:
            watch.begin("the first check")
            watch.begin("the second check")
            os.abort()
        """
    )
    assert ended.returncode == -signal.SIGABRT
    assert ended.stderr == "note: the driver has ended the process in the second check\n"


def test_children_of_the_process_do_not_hide_its_end() -> None:
    """They have the descriptors of the process."""
    ended = run(
        """
        with Watch() as watch:
            watch.begin("a check")
            if os.fork() == 0:
                os.close(2)
                time.sleep(3)
                os._exit(0)
            os.abort()
        """
    )
    assert "has ended the process in a check\n" in ended.stderr


def test_a_check_that_takes_long_is_told_again_and_again() -> None:
    ended = run(
        """
        with Watch(patience_s=0.3) as watch:
            watch.begin("a check")
            time.sleep(1.5)
            watch.begin("another check")
        """
    )
    assert ended.returncode == 0
    lines = ended.stderr.splitlines()
    assert len(lines) >= 2
    assert all(
        "note: the driver has been busy for " in line and line.endswith("with a check") for line in lines
    )


@pytest.mark.parametrize("ends", ["", "raise SystemExit('end')"])
def test_a_suite_that_ends_is_not_told(ends: str) -> None:
    ended = run(
        f"""
        with Watch() as watch:
            watch.begin("a check")
            {ends}
        """
    )
    assert "note" not in ended.stderr


def test_a_watch_that_cannot_start_or_has_ended_disturbs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with Watch() as watch:
        assert watch._process is not None
        os.kill(watch._process.pid, signal.SIGKILL)
        watch._process.wait()
        watch.begin("a check")
    monkeypatch.setattr(sys, "executable", "/nothing")
    with Watch() as watch:
        watch.begin("a check")
