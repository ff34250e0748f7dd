"""Copies of mapped files that are truncated at any time, beside other handlers of SIGBUS."""

import mmap
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.daemon.processes import python_path

from neurald.drivers.cpu.native.objects.image import decoded
from neurald.drivers.cpu.native.objects.llvm import TargetMachine, link_image
from neurald.drivers.cpu.target.processor import MACHINE
from neurald.drivers.cpu.target.target import host_target
from neurald.drivers.settings import Settings
from neurald.hal.digests import DIGEST_BYTES, digest_of
from neurald.service.inference.mapping import guarded_copy as subject
from neurald.service.inference.mapping.guarded_copy import (
    FILES,
    FUNCTIONS,
    GUARD,
    CopyOutcome,
    MappedRange,
    mapped_range,
    text,
)

pytestmark = pytest.mark.skipif(MACHINE not in FILES, reason="the package has no file for this machine")

PAGE = mmap.PAGESIZE
SIZE = 64 * PAGE


@pytest.fixture
def file() -> Iterator[int]:
    descriptor = os.memfd_create("region")
    os.write(descriptor, os.urandom(SIZE))
    yield descriptor
    os.close(descriptor)


def mapped(descriptor: int, offset: int = 0, size: int = SIZE) -> MappedRange:
    found = mapped_range(descriptor, offset, size)
    assert found is not None
    return found


def test_the_files_are_compiled_from_the_text() -> None:
    for name in FILES.values():
        content = Path(subject.__file__).with_name(name).read_bytes()
        assert content.startswith(digest_of(text().encode())), "run scripts/native_programs.py"
        image = decoded(content[DIGEST_BYTES:])
        assert set(FUNCTIONS) <= image.functions.keys()
        assert GUARD in {name for name, _ in image.imports}
    target = host_target(Settings("NEURALD_CPU_", environment={}))
    (compiled,) = link_image((TargetMachine.of(target).object_code(text()),))
    assert decoded(compiled).functions.keys() == image.functions.keys()


def test_bytes_are_copied(file: int) -> None:
    content = os.pread(file, SIZE, 0)
    for offset, size in ((0, SIZE), (PAGE, PAGE), (5, 3 * PAGE), (2 * PAGE + 1, 7)):
        part = mapped(file, offset, size)
        target = memoryview(bytearray(size))
        assert part.read(target, offset) is CopyOutcome.COPIED
        assert target == content[offset : offset + size]
        for data in (memoryview(os.urandom(size)), memoryview(bytearray(os.urandom(size)))):
            assert part.write(data, offset) is CopyOutcome.COPIED
            assert os.pread(file, size, offset) == data
        content = os.pread(file, SIZE, 0)


def test_a_truncated_file_is_noted(file: int) -> None:
    content = os.pread(file, SIZE, 0)
    reads, writes = mapped(file), mapped(file)
    os.truncate(file, 2 * PAGE)
    target = memoryview(bytearray(SIZE))
    assert writes.write(target, 0) is CopyOutcome.CUT
    os.pwrite(file, content[: 2 * PAGE], 0)
    assert reads.read(target, 0) is CopyOutcome.CUT
    assert target == content[: 2 * PAGE] + bytes(SIZE - 2 * PAGE)
    # It stays so, as what lies there is not the file any more.
    os.truncate(file, SIZE)
    assert reads.read(target, 0) is CopyOutcome.CUT
    assert mapped(file).read(target, 0) is CopyOutcome.COPIED


def test_the_memory_of_a_range_is_used_as_it_is(file: int) -> None:
    content = os.pread(file, SIZE, 0)
    part = mapped(file, 5, SIZE - 5)
    view, note = part.memory, part.cut_note
    assert view == content[5:]
    view[:3] = b"abc"
    assert os.pread(file, 3, 5) == b"abc"
    assert part.is_guarded
    assert not any(note)
    os.truncate(file, 2 * PAGE)
    assert view[-1] == 0
    assert bytes(note) == (1).to_bytes(8, "little")
    # The memory keeps the range.
    del part
    assert bytes(view[:3]) == b"abc"


def test_a_range_gives_its_file_back(file: int) -> None:
    part = mapped(file, 5, SIZE - 5)
    view = part.memory
    part.cut()
    assert any(part.cut_note)
    assert not any(view)
    assert "/memfd:region" not in Path("/proc/self/maps").read_text()
    view[:] = bytes([7]) * len(view)
    assert os.pread(file, SIZE, 0) != bytes(5) + bytes(view)


def test_memory_that_a_range_leaves_is_unmapped(file: int) -> None:
    def count() -> int:
        return Path("/proc/self/maps").read_text().count("/memfd:region")

    for _ in range(2 * 1024):
        mapped(file)
    assert count() == 0
    held = [mapped(file) for _ in range(subject._MAX_RANGES)]
    assert mapped_range(file, 0, SIZE) is None
    assert count() == len(held)
    del held
    assert count() == 0
    assert mapped_range(-1, 0, SIZE) is None
    assert mapped_range(file, 0, 1 << 60) is None
    mapped(file)


