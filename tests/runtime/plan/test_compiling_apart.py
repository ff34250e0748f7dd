"""The CPU device of an application compiles in another process."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from support.models.addition import addition
from support.tflite.builder import TfliteModel

import neurald as nd
from neurald.hal.compiling import separate_compiler
from neurald.hal.memory import mapped_file
from neurald.hal.model.constants import seal_constants
from neurald.runtime.plan import preparer

_PROGRAM = """
import sys
import numpy as np
import neurald as nd
from support.models.addition import addition

if sys.argv[1] == "embedded":
    sys.executable = ""
if sys.argv[1] == "built":
    sys.frozen = True
builder = nd.CompilationBuilder(addition(np.arange(6, dtype=np.float32)), devices=nd.devices()[:1])
builder.set_caching(None)
compilation = builder.finish()
(result,) = compilation.run(np.ones(6, np.float32))
assert result.tolist() == [1, 2, 3, 4, 5, 6], result
print(*sorted({"llvmlite.binding", "neurald.drivers.cpu.compiler"} & set(sys.modules)))
"""


def ran(program: str, argument: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Runs a program in a new process, whose directories are all in a folder."""
    return subprocess.run(
        [sys.executable, "-c", program, argument],
        capture_output=True,
        text=True,
        env={
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": ":".join(sys.path),
            "XDG_CACHE_HOME": str(folder),
            "XDG_RUNTIME_DIR": str(folder),
            "XDG_STATE_HOME": str(folder),
            "NEURALD_AUTOSTART": "0",
        },
        check=False,
    )


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("ordinary", ""),
        ("embedded", "llvmlite.binding neurald.drivers.cpu.compiler"),
        ("built", "llvmlite.binding neurald.drivers.cpu.compiler"),
    ],
)
def test_the_compiler_is_in_another_process_unless_none_can_start(
    kind: str, expected: str, tmp_path: Path
) -> None:
    done = ran(_PROGRAM, kind, tmp_path)
    assert (done.returncode, done.stdout.strip()) == (0, expected), done.stderr


#: Prints whether what runs compiled models was imported before the compiling process was started.
_AHEAD = """
import sys
import time
import neurald as nd
from neurald.hal.compiling import separate_compiler
from neurald.hal.memory import mapped_file

mapped_file._REST_NS = 20_000_000
found = set()
separate_compiler.start_ahead = lambda *arguments, **named: found.update(sys.modules)
time.sleep(0.05)
builder = nd.CompilationBuilder(nd.load_tflite(sys.argv[1]))
builder.set_startup(nd.Startup.OPTIMIZED)
builder.finish()
print(bool(found), "neurald.drivers.cpu.native.thread_pool" in found)
"""


def test_the_process_starts_before_what_runs_models_is_imported(tmp_path: Path) -> None:
    model = TfliteModel()
    graph = model.subgraph()
    x, y = (graph.tensor((2, 3), name=name) for name in "xy")
    weights = graph.tensor((2, 3), name="w", data=np.ones((2, 3), np.float32))
    graph.operator("ADD", (x, weights), (y,), "AddOptions")
    graph.inputs, graph.outputs = (x,), (y,)
    path = model.write(tmp_path / "model.tflite")
    done = ran(_AHEAD, str(path), tmp_path)
    assert (done.returncode, done.stdout.strip()) == (0, "True False"), done.stderr


def test_compilations_that_are_waited_for_have_processes_of_their_own() -> None:
    builder = nd.CompilationBuilder(addition(np.arange(5, dtype=np.float32)), devices=nd.devices()[:1])
    builder.set_caching(None)
    builder.finish()
    assert ("cpu", True) in separate_compiler._pools


def test_the_process_starts_before_constants_that_nobody_has_read_are_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(mapped_file, "_REST_NS", 20_000_000)
    events: list[object] = []
    monkeypatch.setattr(
        separate_compiler,
        "start_ahead",
        lambda name, device, *, is_awaited: events.append((name, is_awaited)),
    )

    def seal(model: nd.Model) -> nd.Model:
        events.append("reads constants")
        return seal_constants(model)

    monkeypatch.setattr(preparer, "seal_constants", seal)
    values = np.arange(7, dtype=np.float32)
    path = tmp_path / "weights"
    path.write_bytes(values.tobytes())
    time.sleep(0.05)
    for expected in ([("cpu", True), "reads constants"], []):
        with path.open("rb") as file:
            model = addition(values, pool=mapped_file.FileMemory(file.fileno(), str(path)))
        events.clear()
        builder = nd.CompilationBuilder(model, devices=nd.devices()[:1])
        builder.set_caching(tmp_path / "cache", bytes(32))
        builder.finish()
        assert events == expected
