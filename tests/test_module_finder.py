"""The finder of the package's modules says what Python's own search does."""

import marshal
import os
import py_compile
import subprocess
import sys
import zipfile
from collections.abc import Callable
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import cache_from_source, module_from_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, NoReturn

import pytest

import neurald
from neurald._module_finder import ModuleFinder, ModuleLoader

pytestmark = pytest.mark.quick

FOLDER = Path(neurald.__file__).parent


def test_modules_are_found_as_by_the_search() -> None:
    finder, pending, count = ModuleFinder("neurald"), [("neurald", [str(FOLDER)])], 0
    while pending:
        package, path = pending.pop()
        for module in iter_modules(path):
            name = f"{package}.{module.name}"
            found, expected = finder.find_spec(name, path), PathFinder.find_spec(name, path)
            assert found is not None
            assert expected is not None
            assert _of(found) == _of(expected), name
            count += 1
            if found.submodule_search_locations is not None:
                pending.append((name, found.submodule_search_locations))
    assert count > 500


def _of(spec: ModuleSpec) -> object:
    """Returns what a module is, and how it is loaded."""
    loader = spec.loader
    assert isinstance(loader, SourceFileLoader)
    places = spec.submodule_search_locations
    code = (loader.name, loader.path, loader.get_code(spec.name))
    return spec.name, spec.origin, spec.cached, spec.has_location, spec.parent, places, code


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("neurald.missing", [str(FOLDER)]),
        ("neurald.hal", None),
        ("neurald.hal", []),
        ("neurald.hal", [str(FOLDER / "missing"), str(FOLDER)]),
        ("neuraldo.hal", [str(FOLDER)]),
    ],
)
def test_other_modules_are_left_to_the_search(name: str, path: list[str] | None) -> None:
    assert ModuleFinder("neurald").find_spec(name, path) is None


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """A module with bytecode, in a package that is searched by path."""
    path = tmp_path / "package" / "module.py"
    path.parent.mkdir()
    path.write_text("VALUE = 1\n")
    py_compile.compile(str(path))
    return path


def _value(module: Path) -> object:
    """Returns what a module defines if it is loaded now."""
    spec = ModuleFinder("package").find_spec("package.module", [str(module.parent)])
    assert spec is not None
    assert isinstance(spec.loader, ModuleLoader)
    loaded = module_from_spec(spec)
    spec.loader.exec_module(loaded)
    assert loaded.__cached__ == cache_from_source(str(module))
    assert spec.loader.get_code("package.module").co_filename == str(module)  # type: ignore[union-attr]
    return loaded.VALUE


def _bytecode(module: Path) -> Path:
    return Path(cache_from_source(str(module)))


def test_bytecode_is_read_without_the_source(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> NoReturn:
        raise AssertionError("the source was asked for")

    monkeypatch.setattr(SourceFileLoader, "get_data", refuse)
    spec = ModuleFinder("package").find_spec("package.module", [str(module.parent)])
    assert spec is not None
    assert isinstance(spec.loader, ModuleLoader)
    namespace: dict[str, object] = {}
    exec(spec.loader.get_code("package.module") or "", namespace)
    assert namespace["VALUE"] == 1


@pytest.mark.parametrize("seconds", [0, 10], ids=["another size", "another time"])
def test_bytecode_of_an_earlier_source_is_not_used(module: Path, seconds: int) -> None:
    before = module.stat()
    module.write_text("VALUE = 2\n" if seconds else "VALUE = 22\n")
    os.utime(module, ns=(before.st_atime_ns, before.st_mtime_ns + seconds * 10**9))
    assert _value(module) == (2 if seconds else 22)


def test_a_source_that_is_written_after_its_first_import_is_loaded_again(module: Path) -> None:
    spec = ModuleFinder("package").find_spec("package.module", [str(module.parent)])
    assert spec is not None
    assert isinstance(spec.loader, ModuleLoader)
    first = spec.loader.get_code("package.module")
    module.write_text("VALUE = 22\n")
    second = spec.loader.get_code("package.module")
    assert first is not None
    assert second is not None
    assert (first.co_consts, second.co_consts) == ((1, None), (22, None))


@pytest.mark.parametrize(
    "damaged",
    [
        lambda content: b"",
        lambda content: content[:10],
        lambda content: content[:16],
        lambda content: content[:-10],
        lambda content: b"\0\0\0\0" + content[4:],
        lambda content: content[:16] + marshal.dumps("no code"),
    ],
)
def test_damaged_bytecode_is_left_to_python(module: Path, damaged: Callable[[bytes], bytes]) -> None:
    path = _bytecode(module)
    path.write_bytes(damaged(path.read_bytes()))
    spec = PathFinder.find_spec("module", [str(module.parent)])
    assert spec is not None
    assert isinstance(spec.loader, SourceFileLoader)
    try:
        expected = spec.loader.get_code("module")
    except (EOFError, ImportError) as error:
        with pytest.raises(type(error)):
            _value(module)
    else:
        assert expected is not None
        assert _value(module) == 1


def test_bytecode_longer_than_one_read_is_loaded(module: Path) -> None:
    module.write_text(f"VALUE = {'x' * 200_000!r}\n")
    py_compile.compile(str(module))
    assert _value(module) == "x" * 200_000


def test_paths_in_bytecode_of_a_folder_that_was_moved_are_corrected(module: Path) -> None:
    module.write_text("def value():\n    return 1\n\nVALUE = value\n")
    py_compile.compile(str(module))
    moved = module.parent.rename(module.parent.with_name("moved")) / module.name
    value: Any = _value(moved)
    assert value.__code__.co_filename == str(moved)


def test_bytecode_that_is_checked_otherwise_is_left_to_python(module: Path) -> None:
    py_compile.compile(str(module), invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)
    module.write_text("VALUE = 2\n")
    assert _value(module) == 2


def test_bytecode_elsewhere_is_left_to_python(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "pycache_prefix", str(module.parent / "elsewhere"))
    spec = ModuleFinder("package").find_spec("package.module", [str(module.parent)])
    assert spec is not None
    assert type(spec.loader) is SourceFileLoader
    assert spec.cached == cache_from_source(str(module))


def _printed(code: str, path: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(path)}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    ).stdout.strip()


def test_hooks_of_tools_come_first() -> None:
    code = """
import sys

class Hook:
    asked = []

    def find_spec(self, name, path=None, target=None):
        self.asked.append(name)

sys.meta_path.insert(0, Hook())
import neurald.hal.errors
from neurald._module_finder import ModuleFinder

kinds = [type(each) for each in sys.meta_path]
print("neurald.hal.errors" in Hook.asked, kinds.count(ModuleFinder), kinds.index(ModuleFinder) > 0)
"""
    assert _printed(code, FOLDER.parent) == "True 1 True"


def test_archives_are_searched_as_usual(tmp_path: Path) -> None:
    archive = tmp_path / "package.zip"
    with zipfile.ZipFile(archive, "w") as written:
        for name in ("__init__.py", "_module_finder.py", "_version.py"):
            written.write(FOLDER / name, f"neurald/{name}")
    code = """
import sys
import neurald

print(neurald.__file__.endswith("package.zip/neurald/__init__.py"))
print("ModuleFinder" in [type(each).__name__ for each in sys.meta_path])
"""
    assert _printed(code, archive).split() == ["True", "False"]
