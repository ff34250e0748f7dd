#!/usr/bin/env python3
"""Compiles the library of the CPU driver's first tier for x86-64, as files of the package.

With --check it fails instead if a file is not what its sources give.

Run with the environment's Python: .venv/bin/python scripts/first_tier_library.py
"""

import ast
import inspect
import sys
import zlib
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, FunctionType, ModuleType

import llvmlite.binding as llvm
import msgspec

from neurald.drivers.cpu.first_tier import built_library
from neurald.drivers.cpu.first_tier.built_library import (
    INDEX,
    MACHINE,
    TARGETS,
    BuiltFile,
    Index,
    file_of,
    text_digest,
)
from neurald.drivers.cpu.first_tier.kernels.units import library_units
from neurald.drivers.cpu.native.objects.elf_linker import link
from neurald.drivers.cpu.native.objects.llvm import TargetMachine
from neurald.drivers.cpu.native.objects.unit_queue import Unit
from neurald.drivers.cpu.target import target as targets
from neurald.hal.cache.sources import sources_digest
from neurald.hal.decoding import from_json
from neurald.hal.digests import hex_digest_of

FOLDER = Path(built_library.__file__).resolve().parent
#: What may generate texts. (What it uses of `hal` has no effect on them.)
GENERATORS = ("neurald.drivers.compiler.", "neurald.drivers.cpu.")
#: What only reads the result, whose format has a version.
READERS = frozenset(("neurald.drivers.cpu.native.objects.image",))
#: What compiles them.
COMPILERS = frozenset(
    f"neurald.drivers.cpu.native.objects.{name}" for name in ("elf_architecture", "elf_linker", "llvm")
)


@contextmanager
def noted_calls(found: set[str]) -> Iterator[None]:
    """Adds the names of the modules whose functions are called within the context."""

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            found.add(frame.f_globals.get("__name__", ""))

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


def sources(called: Set[str]) -> tuple[str, ...]:
    """Returns the paths, in the package, of what decides about the texts and compiles them.

    These are the modules whose functions were called, and those from which they import anything
    else than functions.

    Args:
        called: the modules whose functions were called.
    """
    found = {name for name in called if name.startswith(GENERATORS)} | COMPILERS
    pending = list(found)
    while pending:
        more = {name for name in _imported(pending.pop()) if name.startswith(GENERATORS)} - found
        found |= more
        pending += more
    return tuple(sorted(f"{name.removeprefix('neurald.').replace('.', '/')}.py" for name in found - READERS))


def _imported(name: str) -> Iterator[str]:
    """Yields the modules from which a module imports anything else than functions and modules."""
    for node in ast.walk(ast.parse(inspect.getsource(sys.modules[name]))):
        if isinstance(node, ast.ImportFrom) and node.module in sys.modules:
            source = sys.modules[node.module]
            values = [getattr(source, each.name, None) for each in node.names]
            if not all(isinstance(value, FunctionType | ModuleType) for value in values):
                yield node.module


def compiled(target: str, units: Sequence[Unit]) -> bytes:
    """Returns the library of a target as an encoded image."""
    machine = TargetMachine(targets.TARGETS[target], f"{MACHINE}-unknown-linux-gnu")
    return link([machine.object_code(unit.text) for unit in units]).encoded()


def read_index() -> Index:
    """Returns the index of the files; an empty one if there is none."""
    try:
        return from_json((FOLDER / INDEX).read_bytes(), Index)
    except (OSError, msgspec.DecodeError):
        return Index(llvm="", sources=(), digest="", files={})


def _is_intact(target: str, known: BuiltFile) -> bool:
    try:
        return hex_digest_of(zlib.decompress((FOLDER / file_of(target)).read_bytes())) == known.content
    except (OSError, zlib.error):
        return False


def main(arguments: Sequence[str]) -> int:
    """Writes or checks the files; returns the exit status."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    checks = "--check" in arguments
    before, version = read_index(), ".".join(map(str, llvm.llvm_version_info))
    files: dict[str, BuiltFile] = {}
    called: set[str] = set()
    for target in TARGETS:
        with noted_calls(called):
            units = library_units(targets.TARGETS[target])
        image = compiled(target, units)
        files[target] = BuiltFile(text=text_digest(units), content=hex_digest_of(image))
        if not checks:
            (FOLDER / file_of(target)).write_bytes(zlib.compress(image, 9))
        elif before.files.get(target) != files[target] or not _is_intact(target, files[target]):
            return _outdated(FOLDER / file_of(target))
    paths = sources(called)
    index = Index(llvm=version, sources=paths, digest=sources_digest(*paths), files=files)
    if not checks:
        (FOLDER / INDEX).write_bytes(msgspec.json.format(msgspec.json.encode(index), indent=2) + b"\n")
    elif index != before:
        return _outdated(FOLDER / INDEX)
    return 0


def _outdated(file: Path) -> int:
    sys.stderr.write(f"{file} is outdated; run scripts/first_tier_library.py\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
