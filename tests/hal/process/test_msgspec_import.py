"""msgspec is imported without typing_extensions, which others still find."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from neurald.hal.process import msgspec_import

_DECODED = """
import msgspec
from typing import Annotated, NotRequired, TypedDict

class Pair(TypedDict):
    first: Annotated[int, msgspec.Meta(gt=0)]
    second: NotRequired["list[float] | None"]

assert msgspec.json.decode(b'{"first": 1}', type=Pair) == {"first": 1}
"""


def run(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("use", ["neurald.load_tflite", "neurald.litert.Interpreter"])
def test_what_msgspec_can_do_without_is_not_imported(use: str) -> None:
    module = use.rpartition(".")[0]
    program = f"""
import {module}
{use}
import sys
print("typing_extensions" in sys.modules)
{_DECODED}
import typing_extensions
print(typing_extensions.__spec__ is not None)
"""
    assert run(program) == "False\nTrue\n"


def test_other_threads_find_it_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    finder = msgspec_import._finder
    monkeypatch.setattr(finder, "thread", threading.get_ident())
    with pytest.raises(ModuleNotFoundError, match="not needed"):
        finder.find_spec("typing_extensions")
    finder.find_spec("typing")
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(finder.find_spec, "typing_extensions").exception() is None


def test_what_is_there_already_is_left_alone() -> None:
    program = """
import sys, typing_extensions
from neurald.hal.process.msgspec_import import import_msgspec
before = len(sys.meta_path)
import_msgspec()
print("msgspec" in sys.modules, len(sys.meta_path) - before)
"""
    assert run(program) == "False 0\n"
