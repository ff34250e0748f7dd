"""Short fixed runs of `tests/fuzz/run.py`, tests of each kind of mutation, and of the campaign."""

import json
import os
import random
import struct
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from fuzz.campaign import Campaign, replay
from fuzz.corpus import Corpus
from fuzz.mutators import MUTATORS, File, Mutator
from fuzz.shrinking import shrunk
from fuzz.target import MODULES, kind_of, target_of
from fuzz.target_tflite import TfliteTarget
from support.files.data import MODELS
from support.sweeps import sweep
from support.tiers import spread

import neurald as nd

#: Number of cases of each target, and minimum number of kinds of outcomes.
SLICES = {
    "tflite": (100, 20),
    "requests": (75, 25),
    "ring": (40, 5),
    "lane": (40, 8),
    "cache": (30, 10),
    "npz": (200, 20),
    "config": (300, 20),
}
#: The environment of a process that imports these tests.
_PATHS = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
#: Number of seeds of a target that the tier `default` tries.
_MOST_SEEDS = 20


@pytest.mark.slow
@pytest.mark.parametrize("name", list(MODULES))
def test_a_slice(name: str, tmp_path: Path) -> None:
    count, kinds = SLICES[name]
    report = Campaign(name, folder=tmp_path, models=MODELS, jobs=1).run(count)
    assert report.findings == []
    assert report.cases == sum(report.outcomes.values()) == count
    assert len(report.outcomes) >= kinds
    # If all inputs were refused immediately, nothing would be tested.
    assert report.corpus >= kinds


#: Runs a model, and prints the most bytes that were counted beyond those before it.
_FIRST_CASE = """
import sys
from fuzz import target_tflite

peaks = []
target_tflite._check_peak = lambda before, size: peaks.append(
    target_tflite.tracemalloc.get_traced_memory()[1] - before
)
target = target_tflite.create(None)
outcome = target.run(target.paths()[0].read_bytes())
assert outcome.startswith("ran"), outcome
print(max(peaks))
"""


@pytest.mark.slow
def test_imports_of_the_first_case_are_not_counted() -> None:
    """Work that a process does once takes most of what a small file may allocate."""
    ran = subprocess.run([sys.executable, "-c", _FIRST_CASE], check=True, capture_output=True, env=_PATHS)
    assert int(ran.stdout) < 1 << 20


@pytest.mark.sampled(2)
@pytest.mark.slow
@pytest.mark.parametrize("mutator", MUTATORS, ids=lambda mutator: mutator.__name__)
def test_a_mutator(mutator: Mutator) -> None:
    """Without limits on memory and time, which belong to worker processes."""
    target = TfliteTarget(None)
    (own, *_) = target.seeds()
    for seed in range(25):
        rng = random.Random(seed)
        file = File(bytearray(own))
        mutator(file, rng)
        with np.errstate(all="ignore"):
            outcome = target.run(bytes(file.data))
        assert outcome.startswith(("refused", "failed", "ran", "inputs too large")), outcome


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tflite", "ran"),
        ("requests", "OK"),
        ("ring", "kind"),
        ("lane", "ran"),
        ("cache", "hit"),
        ("npz", "read"),
        ("config", "used"),
    ],
)
def test_seeds_are_accepted(name: str, expected: str) -> None:
    """Otherwise mutated inputs would be refused for reasons of the seed."""
    target = target_of(name, None)
    with closing(target):
        outcomes = [target.run(seed) for seed in spread(_MOST_SEEDS, list(target.seeds()))]
    accepted = [outcome for outcome in outcomes if expected in outcome or "done" in outcome]
    assert len(accepted) >= 0.5 * len(outcomes), outcomes


@pytest.mark.slow
def test_a_run_is_resumed(tmp_path: Path) -> None:
    whole = Campaign("npz", folder=tmp_path / "whole").run(30)
    for count in (10, 22, 30):
        report = Campaign("npz", folder=tmp_path / "parts").run(count)
        assert report.cases == count
    assert sum(report.outcomes.values()) == sum(whole.outcomes.values()) == 30
    with pytest.raises(ValueError, match="seed 0"):
        Campaign("npz", folder=tmp_path / "parts", seed=1)


@pytest.mark.slow
def test_a_case_depends_on_its_number_only() -> None:
    first, second = (Campaign("npz", folder=None).run(30).outcomes for _ in range(2))
    assert first == second


@pytest.mark.full
@pytest.mark.slow
def test_findings_are_shrunk_and_can_be_replayed(tmp_path: Path) -> None:
    name = "fuzz.target_faulty"
    report = Campaign(name, folder=tmp_path).run(40)
    found = {str(each["why"]).partition(":")[0]: each for each in report.findings}
    assert {
        "ValueError",
        "the process ended with -6",
        "it took longer than 0.5 s; the process ended with -9",
    } <= set(found)
    for each in report.findings:
        path = Path(str(each["file"]))
        assert len(path.read_bytes()) <= 2
    state = json.loads((tmp_path / name / "state.json").read_text())
    assert len(state["findings"]) == len(report.findings)
    again = replay(name, Path(str(found["ValueError"]["file"])), None)
    assert "ValueError" in str(again.findings[0]["why"])


@sweep("guilty", [[3], [0, 9], [2, 5, 7]])
def test_delta_debugging(guilty: list[int]) -> None:
    def fails(pieces: Sequence[int]) -> bool:
        return set(guilty) <= set(pieces)

    assert shrunk(range(10), fails) == guilty


def test_a_corpus_keeps_the_smallest_of_each_kind(tmp_path: Path) -> None:
    corpus = Corpus(tmp_path)
    for outcome, content in (("a", b"long"), ("b", b"x"), ("a", b"s"), ("a", b"longer")):
        corpus.add(outcome, content)
    assert sorted(path.read_bytes() for path in Corpus(tmp_path).paths) == [b"s", b"x"]
    assert not corpus.wants("a", 5)


def test_messages_from_the_same_place_have_the_same_kind() -> None:
    assert kind_of("operand 3: shape [1, 2] of ADD in /tmp/x") == kind_of(
        "operand 17: shape [4] of CONV_2D in /a/b"
    )


def test_the_seed_itself_runs(tmp_path: Path) -> None:
    target = TfliteTarget(None)
    (own, *_) = target.seeds()
    assert target.run(own).startswith("ran")
    path = tmp_path / "own.tflite"
    path.write_bytes(own)
    assert nd.load_tflite(path).main.operations


def test_a_damaged_file_is_mutated_further() -> None:
    """The corpus keeps damaged files, and cases start from them.

    Here one without operator codes.
    """
    target = TfliteTarget(None)
    data = bytearray(target.seeds()[0])
    table = File(data).model._tab.Pos
    vtable = table - struct.unpack_from("<i", data, table)[0]
    struct.pack_into("<H", data, vtable + 6, 0)
    for seed in range(100):
        damaged, what = target.mutate(bytes(data), random.Random(seed))
        assert what
        assert damaged != data
