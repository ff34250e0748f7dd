"""Type checkers accept programs that use every public call, and find misspelled names."""

import dataclasses
import enum
import inspect
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import neurald as nd
from neurald import litert

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = ROOT / "tests" / "support" / "sources" / "public_calls.py"
LITERT_PROGRAM = PROGRAM.with_name("litert_calls.py")
_PACKAGE = "pyright@1.1.414"
_NAMED = inspect.Parameter.KEYWORD_ONLY
#: Names of `neurald.litert`'s classes that LiteRT does not have, and only neurald calls.
_OWN = {"array", "call", "entry_point", "number", "store"}


def test_the_program_uses_every_public_name() -> None:
    public = {name for name in dir(nd) if not name.startswith("_")}
    assert set(re.findall(r"\bnd\.(\w+)", PROGRAM.read_text())) == public


def test_the_program_of_litert_uses_every_public_name() -> None:
    used = re.findall(r"\blitert\.(\w+)", LITERT_PROGRAM.read_text().split('"""', 2)[2])
    assert set(used) == set(litert.__all__)


def test_the_program_uses_every_argument_of_public_functions() -> None:
    used = PROGRAM.read_text()
    for name, function in ((name, getattr(nd, name)) for name in dir(nd) if not name.startswith("_")):
        if inspect.isfunction(function):
            optional = [
                each for each in inspect.signature(function).parameters.values() if each.kind is _NAMED
            ]
            unused = [each.name for each in optional if not re.search(rf"\b{each.name}=", used)]
            assert not unused, name


def test_the_program_of_litert_uses_every_public_call() -> None:
    used = LITERT_PROGRAM.read_text()
    for name, kind in ((name, getattr(litert, name)) for name in litert.__all__):
        if not inspect.isclass(kind) or issubclass(kind, enum.Enum):
            continue
        members = {each for each in dir(kind) if not each.startswith("_")}
        if dataclasses.is_dataclass(kind):
            members.update(each.name for each in dataclasses.fields(kind) if not each.name.startswith("_"))
        lacking = [each for each in members - _OWN if not re.search(rf"\.{each}\b|\b{each}=", used)]
        assert not lacking, name


@pytest.fixture(scope="module")
def pyright(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of pyright, which npm installs."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("Node.js is not installed")
    folder = tmp_path_factory.mktemp("pyright")
    (folder / "package.json").write_text("{}")
    done = subprocess.run(
        [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", _PACKAGE],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    if done.returncode:
        pytest.skip(f"npm cannot install {_PACKAGE}: {done.stderr[-300:]}")
    return folder / "node_modules" / ".bin" / "pyright"


def diagnostics(pyright: Path, files: Sequence[Path]) -> list[dict[str, Any]]:
    """Returns the errors that pyright finds in programs."""
    done = subprocess.run(
        [str(pyright), "--outputjson", "--pythonpath", sys.executable, *map(str, files)],
        cwd=pyright.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    report: list[dict[str, Any]] = json.loads(done.stdout)["generalDiagnostics"]
    return [each for each in report if each["severity"] == "error"]


def test_pyright_accepts_programs(pyright: Path) -> None:
    examples = sorted((ROOT / "examples").glob("*.py"))
    assert len(examples) > 10
    assert diagnostics(pyright, [PROGRAM, LITERT_PROGRAM, *examples]) == []


def test_pyright_finds_mistakes(pyright: Path, tmp_path: Path) -> None:
    program = tmp_path / "mistakes.py"
    program.write_text(
        "import neurald as nd; from neurald import litert\n"
        "nd.load_tflit('model.tflite')\n"
        "nd.compile('model.tflite', thread=2)\n"
        "nd.compile('model.tflite').sumary()\n"
        "nd.CompilationBuilder(nd.load_tflite('a')).set_startup('INSTANT')\n"
        "nd.Priority.HIHG\n"
        "litert.Interprter\n"
        "litert.Interpreter(model_pth='a')\n"
    )
    found = diagnostics(pyright, [program])
    assert {each["range"]["start"]["line"] for each in found} == {1, 2, 3, 4, 5, 6, 7}
