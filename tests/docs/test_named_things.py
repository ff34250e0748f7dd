"""Commands, options, names of the library and variables that pages mention exist."""

import functools
import importlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support.sweeps import sweep
from typer.main import get_command

import neurald as nd
from neurald.service.cli import app

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "examples/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`]+)`")
_COMMAND = re.compile(r"(?:^|[\s/])neurald ((?:[a-z][a-z-]*)(?: [^&|;#]*)?)")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
_LIBRARY = re.compile(r"\bnd((?:\.[A-Za-z_]\w*)+)")
#: Without packages of the wire protocol: `neurald.v1.Device`.
_MODULE = re.compile(r"(?<![\w./-])neurald((?:\.(?!v\d)[A-Za-z_]\w*)+)")
_VARIABLE = re.compile(r"\bNEURALD_[A-Z_]+\b")
#: Names that only look like those of modules: files, versions and units of other programs.
_FILES = (".toml", ".service", ".socket", ".sock", ".conf", ".yaml", ".json", ".cpio", ".tflite", ".pub")


@functools.cache
def _code(page: Path) -> tuple[str, ...]:
    """Returns the lines of code blocks, without output, and the code in the text of a page."""
    text = page.read_text(encoding="utf-8")
    lines = []
    for language, block in _BLOCK.findall(text):
        joined = block.replace("\\\n", " ")
        prompted = language == "console"
        lines += [line for line in joined.splitlines() if not prompted or line.startswith("$ ")]
    spans = [" ".join(span.split()) for span in _SPAN.findall(_BLOCK.sub("", text))]
    return (*lines, *spans)


def _uses(page: Path) -> Iterator[tuple[str, Any, str]]:
    """Yields the commands that a page mentions: text, command or None, and arguments."""
    for line in _code(page):
        for found in _COMMAND.findall(line):
            words, command = found.split(), get_command(app)
            while words and hasattr(command, "commands") and words[0] in command.commands:
                command = command.commands[words.pop(0)]
            is_known = not hasattr(command, "commands") or command is not get_command(app)
            yield found, command if is_known else None, " ".join(words)


@sweep("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_their_options_exist(page: Path) -> None:
    for text, command, arguments in _uses(page):
        assert command is not None, f"neurald {text}"
        known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
        for option in _OPTION.findall(arguments):
            assert option in known | {"--help"}, f"neurald {text}"


@sweep("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_names_of_the_library_exist(page: Path) -> None:
    for line in _code(page):
        for path in _LIBRARY.findall(line):
            found: Any = nd
            for name in path.split(".")[1:]:
                assert hasattr(found, name), f"nd{path}"
                found = getattr(found, name)
                if not isinstance(found, type):
                    break


@sweep("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_modules_exist(page: Path) -> None:
    for line in _code(page):
        for path in _MODULE.findall(line):
            if path.endswith(_FILES):
                continue
            assert _resolves(f"neurald{path}"), f"neurald{path}"


@functools.cache
def _resolves(path: str) -> bool:
    """Returns True if a path is that of a module, or of something in one."""
    words = path.split(".")
    for count in range(len(words), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(words[:count]))
        except ImportError:
            continue
        for name in words[count:]:
            if not hasattr(found, name):
                return False
            found = getattr(found, name)
        return True
    return False


@sweep("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_variables_are_read(page: Path) -> None:
    """`docs/environment.md` has all of them but those of tests; see `test_environment.py`."""
    assert set(_VARIABLE.findall(page.read_text(encoding="utf-8"))) <= _variables_in_code()


@functools.cache
def _variables_in_code() -> frozenset[str]:
    folders = ("hal", "runtime", "drivers", "service", "benchmarks", "scripts", "tests")
    found = subprocess.run(
        ["git", "grep", "-hoE", r"\bNEURALD_[A-Z_]+\b", "--", *folders],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    # `tests/outside` makes these names from those of suites.
    suites = ("INTERPRETER", "KERAS", "ONNX", "QUANTIZER")
    return frozenset((*found.stdout.split(), *(f"NEURALD_{suite}_CHECKOUT" for suite in suites)))
