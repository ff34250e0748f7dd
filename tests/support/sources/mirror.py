"""Maps source files to test files: the one of the same name, or the one in `covered_by`.

`covered_by` has a table for each folder of sources.
"""

import ast
from collections.abc import Mapping
from pathlib import Path

from support.covered_by import compiler, cpu, hal, opencl, runtime, sample, service

#: The source folders that `tests/` mirrors.
SOURCES = ("runtime", "hal", "drivers", "service")

#: The test file that covers a source file without a test file of the same name.
COVERED_BY: Mapping[str, str] = {
    source: test
    for table in (runtime, hal, compiler, cpu, opencl, sample, service)
    for source, test in table.COVERED_BY.items()
}


def mirror_of(source: str) -> str:
    """Returns the path of the test file of the same name, whether it exists or not."""
    folder, _, name = source.rpartition("/")
    return f"tests/{folder}/test_{name}"


def sources(root: Path) -> list[str]:
    """Returns the paths of all source files of a repository, without those that only import."""
    files = (path for folder in SOURCES for path in sorted((root / folder).rglob("*.py")))
    return [str(path.relative_to(root)) for path in files if _has_code(path)]


def _has_code(path: Path) -> bool:
    if path.name != "__init__.py":
        return True
    statements = ast.parse(path.read_text(encoding="utf-8")).body
    return not all(
        isinstance(each, ast.Import | ast.ImportFrom | ast.Expr)
        or (isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "__all__")
        for each in statements
    )
