"""Ctrl-C in the middle of an import, of the command line's or of others."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from neurald.service.console import interrupts

#: Interrupts itself while it is imported.
_MODULE = """
import os, signal, time
os.kill(os.getpid(), signal.SIGINT)
time.sleep(0.05)
is_whole = True
"""
_PROGRAM = """
import sys, time
from neurald.service.console.interrupts import interrupt_after_imports
interrupt_after_imports()
try:
    import interrupted
    time.sleep(60)
except KeyboardInterrupt:
    print(sys.modules["interrupted"].is_whole)
"""
#: Runs the command, and interrupts it while its modules are imported.
_COMMAND = """
import os, runpy, signal, sys

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "neurald.service.cli.doctor":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder)
sys.argv = ["neurald", "doctor"]
runpy.run_module("neurald", run_name="__main__", alter_sys=True)
"""


def test_an_import_is_completed_first(tmp_path: Path) -> None:
    (tmp_path / "interrupted.py").write_text(_MODULE)
    (tmp_path / "program.py").write_text(_PROGRAM)
    ran = subprocess.run([sys.executable, tmp_path / "program.py"], capture_output=True, text=True)
    assert (ran.stdout, ran.stderr, ran.returncode) == ("True\n", "", 0)


def test_the_command_ends_as_at_any_other_moment() -> None:
    ran = subprocess.run([sys.executable, "-c", _COMMAND], capture_output=True, text=True)
    assert (ran.stderr, ran.returncode) == ("", 130)


def test_the_command_is_ready_for_it_soon() -> None:
    """Imports before that can be interrupted in their middle, and these take longest."""
    program = "import sys, neurald.__main__; print(*{'typing', 'signal', 'enum', 're'} & set(sys.modules))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    # Without what the installation imports at the start of Python.
    ran = subprocess.run(
        [sys.executable, "-S", "-c", program], env=environment, capture_output=True, text=True
    )
    assert (ran.stdout.strip(), ran.stderr) == ("", "")


def test_outside_of_imports_it_comes_at_once() -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupts._interrupted(signal.SIGINT, None)


def test_an_import_that_starts_a_thread(tmp_path: Path) -> None:
    """`threading` holds a lock then, which it would wait for if it started another one."""
    module = "import os, signal, threading\nwith threading._active_limbo_lock:\n"
    module += "    os.kill(os.getpid(), signal.SIGINT)\nis_whole = True\n"
    (tmp_path / "interrupted.py").write_text(module)
    (tmp_path / "program.py").write_text(_PROGRAM)
    ran = subprocess.run(
        [sys.executable, tmp_path / "program.py"], capture_output=True, text=True, timeout=60
    )
    assert (ran.stdout, ran.stderr, ran.returncode) == ("True\n", "", 0)


def test_an_import_that_has_no_end_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "_MAX_IMPORT_S", 0.02)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "endless_module.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)\n"
    )
    before, began = signal.signal(signal.SIGINT, interrupts._interrupted), time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            __import__("endless_module")
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda *_: None])
def test_other_handlers_stay(handler: signal.Handlers) -> None:
    before = signal.signal(signal.SIGINT, handler)
    try:
        interrupts.interrupt_after_imports()
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)
