"""Lists the test files that a change affects, for `scripts/test --changed`.

The change is the difference to the branch `main` (on `main` itself: to the last commit), and
untracked files. For a source file these are its own test file, or the one that
`tests/support/covered_by` names, and the tests that import it, directly or through helpers in
`tests/`; for a helper, the tests that import it; for a test, itself; for a page of Markdown,
`tests/docs`; for a file in `docs/`, `examples/` or `benchmarks/`, the folder of that name in
`tests/`.
"""

import ast
import functools
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from support.sources.imports import import_statements  # noqa: E402
from support.sources.mirror import COVERED_BY, SOURCES, mirror_of  # noqa: E402


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603, S607
    return done.stdout.split()


def changed_files() -> list[str]:
    """Returns the paths of changed files, relative to the repository."""
    try:
        (base,) = _git("merge-base", "main", "HEAD")
    except (subprocess.CalledProcessError, ValueError):
        base = "HEAD"  # there is no branch main, as in a shallow clone
    return sorted({*_git("diff", "--name-only", base), *_git("ls-files", "--others", "--exclude-standard")})


def module_of(path: str) -> str | None:
    """Returns a file's module name, such as `neurald.hal.device` or `support.models.small`."""
    if not path.endswith(".py"):
        return None
    parts = path.removesuffix(".py").split("/")
    if parts[-1] == "__init__":
        parts.pop()
    if parts and parts[0] in SOURCES:
        return ".".join(["neurald", *parts])
    return ".".join(parts[1:]) if parts and parts[0] == "tests" else None


def imports_of(path: Path) -> set[str]:
    """Returns the modules that a file imports, and imported names, which may be modules."""
    found: set[str] = set()
    for node in import_statements(path.read_text(encoding="utf-8")):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif node.module is not None:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


@functools.cache
def _importers() -> tuple[frozenset[str], Mapping[str, set[str]]]:
    """Returns all files in `tests/`, and for each module name the files that import it."""
    files = {str(path.relative_to(ROOT)): path for path in sorted((ROOT / "tests").rglob("*.py"))}
    importers: dict[str, set[str]] = {}
    for name, path in files.items():
        for module in imports_of(path):
            importers.setdefault(module, set()).add(name)
    return frozenset(files), importers


def _folders_for(path: str) -> set[str]:
    """Returns the folders whose tests check a page, an example, or a benchmark."""
    top = path.partition("/")[0]
    folders = {f"tests/{top}"} if top in ("docs", "examples", "benchmarks") else set()
    return folders | {"tests/docs"} if path.endswith(".md") else folders


def touched_tests(changed: list[str]) -> list[str]:
    """Returns the test files to run for changed files."""
    files, importers = _importers()
    touched: set[str] = set()
    waiting = list(changed)
    seen = set(waiting)
    while waiting:
        file = waiting.pop()
        folder, _, name = file.rpartition("/")
        if name.startswith("test_") and file in files:
            touched.add(file)
            continue
        for covering in _folders_for(file):
            touched.update(test for test in files if test.startswith(f"{covering}/test_"))
        own = COVERED_BY.get(file, mirror_of(file))
        if own in files:
            touched.add(own)
        if name == "conftest.py":
            touched.update(test for test in files if test.startswith(f"{folder}/") and "/test_" in test)
        for importer in importers.get(module_of(file) or "", set()) - seen:
            seen.add(importer)
            waiting.append(importer)
    return sorted(touched)


def main() -> None:
    """Prints the files, one per line."""
    sys.stdout.writelines(f"{path}\n" for path in touched_tests(changed_files()))


if __name__ == "__main__":
    main()
