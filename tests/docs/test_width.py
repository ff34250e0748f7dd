"""Prose of pages, and comments of LLVM IR and OpenCL C, end by column 100, as in Python (W505)."""

import re
import subprocess
from pathlib import Path

from support.sweeps import sweep

ROOT = Path(__file__).parents[2]
MAX_COLUMNS = 100


def _listed(pattern: str) -> list[str]:
    command = ["git", "ls-files", pattern]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()


PAGES = _listed("*.md")
#: Sources by what begins a line that is a comment.
SOURCES = {";": _listed("drivers/*.ll"), "//": _listed("*.cl")}
_BLOCK = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
#: A heading, a row of a table, an image or a reason of `support.pages.snippets` must be one line.
_ONE_LINE = re.compile(r" *(#|\||!\[|<!-- not run: )")


def _long_lines(text: str) -> list[str]:
    without_code = _BLOCK.sub("", text)
    return [
        line for line in without_code.split("\n") if len(line) > MAX_COLUMNS and not _ONE_LINE.match(line)
    ]


@sweep("page", PAGES)
def test_prose_is_not_wide(page: str) -> None:
    assert not _long_lines((ROOT / page).read_text(encoding="utf-8"))


@sweep(("begin", "source"), [(begin, source) for begin, sources in SOURCES.items() for source in sources])
def test_comments_are_not_wide(begin: str, source: str) -> None:
    lines = (ROOT / source).read_text(encoding="utf-8").split("\n")
    assert not [line for line in lines if len(line) > MAX_COLUMNS and line.lstrip().startswith(begin)]


def test_only_prose_is_checked() -> None:
    wide = "word " * 30
    assert _long_lines(wide) == [wide]
    for line in ("# " + wide, "| " + wide, f"![{wide}](image.png)", f"<!-- not run: {wide} -->"):
        assert not _long_lines(line)
    assert _long_lines(f"```text\n{wide}\n```\n{wide}") == [wide]
