"""The cause of a death is found from its end and its breadcrumbs."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.waiting import wait_until

from neurald.hal.crashes.breadcrumbs import CrashPhase, CrumbRecord
from neurald.hal.crashes.pattern import CrashPattern, PatternOperation
from neurald.hal.crashes.trail import Activity, Trail
from neurald.service.crashes import autopsy
from neurald.service.crashes.autopsy import (
    DriverEnd,
    describe_end,
    faulting_thread,
    is_stopped,
    memory_kills,
    suspects,
)


def activity(number: int, *, thread: int = 0, hangs: bool = False) -> Activity:
    pattern = CrashPattern(operations=(PatternOperation(digest=f"{number:032x}", count=1),))
    return Activity(
        phase=CrashPhase.EXECUTE,
        thread=thread,
        session=1,
        hangs=hangs,
        record=CrumbRecord(pattern=pattern, model=""),
    )


TRAIL = Trail(
    version="1", activities=(activity(1, thread=11), activity(2, thread=22), activity(1, thread=33))
)


def found(end: DriverEnd, trail: Trail = TRAIL) -> list[int]:
    return sorted(int(each.pattern.operations[0].digest, 16) for each in suspects(end, trail))


def test_who_is_killed_by_others_died_of_no_model() -> None:
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        assert found(DriverEnd(status=-number)) == []
    assert found(DriverEnd(status=0)) == []
    assert found(DriverEnd(status=-signal.SIGKILL, was_aborted=True, was_stopped=True)) == []


def test_each_model_at_work_is_suspected_once() -> None:
    assert found(DriverEnd(status=-signal.SIGABRT)) == [1, 2]
    assert found(DriverEnd(status=7)) == [1, 2]
    assert found(DriverEnd(status=-signal.SIGKILL, ran_out_of_memory=True)) == [1, 2]
    assert found(DriverEnd(status=-signal.SIGABRT, was_aborted=True)) == [1, 2]


def test_the_thread_that_failed_tells_the_model() -> None:
    assert found(DriverEnd(status=-signal.SIGSEGV, thread=22)) == [2]
    assert found(DriverEnd(status=-signal.SIGSEGV, thread=99)) == [1, 2]
    # The signal of an abort came from the supervisor and reached any thread.
    assert found(DriverEnd(status=-signal.SIGABRT, was_aborted=True, thread=22)) == [1, 2]


def test_an_execution_that_hangs_tells_the_model() -> None:
    trail = Trail(activities=(activity(1), activity(2, hangs=True)))
    assert found(DriverEnd(status=-signal.SIGABRT, was_aborted=True), trail) == [2]


def test_the_fault_handler_names_the_thread() -> None:
    program = "import faulthandler, os, threading; faulthandler.enable(); print(threading.get_ident()); "
    died = subprocess.run(
        [sys.executable, "-uc", program + "os.abort()"], capture_output=True, check=False, timeout=60
    )
    assert died.returncode == -signal.SIGABRT
    threads = [faulting_thread(line) for line in died.stderr.splitlines()]
    assert [each for each in threads if each is not None] == [int(died.stdout)]
    assert faulting_thread(b"Current thread 0xzz") is None


def test_a_stopped_process_is_recognised() -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        assert not is_stopped(process.pid)
        process.send_signal(signal.SIGSTOP)
        wait_until(lambda: is_stopped(process.pid))
    finally:
        process.kill()
        process.wait()
    assert not is_stopped(process.pid)
    assert not is_stopped(os.getpid())


def test_ends_are_described() -> None:
    assert describe_end(3) == "status 3"
    assert describe_end(-signal.SIGSEGV) == "signal SIGSEGV"
    assert describe_end(-200) == "signal 200"


def test_deaths_for_lack_of_memory_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, machine, folder = tmp_path / "cgroup", tmp_path / "vmstat", tmp_path / "group"
    monkeypatch.setattr(autopsy, "_OWN_CGROUPS", own)
    monkeypatch.setattr(autopsy, "_CGROUPS", tmp_path)
    monkeypatch.setattr(autopsy, "_MACHINE", machine)
    assert memory_kills() == 0
    machine.write_text("pgfault 7\noom_kill 3\n")
    assert memory_kills() == 3, "a machine without groups"
    own.write_text("4:cpu:/elsewhere\n0::/group\n")
    assert memory_kills() == 3, "a group that counts nothing"
    folder.mkdir()
    (folder / "memory.events").write_text("oom 9\noom_kill 2\noom_group_kill 1\n")
    assert memory_kills() == 2
