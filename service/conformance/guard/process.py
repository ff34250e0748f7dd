"""Client of the process that runs cases between guard pages; it finds out why the process ended."""

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
from neurald.hal.errors import UnavailableDevice
from neurald.service.conformance.guard.fault_handler import RECORD, Fault
from neurald.service.conformance.guard.fault_report import End
from neurald.service.conformance.guard.message import GuardedCase, Message, Ran, Ready, Stage

_WORKER = Path(__file__).with_name("worker.py")
#: Time limit for opening a device.
_START_LIMIT_S = 120.0
#: Time that the process may take beyond a call's time limit.
_SPARE_S = 5.0
#: Longer answers are refused.
_MAX_BYTES = 1 << 31
_MAX_SAID = 300
_DECODER: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


class _Ended(Exception):
    """The process will not answer any more."""


class GuardProcess:
    """Process with its own device. Once it has ended, the next case needs a new one.

    Attributes:
        device: the name of its device.

    Args:
        driver: the device's driver, as `neurald conformance` takes it.

    Raises:
        OSError: the process does not start.
        UnavailableDevice: the process cannot open the device.
    """

    def __init__(self, driver: str) -> None:
        self._faults, faults = os.pipe()
        os.set_blocking(self._faults, False)
        self._said = os.memfd_create("neurald messages of a driver")
        about = {
            "path": [*map(os.path.abspath, sys.path), str(Path(neurald.__file__).parent.parent)],
            "process": os.getpid(),
            "driver": driver,
            "faults": faults,
        }
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this Python, and a file of ours
                [sys.executable, "-I", str(_WORKER), json.dumps(about)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                pass_fds=(faults,),
            )
        except OSError:
            os.close(self._faults)
            os.close(self._said)
            raise
        finally:
            os.close(faults)
        self._ended = os.pidfd_open(self._process.pid)
        try:
            self.device = self._opened()
        except BaseException:
            self.close()
            raise

    def _opened(self) -> str:
        """Returns the name of its device.

        Raises:
            UnavailableDevice: it has none.
        """
        deadline_s = time.monotonic() + _START_LIMIT_S
        try:
            ready = self._received(deadline_s)
        except (_Ended, msgspec.DecodeError):
            end = self._end(None, was_late=time.monotonic() >= deadline_s)
            raise UnavailableDevice(f"the process ended with status {end.status}: {end.said}") from None
        if not isinstance(ready, Ready) or ready.error:
            raise UnavailableDevice(
                ready.error if isinstance(ready, Ready) else "invalid message from the process"
            )
        return ready.device

    def run(self, case: GuardedCase) -> Ran | End:
        """Runs a case. After an `End` the process cannot be used again."""
        stage: Stage | None = None
        deadline_s = time.monotonic() + case.limit_s + _SPARE_S
        try:
            self._send(msgspec.msgpack.encode(case))
            while not isinstance(message := self._received(deadline_s), Ran):
                stage = message if isinstance(message, Stage) else stage
                deadline_s = time.monotonic() + case.limit_s + _SPARE_S
        except (_Ended, msgspec.DecodeError):
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

    def _received(self, deadline_s: float) -> Message:
        """Returns the next message.

        Raises:
            _Ended: the process has ended, or the message does not arrive in time.
            msgspec.DecodeError: the bytes are not a message.
        """
        (length,) = struct.unpack("<Q", self._read(8, deadline_s))
        if length > _MAX_BYTES:
            raise _Ended
        return _DECODER.decode(self._read(length, deadline_s))

    def _read(self, size: int, deadline_s: float) -> bytes:
        answers = self._process.stdout
        assert answers is not None  # noqa: S101 - requested above
        poll = select.poll()
        poll.register(answers, select.POLLIN)
        # A child process of the driver may keep the pipe open.
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

    def _end(self, stage: Stage | None, *, was_late: bool) -> End:
        """Ends the process if it is still running, and reports how it ended."""
        if was_late:
            self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_SPARE_S)
        self._process.kill()
        status = self._process.wait()
        fault: Fault | None = None
        with contextlib.suppress(BlockingIOError):
            record = os.read(self._faults, RECORD.size)
            fault = Fault.read(record) if len(record) == RECORD.size else None
        return End(stage=stage, fault=fault, status=status, was_late=was_late, said=self._last_line())

    def _last_line(self) -> str:
        """Returns the last line that the process wrote to its standard error."""
        begin = max(0, os.fstat(self._said).st_size - _MAX_SAID)
        lines = os.pread(self._said, _MAX_SAID, begin).decode("utf-8", "replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            # Unflushed data is discarded.
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()
        for descriptor in (self._faults, self._ended, self._said):
            os.close(descriptor)
