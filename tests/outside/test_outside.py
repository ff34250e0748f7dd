"""The suites of other projects, where their packages and checkouts are on this machine."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from outside import applications
from outside.litert_data import write_models
from outside.models import compare, difference

_RUN = Path(__file__).with_name("run.py")
_PACKAGES = {
    "interpreter": "tensorflow",
    "keras": "keras",
    "onnx": "parameterized",
    "quantizer": "ai_edge_quantizer",
}


def test_models_for_the_interpreters_suite_are_the_same_in_litert() -> None:
    if importlib.util.find_spec("ai_edge_litert") is None:
        pytest.skip("ai-edge-litert is not installed")
    for path in sorted(write_models().rglob("*.tflite")):
        assert not compare(path), path.name


def test_differences_are_found() -> None:
    one = [[np.ones(2, np.float32), np.array([b"a"], object)]]
    assert not difference(one, one)
    assert "differs by 1.0" in difference(one, [[np.zeros(2, np.float32), one[0][1]]])
    assert "output 1 differs" in difference(one, [[one[0][0], np.array([b"b"], object)]])
    assert "is expected" in difference(one, [[np.ones(3, np.float32), one[0][1]]])


@pytest.mark.full
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("suite", _PACKAGES)
def test_suite(suite: str) -> None:
    checkout = os.environ.get(f"NEURALD_{suite.upper()}_CHECKOUT")
    if checkout is None:
        pytest.skip(f"NEURALD_{suite.upper()}_CHECKOUT does not name a checkout of the project")
    if importlib.util.find_spec(_PACKAGES[suite]) is None:
        pytest.skip(f"{_PACKAGES[suite]} is not installed")
    done = subprocess.run(
        [sys.executable, _RUN, suite, checkout], text=True, stdout=subprocess.PIPE, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.timeout(1300)
@pytest.mark.parametrize("name", sorted(applications.NEEDS))
def test_application(name: str) -> None:
    lacking = applications.missing(name)
    if lacking:
        pytest.skip(f"{lacking} is not installed")
    words, _, _ = applications.compare(name)
    assert not words


def test_every_application_is_run() -> None:
    programs = {path.stem for path in Path(applications.__file__).with_name("programs").glob("*.py")}
    assert programs == set(applications.NEEDS)


def test_differences_of_applications_are_found() -> None:
    right = {"scores": np.array([1.0, 2.0]), "seconds": np.array(1.0)}
    assert not applications.difference({**right, "seconds": np.array(5.0)}, right)
    assert not applications.difference({**right, "scores": np.array([1.00001, 2.0])}, right)
    assert "differs by" in applications.difference({**right, "scores": np.array([1.01, 2.0])}, right)
    assert "is expected" in applications.difference({**right, "scores": np.array([1.0])}, right)
