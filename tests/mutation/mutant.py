"""A mutant: one deliberate fault in one source file, and the tests that must find it."""

import ast
from dataclasses import dataclass
from pathlib import Path

#: The root of the repository.
ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One replacement of text in one file.

    Attributes:
        name: short and unique, for `--only`.
        file: path of the source file in the repository.
        text: the text to replace; it occurs exactly once in the file.
        replacement: the faulty text.
        breaks: a sentence that says what no longer works.
        tests: test files, or `file::test` for single tests, of the default tier. At least one of
            their tests must fail.
    """

    name: str
    file: str
    text: str
    replacement: str
    breaks: str
    tests: tuple[str, ...]


def defects(mutant: Mutant, root: Path = ROOT) -> list[str]:
    """Returns what prevents a mutant from being applied and tested; empty if nothing does."""
    found = []
    path = root / mutant.file
    count = path.read_text(encoding="utf-8").count(mutant.text) if path.is_file() else None
    if count is None:
        found.append(f"{mutant.file} does not exist")
    elif count != 1:
        found.append(f"its text occurs {count} times in {mutant.file}; exactly once is expected")
    if mutant.text == mutant.replacement:
        found.append("its replacement is the text itself")
    if not mutant.tests:
        found.append("it names no tests")
    for test in mutant.tests:
        file, _, name = test.partition("::")
        if not (root / file).is_file():
            found.append(f"{file} does not exist")
        elif name and name not in _test_names(root / file):
            found.append(f"{file} has no test {name}")
    return found


def _test_names(path: Path) -> set[str]:
    """Returns the names of the test functions at the top level of a file."""
    statements = ast.parse(path.read_text(encoding="utf-8")).body
    return {each.name for each in statements if isinstance(each, ast.FunctionDef)}


def apply(mutant: Mutant, root: Path) -> None:
    """Writes the mutant's replacement to its file below `root`.

    Raises:
        ValueError: the text does not occur exactly once.
    """
    path = root / mutant.file
    content = path.read_text(encoding="utf-8")
    if content.count(mutant.text) != 1:
        raise ValueError(
            f"{mutant.name}: its text occurs {content.count(mutant.text)} times in {mutant.file}"
        )
    path.write_text(content.replace(mutant.text, mutant.replacement), encoding="utf-8")
