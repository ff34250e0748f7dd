"""The signal handler reports the faults of another process."""

import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from neurald.service.conformance.guard.fault_handler import RECORD, Fault

#: Other processors do not report whether an access was a write, or report it elsewhere.
TELLS_WRITES = platform.machine() == "x86_64"

PREPARED = """
import ctypes, mmap, sys, tempfile, threading
import numpy as np
from neurald.service.conformance.guard.fault_handler import report_faults
from neurald.service.conformance.guard.guard_pages import GuardPageMemory, GuardPlacement
memory = GuardPageMemory(8, GuardPlacement.BEFORE)
print(memory.address, flush=True)
report_faults(int(sys.argv[1]))
behind = memory.address + 8
"""


def faulted(code: str) -> tuple[int, bytes, int]:
    """Runs code in a process that has a memory of 8 bytes between guard pages.

    Returns the address of the memory, the record of the fault, and the exit status.
    """
    read, write = os.pipe()
    path = str(Path(__file__).parents[4] / "src")
    try:
        process = subprocess.run(
            [sys.executable, "-c", f"import sys; sys.path.insert(0, {path!r})\n{PREPARED}{code}", str(write)],
            stdout=subprocess.PIPE,
            pass_fds=(write,),
            check=False,
            timeout=60,
        )
        os.close(write)
        return int(process.stdout), os.read(read, 4096), process.returncode
    finally:
        os.close(read)


@pytest.mark.parametrize(
    ("code", "is_write"),
    [
        ("ctypes.string_at(behind + 5, 1)", False),
        ("ctypes.memset(behind + 5, 0, 1)", True),
        (
            "thread = threading.Thread(target=ctypes.memset, args=(behind + 5, 0, 1)); thread.start(); thread.join()",
            True,
        ),
    ],
    ids=["a read", "a write", "in a thread"],
)
def test_the_address_is_reported(code: str, is_write: bool) -> None:
    address, record, status = faulted(code)
    found = Fault.read(record)
    assert (found.signal, found.address, status) == (signal.SIGSEGV, address + 8 + 5, 1)
    assert found.is_write == (is_write if TELLS_WRITES else None)


def test_a_truncated_file() -> None:
    code = (
        "file = tempfile.TemporaryFile(); file.truncate(4096); mapping = mmap.mmap(file.fileno(), 4096)\n"
        "place = np.frombuffer(mapping, np.uint8).ctypes.data; file.truncate(0)\n"
        "ctypes.string_at(place, 1)\n"
    )
    _, record, _ = faulted(code)
    assert Fault.read(record).signal == signal.SIGBUS
    assert Fault.read(record).address is not None


@pytest.mark.skipif(platform.machine() != "x86_64", reason="other processors report every address")
def test_an_address_that_the_processor_does_not_report() -> None:
    _, record, _ = faulted("ctypes.string_at(0x8000_0000_0000_0000, 1)")
    assert Fault.read(record).address is None


def test_a_signal_from_another_process_has_no_address() -> None:
    _, record, _ = faulted("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert Fault.read(record).address is None


def test_without_a_fault_there_is_no_record() -> None:
    address, record, status = faulted("ctypes.string_at(behind - 1, 1)")
    assert (record, status) == (b"", 0)
    assert address


@pytest.mark.parametrize(
    ("error", "is_write"),
    [(4, False), (6, True), (7, True), (-1, None)],
    ids=["read", "write", "both", "none"],
)
def test_error_codes(error: int, is_write: bool | None) -> None:
    found = Fault.read(RECORD.pack(11, 2, -16, error))
    assert found == Fault(signal=11, address=2**64 - 16, is_write=is_write)
