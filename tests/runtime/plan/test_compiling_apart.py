"""The CPU device of an application compiles in another process."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.models.addition import addition

import neurald as nd
from neurald.hal.compiling import background

_PROGRAM = """
import sys
import numpy as np
import neurald as nd
from support.models.addition import addition

if sys.argv[1] == "embedded":
    sys.executable = ""
builder = nd.CompilationBuilder(addition(np.arange(6, dtype=np.float32)), devices=nd.devices()[:1])
builder.set_caching(None)
compilation = builder.finish()
(result,) = compilation.run(np.ones(6, np.float32))
assert result.tolist() == [1, 2, 3, 4, 5, 6], result
print(*sorted({"llvmlite.binding", "neurald.drivers.cpu.compiler"} & set(sys.modules)))
"""


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("ordinary", ""), ("embedded", "llvmlite.binding neurald.drivers.cpu.compiler")],
)
def test_the_compiler_is_in_another_process_unless_none_can_start(
    kind: str, expected: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, kind],
        capture_output=True,
        text=True,
        env={
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": ":".join(sys.path),
            "XDG_CACHE_HOME": str(tmp_path),
            "XDG_RUNTIME_DIR": str(tmp_path),
            "XDG_STATE_HOME": str(tmp_path),
            "NEURALD_AUTOSTART": "0",
        },
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, expected), done.stderr


def test_compilations_that_are_waited_for_have_processes_of_their_own() -> None:
    builder = nd.CompilationBuilder(addition(np.arange(5, dtype=np.float32)), devices=nd.devices()[:1])
    builder.set_caching(None)
    builder.finish()
    assert ("cpu", True) in background._pools