def test_threads_copy_while_the_file_is_truncated(file: int) -> None:
    stop, both = threading.Event(), {CopyOutcome.COPIED, CopyOutcome.CUT}

    def change() -> None:
        while not stop.is_set():
            os.truncate(file, PAGE)
            os.truncate(file, SIZE)

    outcomes: list[CopyOutcome] = []
    ranges = [mapped(file)]
    end_s = time.monotonic() + 60

    def copy() -> None:
        memory = memoryview(bytearray(SIZE))
        number = 0
        while number < 500 or (len(set(outcomes)) < len(both) and time.monotonic() < end_s):
            number += 1
            part = ranges[0]
            outcome = part.read(memory, 0) if number % 2 else part.write(memory, 0)
            outcomes.append(outcome)
            if outcome is CopyOutcome.CUT:
                ranges[0] = mapped(file)

    threads = [threading.Thread(target=copy) for _ in range(4)]
    changing = threading.Thread(target=change)
    for each in (changing, *threads):
        each.start()
    for each in threads:
        each.join()
    stop.set()
    changing.join()
    assert len(outcomes) >= 4 * 500
    assert set(outcomes) == both


#: Maps a file, and then touches a page beyond the end of a mapping that is not guarded.
_FAULT = """
import ctypes, faulthandler, mmap, os, signal, sys
from neurald.service.inference.mapping.guarded_copy import mapped_range, CopyOutcome
{before}
file = os.memfd_create("region")
os.truncate(file, 65536)
part = mapped_range(file, 0, 65536)
os.truncate(file, 0)
target = memoryview(bytearray(65536))
assert part.read(target, 0) is CopyOutcome.CUT
{after}
"""
_TOUCH = """
os.truncate(file, 65536)
other = mmap.mmap(file, 65536)
os.truncate(file, 0)
other[0]
"""


def _run(before: str, after: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", _FAULT.format(before=before, after=after)],
        env={**os.environ, "PYTHONPATH": python_path()},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize(
    "before", ["", "faulthandler.enable()", "signal.signal(signal.SIGBUS, signal.SIG_IGN)"]
)
@pytest.mark.parametrize("after", [_TOUCH, "os.kill(os.getpid(), signal.SIGBUS)"])
def test_other_faults_end_the_process_as_before(before: str, after: str) -> None:
    done = _run(before, after)
    if "SIG_IGN" in before and "kill" in after:
        assert done.returncode == 0, done.stderr
        return
    assert done.returncode == -signal.SIGBUS, done.stderr
    assert ("Fatal Python error: Bus error" in done.stderr) is ("faulthandler" in before)


def test_a_handler_that_recovers_is_called_as_before() -> None:
    """Python's handler only notes the signal, which was sent."""
    before = "signal.signal(signal.SIGBUS, lambda *_: print('noted', flush=True))"
    after = "os.kill(os.getpid(), signal.SIGBUS); os.kill(os.getpid(), signal.SIGBUS)\n"
    after += "os.truncate(file, 65536); part = mapped_range(file, 0, 65536)\n"
    after += "print(part.read(target, 0).name)"
    done = _run(before, after)
    assert (done.returncode, done.stdout.split()) == (0, ["noted", "noted", "COPIED"]), done.stderr


@pytest.mark.parametrize("install", ["faulthandler.enable()", "signal.signal(signal.SIGBUS, signal.SIG_DFL)"])
def test_nothing_is_copied_once_another_handler_is_installed(install: str) -> None:
    after = f"{install}\npart = mapped_range(file, 0, 65536)\n"
    after += "print(part.read(target, 0).name, part.write(target, 0).name)"
    done = _run("", after)
    assert (done.returncode, done.stdout.split()) == (0, ["UNGUARDED", "UNGUARDED"]), done.stderr


def test_a_handler_for_one_signal_is_called_once() -> None:
    before = """
from neurald.service.inference.mapping.guarded_copy import _SA_RESETHAND, _Action
noted = ctypes.CFUNCTYPE(None, ctypes.c_int)(lambda number: print("noted", flush=True))
once = _Action(handler=ctypes.cast(noted, ctypes.c_void_p).value, flags=_SA_RESETHAND)
ctypes.CDLL(None).sigaction(int(signal.SIGBUS), ctypes.byref(once), None)
"""
    after = "os.kill(os.getpid(), signal.SIGBUS)\nprint(part.read(target, 0).name, flush=True)\n"
    done = _run(before, after + "os.kill(os.getpid(), signal.SIGBUS)")
    assert (done.returncode, done.stdout.split()) == (-signal.SIGBUS, ["noted", "UNGUARDED"]), done.stderr
