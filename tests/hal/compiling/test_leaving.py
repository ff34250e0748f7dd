"""A program that exits leaves what it has not finished compiling to another process."""

import contextlib
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from support.daemon.processes import python_path
from support.models.small import add_model
from support.waiting import wait_until

import neurald as nd
from neurald.hal.cache.store import Cache, CacheLocation
from neurald.hal.cache.variants import SharedCache
from neurald.hal.compiling import keeping, leaving, separate_compiler
from neurald.hal.compiling.job import CompileJob, Keep
from neurald.hal.compiling.keeping import compile_and_keep
from neurald.hal.compiling.leaving import (
    AFTER_EXIT_VARIABLE,
    call_at_exit,
    call_no_more,
    may_leave,
    note_freed,
)
from neurald.hal.compiling.pool import CompilePool
from neurald.hal.device import Artifact
from neurald.hal.errors import BadState, ResourceExhaustedTransient
from neurald.hal.memory.pool import HostMemory

#: A program that ends before its model is compiled for the shapes of an execution. It prints what
#: has run it.
_OPEN_PROGRAM = """
import numpy as np
from support.models.small import add_model, ones
import neurald as nd

builder = nd.CompilationBuilder(add_model((0, 3), operations=30), [nd.open_device("cpu")])
builder.set_startup(nd.Startup.INSTANT)
compilation = builder.finish()
given = np.ones((40, 3), np.float32)
(found,) = compilation.run(given, given)
assert (found == 31).all()
prepared = compilation.recovery.step(compilation.plan.steps[0]).usable()
unfinished = prepared._unfinished
print(type(prepared._variants.latest()).__name__, unfinished is not None and bool(unfinished._shapes))
"""

#: A program that ends before its model is compiled; it may free the compilation before.
_PROGRAM = """
import sys
from support.models.small import add_model, ones
import neurald as nd

def main():
    builder = nd.CompilationBuilder(add_model((2, 3), operations=30), [nd.open_device("cpu")])
    builder.set_startup(nd.Startup.INSTANT)
    compilation = builder.finish()
    print(compilation.report.steps[0].cache.name)
    if sys.argv[1:] == ["keep"]:
        return compilation

compilation = main()
"""


