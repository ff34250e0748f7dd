"""Object code from LLVM's language: one object for each unit, compiled at most once for a process as long as it is kept.

LLVM compiles on one thread of a process at a time. Where there is much to do, other processes take a share: each is a Python
that imports nothing but llvmlite.
"""

import json
import logging
import os
import struct
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neurald.drivers.cpu.llvm import CompilationFailed, TargetMachine
from neurald.drivers.cpu.routine import NAME, Routine
from neurald.drivers.cpu.target import Target

_LOG = logging.getLogger(__name__)

#: Bytes of text that are worth another process: what is compiled in the time that it takes to start.
_SHARE_BYTES = 400_000
#: Bytes of object code that are kept for models to come.
_KEPT_BYTES = 32 << 20
#: A process that takes longer has got stuck; its share is compiled here.
_PATIENCE_S = 120.0

_WORKER = Path(__file__).with_name("object_worker.py")


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """A module that is compiled by itself. Two units of the same name have the same text."""

    name: str
    text: str


def routine_unit(routine: Routine) -> Unit:
    """The unit that defines a routine's function under its name."""
    text = "\n".join((*sorted(routine.declarations), routine.text.replace(NAME, routine.name), ""))
    return Unit(name=routine.name, text=text)


def object_codes(units: Sequence[Unit], target: Target, *, processes: int = 1) -> list[bytes]:
    """The object code of each unit.

    Args:
        units: of different names.
        target: what code is generated for.
        processes: how many may compile at the same time.

    Raises:
        CompilationFailed: LLVM refuses a text; the message says which, and why.
    """
    keys = [(target.name, unit.name) for unit in units]
    found = {key: _kept.get(key) for key in keys}
    missing = [unit for unit, key in zip(units, keys, strict=True) if found[key] is None]
    if missing:
        started = time.monotonic()
        codes = _compiled(missing, target, processes)
        for unit, code in zip(missing, codes, strict=True):
            found[target.name, unit.name] = code
            _kept.put((target.name, unit.name), code)
        _LOG.debug(
            "%d units of %d bytes compiled for %s in %.0f ms",
            len(missing),
            sum(len(unit.text) for unit in missing),
            target.name,
            (time.monotonic() - started) * 1e3,
        )
    return [code for key in keys if (code := found[key]) is not None]


def _compiled(units: Sequence[Unit], target: Target, processes: int) -> list[bytes]:
    total = sum(len(unit.text) for unit in units)
    shares = _shares(units, max(1, min(processes, total // _SHARE_BYTES, len(units))))
    others = [_Helper(share, target) for share in shares[1:]]
    codes: dict[str, bytes] = {}
    try:
        codes.update((unit.name, _code(unit, target)) for unit in shares[0])
        for helper in others:
            result = helper.result()
            if result is None:
                result = [_code(unit, target) for unit in helper.units]
            codes.update((unit.name, code) for unit, code in zip(helper.units, result, strict=True))
    finally:
        for helper in others:
            helper.close()
    return [codes[unit.name] for unit in units]


def _code(unit: Unit, target: Target) -> bytes:
    try:
        return TargetMachine.of(target).object_code(unit.text)
    except CompilationFailed as error:
        raise CompilationFailed(f"{unit.name}: {error}", unit.name) from None


def _shares(units: Sequence[Unit], count: int) -> list[list[Unit]]:
    """The units in so many parts of about the same length, the longest units first."""
    shares: list[list[Unit]] = [[] for _ in range(count)]
    lengths = [0] * count
    for unit in sorted(units, key=lambda each: -len(each.text)):
        shortest = lengths.index(min(lengths))
        shares[shortest].append(unit)
        lengths[shortest] += len(unit.text)
    return shares


class _Helper:
    """Another process that compiles units."""

    def __init__(self, units: Sequence[Unit], target: Target) -> None:
        self.units = units
        self._process: subprocess.Popen[bytes] | None = None
        self._received: list[bytes] = []
        if not sys.executable:
            return
        import llvmlite

        request = json.dumps(
            {
                "path": str(Path(llvmlite.__file__).parent.parent),
                "cpu": target.cpu,
                "features": target.features,
                "texts": [unit.text for unit in units],
            }
        ).encode()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this Python, and a file of ours
                [sys.executable, "-I", "-S", str(_WORKER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
            )
        except OSError as error:
            _LOG.warning("no process helps to compile: %s", error)
            return
        # Whoever writes waits until all is read, and so does the process with its results.
        self._thread = threading.Thread(target=self._exchange, args=(self._process, request), daemon=True)
        self._thread.start()

    def _exchange(self, process: "subprocess.Popen[bytes]", request: bytes) -> None:
        try:
            self._received.append(process.communicate(request, _PATIENCE_S)[0])
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            _LOG.warning("a process that helps to compile: %s", error)

    def result(self) -> list[bytes] | None:
        """The object code of each unit; None where the process failed."""
        if self._process is None:
            return None
        self._thread.join()
        content = self._received[0] if self._received else b""
        codes, position = [], 0
        while position < len(content):
            (length,) = struct.unpack_from("<Q", content, position)
            codes.append(content[position + 8 : position + 8 + length])
            position += 8 + length
        if self._process.returncode or len(codes) != len(self.units):
            _LOG.warning("a process that helps to compile ended with status %s", self._process.returncode)
            return None
        return codes

    def close(self) -> None:
        """Ends the process if it still runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()


class _Kept:
    """Object code by target and name, the latest used."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._codes: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._size_bytes = 0

    def get(self, key: tuple[str, str]) -> bytes | None:
        with self._lock:
            code = self._codes.get(key)
            if code is not None:
                self._codes.move_to_end(key)
            return code

    def put(self, key: tuple[str, str], code: bytes) -> None:
        with self._lock:
            self._size_bytes += len(code) - len(self._codes.pop(key, b""))
            self._codes[key] = code
            while self._size_bytes > _KEPT_BYTES:
                self._size_bytes -= len(self._codes.popitem(last=False)[1])

    def unlock(self) -> None:
        """After a fork: the thread that held the lock is not there."""
        self._lock = threading.Lock()


_kept: Any = _Kept()
os.register_at_fork(after_in_child=_kept.unlock)
