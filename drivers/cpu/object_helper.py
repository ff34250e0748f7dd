"""Another process that compiles: a Python that imports nothing but llvmlite."""

import json
import logging
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from neurald.drivers.cpu.target import Target

if TYPE_CHECKING:
    from neurald.drivers.cpu.object_code import Unit, Work

_LOG = logging.getLogger(__name__)

_WORKER = Path(__file__).with_name("object_worker.py")


class Helper:
    """A process that takes units, one after another, until there are none left.

    Args:
        work: what it takes units from and gives object code to.
        target: what code is generated for.
    """

    def __init__(self, work: "Work", target: Target) -> None:
        self._work = work
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closed = False
        if not sys.executable:
            return
        import llvmlite

        about = {
            "path": str(Path(llvmlite.__file__).parent.parent),
            "cpu": target.cpu,
            "features": target.features,
        }
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this Python, and a file of ours
                [sys.executable, "-I", "-S", str(_WORKER), json.dumps(about)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
            )
        except OSError as error:
            _LOG.warning("no process helps to compile: %s", error)
            return
        self._thread = threading.Thread(target=self._run, args=(self._process,), daemon=True)
        self._thread.start()

    def _run(self, process: "subprocess.Popen[bytes]") -> None:
        while (unit := self._work.next()) is not None:
            try:
                code = _compiled(process, unit)
            except (OSError, ValueError, struct.error) as error:
                # Whatever the reason, it is found out where the unit is compiled next.
                if not self._is_closed:
                    _LOG.warning("a process that helps to compile ended: %s", error)
                self._work.give_back(unit)
                return
            self._work.finished(unit, code)

    def close(self) -> None:
        """Ends the process."""
        self._is_closed = True
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._thread.join()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()


def _compiled(process: "subprocess.Popen[bytes]", unit: "Unit") -> bytes:
    """What a process makes of a unit.

    Raises:
        OSError, ValueError, struct.error: it has ended, or its pipes are closed.
    """
    assert process.stdin is not None  # noqa: S101 - it was asked for
    assert process.stdout is not None  # noqa: S101 - it was asked for
    text = unit.text.encode()
    process.stdin.write(struct.pack("<Q", len(text)) + text)
    process.stdin.flush()
    (length,) = struct.unpack("<Q", process.stdout.read(8))
    code = process.stdout.read(length)
    if len(code) != length:
        raise ValueError(f"{len(code)} of {length} bytes")
    return code
