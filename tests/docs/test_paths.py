"""Paths of the repository that pages mention exist."""

import re
import subprocess
from functools import cache
from pathlib import Path

from support.sweeps import sweep

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")),
    ROOT / "examples" / "README.md",
    ROOT / "benchmarks" / "results" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
#: A word that looks like a path: with a slash, or a file name with a usual suffix.
_CODE = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(
    r"\.?[\w-]+(?:[./][\w-]+)*/(?:[\w.-]+/?)*|\.?[\w-]+(?:/[\w.-]+)+|\w+\.(?:py|proto|ll|cl|md|toml)"
)
_LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)(?:#[^)]*)?\)")
_ON_GITHUB = re.compile(r"github\.com/neurald/neurald/blob/main/([\w./-]+)")
#: Folders that the build makes or users have, not the repository.
_ELSEWHERE = re.compile(r"build/|dist/|neurald/|\.venv/|/|\.cache|etc/|my-npu")
_TOP = {path.name for path in ROOT.iterdir()}


@cache
def _tracked() -> tuple[str, ...]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = listed.stdout.split("\n")
    folders = {str(parent) for name in files for parent in Path(name).parents}
    return (*(f"/{name}" for name in files), *(f"/{folder}" for folder in sorted(folders)))


def _exists(path: str) -> bool:
    """Returns True if it is a path of the repository, or of a folder in it: `ir/expression.py`."""
    path = path.rstrip("/")
    if path.split("/")[0] in _TOP:
        return f"/{path}" in _tracked()
    return (ROOT / path).exists() or any(name.endswith(f"/{path}") for name in _tracked())


def _prose(text: str) -> str:
    """Returns a page without its programs."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)


def _paths(text: str) -> list[str]:
    found = []
    for code in _CODE.findall(_prose(text)):
        for word in code.split():
            path = word.split("::")[0]
            is_placeholder = any(sign in path for sign in "<>{}*$~=…()'\",:")
            if not is_placeholder and _PATH.fullmatch(path) and not _ELSEWHERE.match(path):
                found.append(path)
    return found


@sweep("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    missing = [path for path in _paths(text) if not _exists(path)]
    assert not missing


@sweep("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_linked_files_exist(page: Path) -> None:
    targets = _LINK.findall(_prose(page.read_text(encoding="utf-8")))
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing
    assert [path for path in _ON_GITHUB.findall(page.read_text(encoding="utf-8")) if not _exists(path)] == []


def test_a_path_that_does_not_exist_is_found() -> None:
    paths = _paths("`hal/registry.py`, `hal/nothing.py`, `ir/expression.py` and `nothing/expression.py`")
    assert [path for path in paths if not _exists(path)] == ["hal/nothing.py", "nothing/expression.py"]
