"""Starts the process that runs cases between guard pages, and finds out why it ended."""

import contextlib
import json
import os
import select
import struct
import subprocess
import sys
import time
from pathlib import Path

import msgspec

import neurald
from neurald.hal.decoding import msgpack_decoder
from neurald.hal.errors import UnavailableDevice
from neurald.hal.process.interpreter import interpreter
from neurald.hal.records import DECODE_ERRORS
from neurald.service.conformance.guard.fault_handler import RECORD, Fault
from neurald.service.conformance.guard.fault_report import ProcessEnd
from neurald.service.conformance.guard.message import GuardedCase, Message, Ran, Ready, Stage

_WORKER = Path(__file__).with_name("worker.py")
#: Time limit for opening a device.
_START_LIMIT_S = 120.0
#: Time in addition to the time limit of a call before the process is killed.
_EXTRA_S = 5.0
#: Length of a message.
_MAX_MESSAGE_BYTES = 1 << 31
_MAX_LAST_LINE_BYTES = 300
_DECODER: msgspec.msgpack.Decoder[Message] = msgpack_decoder(Message)


class _Ended(Exception):
    """The process has ended, or does not answer in time."""


class GuardProcess:
    """A process with its own device. Once it has ended, another one must be started.

    Attributes:
        device: the name of its device.

    Args:
        driver: the driver of the device, as in `neurald conformance --device`.

    Raises:
        OSError: the process could not be started.
        UnavailableDevice: the process cannot open the device.
    """

    def __init__(self, driver: str) -> None:
        self._faults, faults = os.pipe()
        os.set_blocking(self._faults, False)
        self._standard_error = os.memfd_create("neurald messages of a driver")
        about = {
            "path": [*map(os.path.abspath, sys.path), str(Path(neurald.__file__).parent.parent)],
            "process": os.getpid(),
            "driver": driver,
            "faults": faults,
        }
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this Python, and a script of this package
                [interpreter(), "-I", str(_WORKER), json.dumps(about)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._standard_error,
                pass_fds=(faults,),
            )
        except OSError:
            os.close(self._faults)
            os.close(self._standard_error)
            raise
        finally:
            os.close(faults)
        self._ended = os.pidfd_open(self._process.pid)
        try:
            self.device = self._wait_until_open()
        except BaseException:
            self.close()
            raise

    def _wait_until_open(self) -> str:
        """Waits until the process has opened the device, and returns its name.

        Raises:
            UnavailableDevice: the process cannot open the device.
        """
        deadline_s = time.monotonic() + _START_LIMIT_S
        try:
            ready = self._receive(deadline_s)
        except (_Ended, *DECODE_ERRORS):
            end = self._end(None, was_late=time.monotonic() >= deadline_s)
            raise UnavailableDevice(f"the process ended with status {end.status}: {end.last_line}") from None
        if not isinstance(ready, Ready) or ready.error:
            raise UnavailableDevice(
                ready.error if isinstance(ready, Ready) else "the process sent an invalid message"
            )
        return ready.device

    def run(self, case: GuardedCase) -> Ran | ProcessEnd:
        """Runs a case. After a `End` the process cannot be used again."""
        stage: Stage | None = None
        deadline_s = time.monotonic() + case.limit_s + _EXTRA_S
        try:
            self._send(msgspec.msgpack.encode(case))
            while not isinstance(message := self._receive(deadline_s), Ran):
                stage = message if isinstance(message, Stage) else stage
                deadline_s = time.monotonic() + case.limit_s + _EXTRA_S
        except (_Ended, *DECODE_ERRORS):
            return self._end(stage, was_late=time.monotonic() >= deadline_s)
        return message

    def _send(self, request: bytes) -> None:
        requests = self._process.stdin
        assert requests is not None  # noqa: S101 - requested above
        try:
            requests.write(struct.pack("<Q", len(request)) + request)
            requests.flush()
        except OSError:
            raise _Ended from None

    def _receive(self, deadline_s: float) -> Message:
        """Returns the next message.

        Raises:
            _Ended: the process has ended, or does not answer in time.
            msgspec.DecodeError: the bytes are not a message.
        """
        (length,) = struct.unpack("<Q", self._read(8, deadline_s))
        if length > _MAX_MESSAGE_BYTES:
            raise _Ended
        return _DECODER.decode(self._read(length, deadline_s))

    def _read(self, size: int, deadline_s: float) -> bytes:
        answers = self._process.stdout
        assert answers is not None  # noqa: S101 - requested above
        poll = select.poll()
        poll.register(answers, select.POLLIN)
        # A child process of the driver may keep the pipe open after the process has ended.
        poll.register(self._ended, select.POLLIN)
        found = bytearray()
        while len(found) < size:
            ready = [
                descriptor for descriptor, _ in poll.poll(max(0.0, deadline_s - time.monotonic()) * 1000)
            ]
            content = os.read(answers.fileno(), size - len(found)) if answers.fileno() in ready else b""
            if not content:
                raise _Ended
            found += content
        return bytes(found)

    def _end(self, stage: Stage | None, *, was_late: bool) -> ProcessEnd:
        """Ends the process if it is still running, and reports how it ended."""
        if was_late:
            self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_EXTRA_S)
        self._process.kill()
        status = self._process.wait()
        fault: Fault | None = None
        with contextlib.suppress(BlockingIOError):
            record = os.read(self._faults, RECORD.size)
            fault = Fault.read(record) if len(record) == RECORD.size else None
        return ProcessEnd(
            stage=stage, fault=fault, status=status, was_late=was_late, last_line=self._last_line()
        )

    def _last_line(self) -> str:
        """Returns the last line that the process wrote to its standard error."""
        begin = max(0, os.fstat(self._standard_error).st_size - _MAX_LAST_LINE_BYTES)
        lines = (
            os.pread(self._standard_error, _MAX_LAST_LINE_BYTES, begin).decode("utf-8", "replace").split("\n")
        )
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            # Data that was not flushed is discarded.
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()
        for descriptor in (self._faults, self._ended, self._standard_error):
            os.close(descriptor)
