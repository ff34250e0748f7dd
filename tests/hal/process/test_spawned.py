"""Programs that are started without `subprocess`."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.daemon.forking import in_child

from neurald.hal.process.spawned import SpawnedProcess


@pytest.fixture
def said() -> Iterator[int]:
    """Returns a descriptor for what a process writes."""
    descriptor = os.memfd_create("said")
    yield descriptor
    os.close(descriptor)


def spawned(program: str, said: int, **variables: str) -> SpawnedProcess:
    with Path(os.devnull).open("rb") as nothing:
        return SpawnedProcess(
            [sys.executable, "-I", "-S", "-c", program], variables, stdin=nothing.fileno(), stderr=said
        )


def text_of(descriptor: int) -> str:
    return os.pread(descriptor, 1000, 0).decode()


def test_it_has_its_own_streams_variables_and_group(said: int) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"given")
    os.close(writer)
    program = "import os, sys; print('out'); print(os.read(0, 9), os.environ['A'], file=sys.stderr)"
    process = SpawnedProcess(
        [sys.executable, "-I", "-S", "-c", f"{program}; print(os.getpgid(0), file=sys.stderr)"],
        {"A": "b"},
        stdin=reader,
        stderr=said,
    )
    os.close(reader)
    assert process.wait(60)
    assert text_of(said) == f"b'given' b\n{process.pid}\n"
    assert process.has_ended
    # Its number may belong to another process.
    process.kill()


def test_it_is_killed(said: int) -> None:
    process = spawned("import time; time.sleep(100)", said)
    assert not process.has_ended
    assert not process.wait(0.01)
    process.kill()
    assert process.wait(60)


def test_several_threads_wait_for_it(said: int) -> None:
    process = spawned("import time; time.sleep(0.1)", said)
    ended: list[bool] = []
    threads = [threading.Thread(target=lambda: ended.append(process.wait(60))) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert ended == [True] * 4


def test_the_application_may_have_waited_for_it(said: int) -> None:
    process = spawned("pass", said)
    os.waitpid(process.pid, 0)
    assert process.wait(60)


def test_it_ends_although_the_application_ignores_its_children(said: int) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        process = spawned("pass", said)
        assert process.wait(60)
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_a_program_that_is_not_there(said: int) -> None:
    with pytest.raises(FileNotFoundError):
        SpawnedProcess(["/no/such/program"], {}, stdin=said, stderr=said)


@pytest.mark.forks
def test_standard_streams_that_are_closed_are_replaced(said: int) -> None:
    def start() -> None:
        for descriptor in range(3):
            os.close(descriptor)
        descriptors = os.pipe()
        output = os.memfd_create("said")
        process = SpawnedProcess(
            [sys.executable, "-I", "-S", "-c", "import os; os.write(2, b'%d' % len(os.read(0, 1)))"],
            {},
            stdin=descriptors[0],
            stderr=output,
        )
        os.write(descriptors[1], b"a")
        end_s = time.monotonic() + 60
        while not process.has_ended and time.monotonic() < end_s:
            time.sleep(0.01)
        assert text_of(output) == "1"

    in_child(start, 60)
