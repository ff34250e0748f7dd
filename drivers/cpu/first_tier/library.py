"""The library of the first tier: its kernels as machine code, which all models of a process share.

The package has it for most machines (see `built_library`). Elsewhere, the first model of a machine
finds no library. It is compiled in the background then, in another process, and kept in the cache.
Models use it as soon as it is there. Nothing of the compiler is imported for that in the process of
an application.
"""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from neurald.drivers.compiler.support.artifact_content import artifact_of, content_of
from neurald.drivers.cpu.first_tier.built_library import built_library
from neurald.drivers.cpu.native.objects.image import is_image
from neurald.drivers.cpu.native.objects.llvm import CompilationFailed, LoadedCode
from neurald.drivers.cpu.native.thread_pool import Team, process, step_program_unit
from neurald.drivers.cpu.target.target import Target
from neurald.hal.cache.store import CacheLocation
from neurald.hal.cache.variants import SharedCache
from neurald.hal.compiling.leaving import call_at_exit
from neurald.hal.device import Artifact, Variants
from neurald.hal.errors import BadData, Cancelled, Error
from neurald.hal.process.fork import forkable_lock
from neurald.hal.sync.cancellation import Cancellation

if TYPE_CHECKING:
    # Where the package has the library, nothing is sent to other processes.
    from neurald.hal.compiling.job import Keep

_LOG = logging.getLogger(__name__)

_MAGIC: Final = b"ncpl0001"
_NAME: Final = b"first tier"

#: The library in memory, or objects.
Code: TypeAlias = LoadedCode | tuple[bytes, ...]


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    target: str
    codes: tuple[bytes, ...]
    step_program: bytes


class FirstTierLibrary:
    """The library for a target. Thread-safe.

    Args:
        target: the target of its code.
        compile_apart: compiles it in another process, and returns the artifact; None to compile it
            in this process.
        leave: leaves it to another process when this process exits, see `leave_to_process`.
    """

    def __init__(
        self,
        target: Target,
        compile_apart: Callable[[Cancellation], Artifact] | None = None,
        leave: "Callable[[Keep, CacheLocation], None] | None" = None,
    ) -> None:
        self.target = target
        self._leave = leave
        self._compile_apart = compile_apart
        self._lock = forkable_lock()
        self._code: Code | None = None
        #: The process that compiles it; a forked child begins again.
        self._compiling = 0
        self._ready = threading.Event()

    def code(self, variants: Variants | None) -> Code | None:
        """Returns the code, or begins to compile it and returns None.

        Args:
            variants: where it is kept; None to keep it in this process only.
        """
        if self._code is not None:
            return self._code
        with self._lock:
            if self._code is None:
                self._load_built()
            if self._code is None and variants is not None:
                self._load(variants)
            if self._code is None and self._compiling != os.getpid():
                self._compiling = os.getpid()
                self._ready = threading.Event()
                from neurald.hal.execution.background_worker import worker  # not needed if the cache has it

                if worker.submit(partial(self._compile, variants)) is None:
                    self._compiling = 0
            return self._code

    def wait(self, timeout_s: float) -> bool:
        """Waits until the code is there, and kept if it was compiled; returns True if it is."""
        return self._ready.wait(timeout_s)

    def team(self, threads: int) -> Team:
        """Returns the threads that run a model."""
        return Team(process.step_program(self.target), threads)

    def _load_built(self) -> None:
        built = built_library(self.target)
        if built is None:
            return
        try:
            self._code = LoadedCode.of_image(built)
        except (BadData, CompilationFailed) as error:
            _LOG.warning("the kernels of the first tier in this package cannot be loaded: %s", error)
        else:
            self._ready.set()

    def _load(self, variants: Variants) -> None:
        artifact = variants.load(_NAME)
        if artifact is None:
            return
        try:
            stored = read_library(artifact, self.target)
            code = _loaded(stored.codes)
        except (BadData, CompilationFailed) as error:
            _LOG.info("the kernels of the first tier are compiled again: %s", error)
            return
        process.step_program(self.target, stored.step_program)
        self._code = code
        self._ready.set()

    def _compile(self, variants: Variants | None, cancellation: Cancellation) -> None:
        if self._leave is not None and isinstance(variants, SharedCache):
            call_at_exit(partial(self._leave_unfinished, self._leave, variants))
        started = time.perf_counter()
        artifact = self._compiled(cancellation)
        stored = read_library(artifact, self.target)
        process.step_program(self.target, stored.step_program)
        self._code = _loaded(stored.codes)
        if variants is not None:
            variants.store(_NAME, artifact, (time.perf_counter() - started) * 1e3)
        self._ready.set()

    def _leave_unfinished(self, leave: "Callable[[Keep, CacheLocation], None]", shared: SharedCache) -> None:
        """Leaves the library to another process, if this process exits before it is compiled."""
        if self._code is None:
            from neurald.hal.compiling.job import Keep

            keep = Keep(parts=shared.parts_of(_NAME), model="kernels of the first tier")
            with contextlib.suppress(Error, OSError):
                leave(keep, shared.location)

    def _compiled(self, cancellation: Cancellation) -> Artifact:
        if self._compile_apart is not None:
            try:
                return self._compile_apart(cancellation)
            except Cancelled:
                raise
            except Error as error:
                _LOG.info("the kernels of the first tier are compiled in this process: %s", error)
        return compile_library(self.target)


def _loaded(codes: tuple[bytes, ...]) -> Code:
    """Loads an image; objects that only LLVM links are loaded by each model."""
    return LoadedCode.of_image(codes[0]) if len(codes) == 1 and is_image(codes[0]) else codes


def compile_library(target: Target) -> Artifact:
    """Compiles the library and returns its artifact. Imports the compiler."""
    from neurald.drivers.cpu.first_tier.kernels.units import library_units
    from neurald.drivers.cpu.native.objects.compile_helper import process_count
    from neurald.drivers.cpu.native.objects.llvm import link_image
    from neurald.drivers.cpu.native.objects.object_code import ObjectCompilation

    step_program = step_program_unit()
    with ObjectCompilation(target, processes=process_count()) as compilation:
        for unit in (step_program, *library_units(target)):
            compilation.add(unit)
        found = compilation.finish()
    (program,) = link_image((found.pop(step_program.name),))
    return write_library(target, link_image(tuple(found.values())), program)


def write_library(target: Target, codes: tuple[bytes, ...], step_program: bytes) -> Artifact:
    """Writes an artifact for `read_library`."""
    stored = _Stored(target=target.name, codes=codes, step_program=step_program)
    return artifact_of(_MAGIC, stored)


def read_library(artifact: Artifact, target: Target) -> _Stored:
    """Reads an artifact. Nothing in it has been made executable yet.

    Raises:
        BadData: it is damaged, or for another target.
    """
    stored = content_of(artifact, _MAGIC, _Stored, "the library of the CPU driver")
    if stored.target != target.name:
        raise BadData(f"the library is for {stored.target}; {target.name} is expected")
    return stored
