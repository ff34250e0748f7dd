"""Descriptions of why a process ended."""

import pytest

from neurald.service.conformance.guard.fault_handler import Fault
from neurald.service.conformance.guard.fault_report import ProcessEnd, describe_end, missed_buffer
from neurald.service.conformance.guard.message import BufferRegion, Stage

#: A buffer of 12 bytes at 2000, with guard pages from 1000 to 3000, and one of 1 byte at 9000, with
#: guard pages from 8000 to 10000.
INPUT = BufferRegion(name="input 1", start=2000, size=12, first=1000, end=3000)
CONSTANT = BufferRegion(name="constant 0", start=9000, size=1, first=8000, end=10000)
STAGE = Stage(call="execute", placement="before guard pages", regions=(INPUT, CONSTANT))


def fault(address: int | None, is_write: bool | None = False) -> Fault:
    return Fault(signal=11, address=address, is_write=is_write)


@pytest.mark.parametrize(
    ("address", "is_write", "text"),
    [
        (2012, False, "it read 1 byte behind the end of input 1, which has 12 bytes"),
        (2999, True, "it wrote 988 bytes behind the end of input 1, which has 12 bytes"),
        (1999, None, "it read or wrote 1 byte before the start of input 1, which has 12 bytes"),
        (1000, False, "it read 1000 bytes before the start of input 1, which has 12 bytes"),
        (9001, False, "it read 1 byte behind the end of constant 0, which has 1 byte"),
        (999, False, ""),
        (3000, False, ""),
        (None, False, ""),
    ],
)
def test_the_missed_buffer(address: int | None, is_write: bool | None, text: str) -> None:
    assert missed_buffer(fault(address, is_write), STAGE.regions) == text


@pytest.mark.parametrize(
    ("end", "text"),
    [
        (
            ProcessEnd(stage=STAGE, fault=fault(2012), status=1),
            "buffers before guard pages: execute: it read 1 byte behind the end of input 1, which has 12 bytes",
        ),
        (
            ProcessEnd(stage=STAGE, fault=fault(64), status=1),
            "buffers before guard pages: execute: its process ended with SIGSEGV at 0x40, which is near no buffer",
        ),
        (
            ProcessEnd(stage=STAGE, fault=fault(None), status=1),
            "buffers before guard pages: execute: its process ended with SIGSEGV at an unknown address",
        ),
        (
            ProcessEnd(stage=STAGE, fault=None, status=-6, last_line="free(): invalid pointer"),
            "buffers before guard pages: execute: its process ended with SIGABRT: free(): invalid pointer",
        ),
        (ProcessEnd(stage=None, fault=None, status=3), "its process ended with exit status 3"),
        (ProcessEnd(stage=None, fault=None, status=-200), "its process ended with signal 200"),
        (
            ProcessEnd(stage=STAGE, fault=None, status=-9, was_late=True),
            "buffers before guard pages: execute: the call did not return within 2.5 s",
        ),
    ],
)
def test_how_a_process_ended(end: ProcessEnd, text: str) -> None:
    assert describe_end(end, 2.5) == text
