import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neurald.hal.errors import BadData
from neurald.service.benchmark.comparison import (
    compare_runs,
    comparison_rows,
    disturbance,
    latencies_of,
    read_run,
)


def runs(scale: float = 1.0, seed: int = 0, count: int = 400) -> list[float]:
    return list(scale * np.random.default_rng(seed).lognormal(0, 0.2, count))


def verdicts(before: list[float], after: list[float]) -> dict[str, str]:
    return {each["statistic"]: each["verdict"] for each in compare_runs(before, after)}


def test_clear_differences_are_found() -> None:
    assert set(verdicts(runs(), runs(0.5, 1)).values()) == {"faster"}
    assert set(verdicts(runs(), runs(2.0, 1)).values()) == {"slower"}


def test_noise_is_no_difference() -> None:
    wrong = sum(verdicts(runs(seed=seed), runs(seed=seed + 100))["median"] != "same" for seed in range(20))
    assert wrong <= 4


def test_what_two_processes_differ_by_is_no_difference() -> None:
    constant = [1.0] * 100
    for ratio, verdict in ((1.015, "same"), (0.985, "same"), (1.03, "slower"), (0.97, "faster")):
        assert set(verdicts(constant, [ratio] * 100).values()) == {verdict}


def test_what_noise_hides_is_unclear() -> None:
    quiet, disturbed = [1.0] * 100, [1.0] * 99 + [300.0]
    found = verdicts(quiet, disturbed)
    assert found["median"] == "same"
    assert found["mean"] == verdicts(disturbed, quiet)["mean"] == "unclear"


@pytest.mark.parametrize(
    ("waiting", "words"),
    [(None, ""), ("x", ""), (0.1, ""), (0.6149, "in 61 % of the time of a.json"), (7, "100 %")],
)
def test_disturbed_runs_are_told(waiting: Any, words: str) -> None:
    found = disturbance({"waiting": waiting}, "a.json")
    assert words in found
    assert bool(found) == bool(words)
    assert not disturbance({}, "a.json")


def test_intervals_contain_the_ratio_and_shrink_with_more_runs() -> None:
    widths = []
    for count in (50, 5000):
        (median, *_) = compare_runs(runs(count=count), runs(1.1, 1, count))
        assert median["low"] <= median["ratio"] <= median["high"]
        widths.append(median["high"] - median["low"])
    assert widths[1] < widths[0] / 2


def test_dependent_runs_have_wide_intervals() -> None:
    steps = np.repeat(runs(count=20), 20).tolist()
    (dependent, *_), (independent, *_) = compare_runs(steps, steps), compare_runs(runs(), runs())
    assert dependent["high"] - dependent["low"] > independent["high"] - independent["low"]


def test_single_runs() -> None:
    (median, *_) = compare_runs([1.0], [2.0])
    assert (median["ratio"], median["low"], median["high"]) == (2, 2, 2)
    assert comparison_rows([median]) == [("median", "1.000", "2.000", "2.000", "2.000 to 2.000", "slower")]


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"latencies_ms": []},
        {"latencies_ms": ["x"]},
        {"latencies_ms": [0.0]},
        {"latencies_ms": [None]},
    ],
)
def test_documents_without_latencies(document: Any) -> None:
    with pytest.raises(BadData, match="x has no latencies"):
        latencies_of(document, "x")


def test_files_that_are_no_documents(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("{")
    with pytest.raises(BadData, match="is not a document of"):
        read_run(path)
    path.write_text('{"latencies_ms": [1, 2.5]}')
    assert latencies_of(read_run(path), "x") == [1, 2.5]


@pytest.mark.parametrize(
    "content",
    [
        '{"latencies_ms": [1' + "0" * 400 + "]}",
        '{"latencies_ms": [1e999]}',
        "[" * 100_000,
        '{"latencies_ms": [true]}',
    ],
    ids=["beyond every float", "infinite", "deep", "no number"],
)
def test_numbers_and_depths_beyond_reason(content: str, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(content)
    with pytest.raises(BadData, match=r"run\.json"):
        read_run(path)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadData, match="not a regular file"):
        read_run(tmp_path / "pipe")
