"""Runs the cells of the notebooks in `examples/notebooks`, each in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.files.data import MODELS, NO_MODELS

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples" / "notebooks").glob("*.ipynb"))
#: Variables that name the models which a notebook needs, and a part of what each prints.
NEEDS = {
    "detector": ("DETECTOR", "ssd_mobilenet_v1_coco_uint8"),
    "keyword_spotter": ("KEYWORDS", "kws_ds_cnn_int16x8"),
}
PRINTS = {
    "classifier": "of 200 are right",
    "detector": "class",
    "from_litert": "taken for a",
    "gpu_with_fallback": "-> cpu",
    "keyword_spotter": "words that were heard",
}


def cells(path: Path) -> list[dict[str, Any]]:
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["nbformat"] == 4
    found: list[dict[str, Any]] = document["cells"]
    return found


def test_every_notebook_is_listed() -> None:
    assert {path.stem for path in NOTEBOOKS} == set(PRINTS)
    readme = (NOTEBOOKS[0].parents[1] / "README.md").read_text(encoding="utf-8")
    assert all(f"`{path.name}`" in readme for path in NOTEBOOKS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_stored_without_results(path: Path) -> None:
    for cell in cells(path):
        assert cell["id"]
        assert cell["cell_type"] == "markdown" or (cell["outputs"], cell["execution_count"]) == ([], None)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook(path: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "NEURALD_AUTOSTART": "0"}
    if path.stem in NEEDS:
        if MODELS is None:
            pytest.skip(NO_MODELS)
        variable, model = NEEDS[path.stem]
        environment[variable] = str(MODELS / "tflite" / f"{model}.tflite")
    source = "\n\n".join("".join(cell["source"]) for cell in cells(path) if cell["cell_type"] == "code")
    program = tmp_path / f"{path.stem}.py"
    program.write_text(source, encoding="utf-8")
    found = subprocess.run(
        [sys.executable, program], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert found.returncode == 0, found.stderr
    assert PRINTS[path.stem] in found.stdout
