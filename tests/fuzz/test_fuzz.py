"""A fixed slice of the fuzzing that `tests/fuzz/run.py` does at length, and each class of bug on its own."""

import random
from pathlib import Path

import numpy as np
import pytest
from fuzz.mutators import MUTATORS, File, Mutator
from fuzz.run import fuzz, run_case, seeds
from support.data import MODELS

import neurald as nd

#: Cases of the slice.
COUNT = 1500


@pytest.mark.slow
def test_damaged_models_are_run_or_refused() -> None:
    outcomes, problems = fuzz(COUNT, folder=MODELS)
    assert not problems
    assert sum(outcomes.values()) == COUNT
    assert outcomes["ran"]
    assert outcomes["refused BAD_DATA"]


@pytest.mark.parametrize("mutator", MUTATORS, ids=lambda mutator: mutator.__name__)
def test_one_kind_of_damage(mutator: Mutator, tmp_path: Path) -> None:
    """Without the limits of memory and time, which belong to the processes of the slice."""
    (own, *_) = seeds(None)
    for seed in range(25):
        rng = random.Random(seed)
        file = File(bytearray(own.read_bytes()))
        mutator(file, rng)
        with np.errstate(all="ignore"):
            outcome = run_case(bytes(file.data), tmp_path / "case.tflite")
        assert outcome.startswith(("refused", "failed", "ran", "inputs too large")), outcome


def test_the_seed_itself_runs(tmp_path: Path) -> None:
    (own, *_) = seeds(None)
    assert run_case(own.read_bytes(), tmp_path / "case.tflite") == "ran"
    assert nd.load_tflite(own).main.operations
