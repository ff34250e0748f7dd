"""Runs every code block of README and the documentation, unless the page says why not."""

import configparser
import os
import re
import shutil
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.pages.snippets import Page, commands, snippets
from support.sweeps import sweep
from support.tflite.builder import TfliteModel
from support.tflite.custom import custom_file
from support.tflite.resources import assign, initialise, plus, read, variable

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


def test_a_reason_is_that_of_one_block(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- not run: first -->\n```console\n$ a\n```\n\n```python\nb = 1\n```\n\n"
        "<!-- not run: second -->\n```console\n$ c\n```\n"
    )
    assert [(each.language, each.reason) for each in snippets(page)] == [
        ("console", "first"),
        ("python", ""),
        ("console", "second"),
    ]


def test_no_change_is_listed_twice() -> None:
    entries = re.split(r"\n(?=- |#|\n)", (ROOT / "CHANGELOG.md").read_text())
    changes = Counter(" ".join(each.split()) for each in entries if each.startswith("- "))
    assert len(changes) > 100
    assert not {change: count for change, count in changes.items() if count > 1}


@sweep("page", PAGES, ids=_name)
def test_configuration_files_are_valid(page: Path) -> None:
    for snippet in snippets(page):
        if snippet.language == "toml":
            tomllib.loads(snippet.code)
        elif snippet.language == "ini":
            configparser.ConfigParser(interpolation=None, strict=True).read_string(snippet.code)


def _assistant() -> TfliteModel:
    """A file with the signatures "encode" and "decode"."""
    file = TfliteModel()
    for position, name in enumerate(("encode", "decode")):
        graph = file.subgraph()
        x = graph.tensor((2,))
        y = plus(graph, x, x, 2)
        graph.inputs, graph.outputs = (x,), (y,)
        file.signature(name, {"x": x}, {"y": y}, position)
    return file


def _training() -> TfliteModel:
    """A file whose signature "train" assigns the variable that "infer" reads."""
    file = TfliteModel()
    train, infer = file.subgraph(), file.subgraph()
    initialise(file, train, total=[0, 0])
    x = train.tensor((2,))
    total = variable(train, "total")
    y = plus(train, read(train, total, 2), x, 2)
    assign(train, total, y)
    train.inputs, train.outputs = (x,), (y,)
    result = read(infer, variable(infer, "total"), 2)
    infer.inputs, infer.outputs = (), (result,)
    file.signature("train", {"x": x}, {"y": y}, 0)
    file.signature("infer", {}, {"total": result}, 1)
    return file


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Creates a working directory with the files that pages name, and one for sockets."""
    demo = ROOT / "service" / "demo"
    shutil.copy(demo / "digits.tflite", tmp_path)
    _assistant().write(tmp_path / "assistant.tflite")
    _training().write(tmp_path / "model.tflite")
    pair = ((2,), "FLOAT32")
    custom_file("Twice", [pair], [pair]).write(tmp_path / "twice.tflite")
    np.savez(tmp_path / "inputs.npz", image=np.zeros((1, 8, 8, 1), np.uint8))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    # Paths of sockets are limited, and pytest's are long.
    with tempfile.TemporaryDirectory(prefix="nd") as runtime:
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        yield tmp_path


@pytest.mark.sampled(2)
@pytest.mark.slow
@pytest.mark.parametrize("page", TESTED, ids=_name)
def test_a_page(page: Path, folder: Path) -> None:
    def is_ready(count: int) -> bool:
        return len(registry.running_daemons()) >= count

    with Page(page, folder, dict(os.environ), is_ready) as running:
        assert running.run()
