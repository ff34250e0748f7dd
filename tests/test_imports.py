"""Imports have no cycles, not even those for type checking, and what they name exists."""

import ast
import functools
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from support.daemon.processes import python_path
from support.sources.imports import import_statements
from support.sweeps import sweep

pytestmark = pytest.mark.quick

ROOT = Path(__file__).parent.parent
PACKAGES = ("hal", "runtime", "drivers", "service")


def module_of(path: Path, root: Path) -> str:
    """Returns the module name of a file."""
    parts = ["neurald", *path.relative_to(root).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path, modules: set[str]) -> Iterator[str]:
    """Yields the modules that a file imports, including inside functions and for type checking."""
    for node in import_statements(_text(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif node.module is not None:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in modules else node.module


def import_graph(root: Path) -> Mapping[str, set[str]]:
    """Returns for each module of the package the modules that it imports."""
    files = {
        module_of(path, root): path for package in PACKAGES for path in sorted((root / package).rglob("*.py"))
    }
    modules = set(files)
    return {
        name: {other for other in imported(path, modules) if other in modules and other != name}
        for name, path in files.items()
    }


def cycle(graph: Mapping[str, set[str]]) -> list[str]:
    """Returns a cycle of modules, each of which imports the next one; empty if there is none."""
    done: set[str] = set()
    for start in graph:
        trail: list[str] = []
        stack = [(start, iter(sorted(graph[start])))] if start not in done else []
        while stack:
            name, targets = stack[-1]
            if len(trail) < len(stack):
                trail.append(name)
            target = next((each for each in targets if each not in done), None)
            if target in trail:
                return trail[trail.index(target) :]
            if target is None:
                done.add(name)
                stack.pop()
                trail.pop()
            else:
                stack.append((target, iter(sorted(graph[target]))))
    return []


_IMPORT = re.compile(
    r"^[ \t]*(?:from (neurald\.[\w.]+) import (\([^)]*\)|[^\n]*)|import (neurald\.[\w.]+))", re.MULTILINE
)


def unresolved(text: str, root: Path) -> Iterator[str]:
    """Yields the modules of the package, and the names in them, that a file imports in vain."""
    for source, names, module in _IMPORT.findall(text):
        if not _file_of(root, source or module).is_file():
            yield source or module
            continue
        for name in re.findall(r"(\w+)(?: as \w+)?\s*(?:,|$)", re.sub(r"#.*|[()]", "", names), re.MULTILINE):
            if not _has(root, source, name):
                yield f"{source}.{name}"


@functools.cache
def _file_of(root: Path, module: str) -> Path:
    base = root / module.replace(".", "/")
    return base / "__init__.py" if base.is_dir() else base.with_suffix(".py")


@functools.cache
def _has(root: Path, module: str, name: str) -> bool:
    base = root / module.replace(".", "/")
    return name in _words(_file_of(root, module)) or (base / name).is_dir() or (base / f"{name}.py").is_file()


@functools.cache
def _words(file: Path) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", _text(file)))


@functools.cache
def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def test_what_is_imported_exists() -> None:
    """Types are checked rarely, and a merge can bring a module's old place back."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    missing = {}
    for name in listed.stdout.split():
        path = ROOT / name
        if path.is_file() and "_proto" not in path.parts:
            missing[name] = list(unresolved(_text(path), ROOT / "src"))
    assert {name: found for name, found in missing.items() if found} == {}


def test_imports_in_vain_are_found(tmp_path: Path) -> None:
    (tmp_path / "neurald" / "hal").mkdir(parents=True)
    (tmp_path / "neurald" / "hal" / "__init__.py").write_text("x = 1\n")
    (tmp_path / "neurald" / "hal" / "plain.py").write_text("def f() -> None: ...\n")
    lines = (
        "from {} import plain, x, y",
        "from {}.plain import (\n    f,  # a comment\n    g as h,\n)",
        "    from {}.old.place import f",
        "import {}.gone",
    )
    text = "\n".join(line.format("neurald.hal") for line in lines)
    assert list(unresolved(text, tmp_path)) == [
        "neurald.hal.y",
        "neurald.hal.plain.g",
        "neurald.hal.old.place",
        "neurald.hal.gone",
    ]


def test_there_are_no_import_cycles() -> None:
    assert cycle(import_graph(ROOT)) == [], "each of these imports the next one, and the last one the first"


@sweep(
    ("graph", "expected"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b", "c"}, "b": {"d"}, "c": {"d"}, "d": set()}, []),
        ({"a": {"b"}, "b": {"c"}, "c": {"b"}}, ["b", "c"]),
        ({"a": set(), "b": {"a", "d"}, "c": {"b"}, "d": {"c"}}, ["b", "d", "c"]),
    ],
)
def test_cycles_are_found(graph: dict[str, set[str]], expected: list[str]) -> None:
    assert cycle(graph) == expected


def test_all_kinds_of_imports_count(tmp_path: Path) -> None:
    for package in PACKAGES:
        (tmp_path / package).mkdir()
    (tmp_path / "hal/__init__.py").touch()
    (tmp_path / "hal/lazy.py").write_text("def f():\n    from neurald.hal import plain\n")
    (tmp_path / "hal/plain.py").write_text("import os\nimport neurald.runtime.typed\n")
    (tmp_path / "runtime/typed.py").write_text("if TYPE_CHECKING:\n    from neurald.hal.lazy import f\n")
    assert import_graph(tmp_path) == {
        "neurald.hal": set(),
        "neurald.hal.lazy": {"neurald.hal.plain"},
        "neurald.hal.plain": {"neurald.runtime.typed"},
        "neurald.runtime.typed": {"neurald.hal.lazy"},
    }
    assert len(cycle(import_graph(tmp_path))) == 3


#: Their processes are to import another copy of the sources.
_OF_OTHER_SOURCES = {"mutation/run.py", "test_module_finder.py"}


def test_processes_of_tests_import_the_sources_beside_them(tmp_path: Path) -> None:
    """Another copy of the sources may be installed, and may change during the test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONPATH", raising=False)
        environment = {**os.environ, "PYTHONPATH": python_path()}
    found = subprocess.run(
        [sys.executable, "-c", "import neurald; print(neurald.__file__)"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    tests = Path(__file__).resolve().parent
    assert Path(found.stdout.strip()).is_relative_to(tests.parent / "src")
    # A single folder leaves out the sources.
    single = re.compile(r"""["']PYTHONPATH["']: str\([^()]*\)[,}]""")
    files = {path.relative_to(tests).as_posix(): path for path in sorted(tests.rglob("*.py"))}
    assert [name for name, path in files.items() if single.search(_text(path))] == sorted(_OF_OTHER_SOURCES)