def run(folder: Path, *arguments: str, after_exit: str = "1", program: str = _PROGRAM) -> str:
    """Runs a program; returns what it prints."""
    environment = {
        **os.environ,
        "PYTHONPATH": python_path(),
        "XDG_CACHE_HOME": str(folder),
        AFTER_EXIT_VARIABLE: after_exit,
    }
    result = subprocess.run(
        # Programs that look for leaks find none.
        [sys.executable, "-X", "dev", "-W", "error", "-c", program, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout.strip()


def models(folder: Path) -> list[str]:
    """Returns the descriptions of the entries of the CPU device in the cache."""
    entries = Cache(folder / "neurald").entries() if (folder / "neurald").exists() else []
    return [each.manifest.origin.model for each in entries if each.manifest is not None]


def is_kept(folder: Path) -> bool:
    return any("30 operations" in model for model in models(folder))


@pytest.mark.parametrize("way", ["keep", "free"])
def test_the_next_process_finds_the_code(tmp_path: Path, way: str) -> None:
    assert run(tmp_path, way) == "MISS"
    # It had exited, and nobody waited for what it had left.
    wait_until(lambda: is_kept(tmp_path), 120.0)
    assert run(tmp_path, way) == "HIT"


def test_the_next_process_finds_code_for_any_lengths(tmp_path: Path) -> None:
    assert run(tmp_path, program=_OPEN_PROGRAM).endswith("True")

    def is_open_kept() -> bool:
        entries = Cache(tmp_path / "neurald").entries()
        return any(each.manifest is not None and "open 0" in each.manifest.parts.variant for each in entries)

    wait_until(is_open_kept, 120.0)
    assert run(tmp_path, program=_OPEN_PROGRAM) == "CpuPreparedModel False"


def test_the_environment_forbids_it(tmp_path: Path) -> None:
    assert run(tmp_path, "keep", after_exit="0") == "MISS"
    time.sleep(1)
    assert not is_kept(tmp_path)


def test_values_of_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, expected in (("0", False), ("1", True)):
        monkeypatch.setenv(AFTER_EXIT_VARIABLE, text)
        assert may_leave() is expected
    monkeypatch.delenv(AFTER_EXIT_VARIABLE)
    assert may_leave()
    monkeypatch.setenv(AFTER_EXIT_VARIABLE, "yes")
    with pytest.raises(BadState, match="'yes'; 0 or 1 is expected"):
        may_leave()


def test_each_function_is_called_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(AFTER_EXIT_VARIABLE, "1")
    monkeypatch.setattr(leaving, "_actions", [])
    called: list[int] = []
    for number in range(3):
        call_at_exit(lambda number=number: called.append(number))  # type: ignore[misc]
    leaving.leave()
    leaving.leave()
    assert sorted(called) == [0, 1, 2]


def test_functions_may_be_given_again_and_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(AFTER_EXIT_VARIABLE, "1")
    monkeypatch.setattr(leaving, "_actions", [])
    called: list[int] = []
    first, second = (partial(called.append, number) for number in range(2))
    for action in (first, second, first, second):
        call_at_exit(action)
    call_no_more(first)
    call_no_more(first)
    leaving.leave()
    assert called == [1]


def test_functions_keep_little_of_what_was_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(AFTER_EXIT_VARIABLE, "1")
    monkeypatch.setattr(leaving, "_actions", [])
    monkeypatch.setattr(leaving, "_freed", [])
    called: list[int] = []
    actions = [partial(called.append, number) for number in range(5)]
    for action in actions:
        call_at_exit(action)
    mib = 1 << 20
    note_freed(actions[0], 40 * mib)
    note_freed(actions[1], 20 * mib)
    call_no_more(actions[1])  # what it had to leave is done
    note_freed(actions[2], 24 * mib)
    assert len(leaving._actions) == 4
    note_freed(actions[3], mib)
    assert actions[0] not in leaving._actions
    note_freed(actions[4], 100 * mib)
    assert leaving._actions == []
    assert leaving._freed == []
    note_freed(actions[0], mib)
    assert leaving._freed == [], "one that is not called keeps nothing"


@pytest.mark.parametrize("is_locked", [True, False])
def test_nobody_waits_for_long_for_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_locked: bool
) -> None:
    """Each start of a program that is too short leaves such a process."""
    monkeypatch.setattr(keeping, "_LOCK_WAIT_S", 0.0)
    cache = Cache(tmp_path)
    device = nd.open_device("cpu")
    parts = SharedCache(cache, device, pytest.fail).parts_of(b"anything")
    compiled: list[bool] = []

    def compile_common(_: object) -> Artifact:
        compiled.append(True)
        return Artifact(model=(HostMemory(b"a"),), data=(HostMemory(b"b"),))

    monkeypatch.setattr(type(device), "compile_common", compile_common)
    with cache.lock(parts.key(), 0.0) if is_locked else contextlib.nullcontext():
        compile_and_keep(device, None, Keep(parts=parts, model="anything"), cache.location)
    assert bool(compiled) is not is_locked


def test_little_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(separate_compiler, "_left", [])
    taken: list[CompileJob] = []
    monkeypatch.setattr(CompilePool, "leave", lambda _, job, memories: taken.append(job))
    device = nd.open_device("cpu")
    parts = SharedCache(Cache(Path("/nowhere")), device, pytest.fail).parts_of(b"anything")
    keep = Keep(parts=parts, model="anything")
    location = CacheLocation(path="/nowhere", limit_bytes=0, secret=b"")

    def leave(model: nd.Model | None) -> None:
        separate_compiler.leave_to_process("cpu", device, model, keep, location)

    for _ in range(separate_compiler._MAX_LEFT_MODELS):
        leave(add_model())
    with pytest.raises(ResourceExhaustedTransient, match="is not left as well"):
        leave(add_model())
    leave(None)
    assert len(taken) == separate_compiler._MAX_LEFT_MODELS + 1
    separate_compiler._left.clear()
    monkeypatch.setattr(separate_compiler, "_MAX_LEFT_BYTES", -1)
    with pytest.raises(ResourceExhaustedTransient, match="0 bytes of constants"):
        leave(add_model())
