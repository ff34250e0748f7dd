"""A device that compiles in another process, where the model's cache key controls its behaviour."""

import ctypes
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from support.models.addition import AddingDevice, AddingPreparedModel

from neurald.hal.device import (
    CACHE_KEY_BYTES,
    Artifact,
    CacheFilesNeeded,
    CompileResult,
    InputShapes,
    PrepareOptions,
)
from neurald.hal.errors import BadData
from neurald.hal.memory.pool import HostMemory, SharedMemory
from neurald.hal.model.model import Model

DRIVER = "support.devices.compiling:CompilingDevice"
#: Longer than any test.
FOR_EVER_S = 1000.0
NOTE = "compiled apart"


def doing(what: str, *words: object) -> PrepareOptions:
    """Returns options that make the compiling process do something."""
    key = " ".join((what, *map(str, words))).encode()
    assert len(key) <= CACHE_KEY_BYTES
    return PrepareOptions(cache_key=key.ljust(CACHE_KEY_BYTES))


class CompilingDevice(AddingDevice):
    """Runs `addition` with the constant that the compiling process returns."""

    name = "compiling"
    cache_files_needed = CacheFilesNeeded()

    def get_ready_to_compile(self, *, lasts: bool) -> None:
        pass

    def compile(
        self, model: Model, shapes: InputShapes | None, options: PrepareOptions, *, is_open: bool = False
    ) -> CompileResult:
        what, *words = options.cache_key.decode().split()
        return _ACTIONS[what](model, *words)

    def prepare_model(self, model: Model, options: PrepareOptions) -> AddingPreparedModel:
        assert options.compiler is not None
        compiled = options.compiler.compile(deadline_s=options.deadline_s, cancellation=options.cancellation)
        assert compiled.note == NOTE
        return AddingPreparedModel(self, model)


def _echo(model: Model, *words: str) -> CompileResult:
    constant = model.constant(model.main.operands[1])
    assert constant is not None
    artifact = Artifact(
        model=(HostMemory(" ".join(words).encode()),), data=(HostMemory(constant), HostMemory(b""))
    )
    return CompileResult(note=NOTE, artifact=artifact)


def _sleep(model: Model, seconds: str) -> CompileResult:
    time.sleep(float(seconds))
    return CompileResult(note=NOTE)


def _spin(model: Model) -> CompileResult:
    end = time.monotonic() + FOR_EVER_S
    while time.monotonic() < end:
        pass
    return CompileResult(note=NOTE)


def _arrays(model: Model) -> CompileResult:
    kept: list[object] = []
    while len(kept) < 1 << 14:
        kept.append(np.ones(1 << 20, np.uint8))
    return CompileResult(note=NOTE)


def _shared(model: Model) -> CompileResult:
    kept: list[object] = []
    while len(kept) < 1 << 10:
        kept.append(SharedMemory.constant(memoryview(bytes(1 << 24))))
    return CompileResult(note=NOTE)


def _abort(model: Model) -> CompileResult:
    """Aborts, as LLVM does on fatal errors, and C++ on an uncaught `std::bad_alloc`."""
    os.write(2, b"terminate called after throwing an instance of 'std::bad_alloc'\n")
    os.kill(os.getpid(), signal.SIGABRT)
    return CompileResult(note=NOTE)


def _crash(model: Model) -> CompileResult:
    ctypes.string_at(8)
    return CompileResult(note=NOTE)


def _refuse(model: Model) -> CompileResult:
    raise BadData("the model is not to its taste")


def _fail(model: Model) -> CompileResult:
    raise ZeroDivisionError("inside")


def _log(model: Model) -> CompileResult:
    logging.getLogger("neurald.test").warning("%s", "x" * 100_000)
    for number in range(10_000):
        logging.getLogger("neurald.test").warning("line %d", number)
    return CompileResult(note=NOTE)


def _family(model: Model, number: str) -> CompileResult:
    """Starts a child process; reports the numbers of both processes."""
    child = subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({FOR_EVER_S})"])
    path = family_path(int(number))
    path.with_suffix(".part").write_text(f"{os.getpid()} {child.pid}")
    path.with_suffix(".part").rename(path)
    return _spin(model)


def family_path(number: int) -> Path:
    """Returns the path of the file in which `family` reports its processes to a process."""
    return Path(os.environ["NEURALD_SECRET_FILE"]).with_name(f"family{number}")


def _count(model: Model, number: str, seconds: str) -> CompileResult:
    """Notes when it begins and ends beside others, and takes some time between them."""
    for sign in "+-":
        with counts_path(int(number)).open("a") as file:
            file.write(sign)
        if sign == "+":
            time.sleep(float(seconds))
    return CompileResult(note=NOTE)


def counts_path(number: int) -> Path:
    """Returns the path of the file in which `count` notes + at its begin and - at its end."""
    return Path(os.environ["NEURALD_SECRET_FILE"]).with_name(f"counts{number}")


_ACTIONS: dict[str, Callable[..., CompileResult]] = {
    "echo": _echo,
    "sleep": _sleep,
    "spin": _spin,
    "arrays": _arrays,
    "shared": _shared,
    "abort": _abort,
    "crash": _crash,
    "refuse": _refuse,
    "fail": _fail,
    "log": _log,
    "family": _family,
    "count": _count,
}
