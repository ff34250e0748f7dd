"""Runs every code block of README and the documentation, unless the page says why not."""

import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from support.snippets import Page, commands, snippets
from support.sweeps import sweep

from neurald.hal import registry

ROOT = Path(__file__).parents[2]
#: Languages of blocks with data or diagrams. `text` is output or code of other programs.
DATA = {"toml", "ini", "mermaid", "text"}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TESTED = [
    page for page in PAGES if any(not each.reason and each.language not in DATA for each in snippets(page))
]


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@sweep("page", PAGES, ids=_name)
def test_every_block_is_run_or_says_why_not(page: Path) -> None:
    for snippet in snippets(page):
        where = f"{_name(page)}:{snippet.line}"
        assert snippet.language in {"python", "console"} | DATA, f"{where}: {snippet.language!r}"
        if snippet.language == "console":
            assert list(commands(snippet.code)), f"{where}: no line begins with '$ '"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Creates a working directory with the files that pages name, and one for sockets."""
    demo = ROOT / "service" / "demo"
    shutil.copy(demo / "digits.tflite", tmp_path)
    np.savez(tmp_path / "inputs.npz", image=np.zeros((1, 8, 8, 1), np.uint8))
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("page", TESTED, ids=_name)
def test_a_page(page: Path, folder: Path) -> None:
    def is_ready(count: int) -> bool:
        return len(registry.running_daemons()) >= count

    with Page(page, folder, dict(os.environ), is_ready) as running:
        assert running.run()
