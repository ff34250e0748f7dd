import pytest
from support.command_line import invoke, invoke_json
from support.daemon import running_daemon

from neurald.service.demo.digits import MODEL

QUICK = ["--runs", "7", "--min-secs", "0", "--warmup-runs", "3", "--warmup-min-secs", "0"]


def test_json_has_every_phase() -> None:
    document = invoke_json("benchmark", MODEL, *QUICK)
    assert document["inputs"] == "random (seed 0)"
    (step,) = document["steps"]
    assert step["device"] == "cpu"
    assert step["operations"] > 1
    assert step["prepare_ms"] > 0
    assert [step["cache"], step["reason"]] == ["off", "the device has nothing to cache"]
    for phase in ("load_ms", "prepare_ms", "first_ms"):
        assert document[phase] > 0
    assert document["warmup"]["runs"] == 3
    steady = document["steady"]
    assert steady["runs"] == 7
    assert (
        0
        < steady["min_ms"]
        <= steady["median_ms"]
        <= steady["p90_ms"]
        <= steady["p99_ms"]
        <= steady["max_ms"]
    )
    assert steady["min_ms"] <= steady["mean_ms"] <= steady["max_ms"]
    assert steady["std_ms"] >= 0
    assert steady["inferences_per_s"] == pytest.approx(1e3 / steady["mean_ms"])


def test_table_has_every_phase() -> None:
    result = invoke("benchmark", MODEL, *QUICK)
    assert result.exit_code == 0, result.stderr
    for word in (
        "cpu",
        "load",
        "prepare",
        "first",
        "warm-up",
        "min",
        "median",
        "mean",
        "p99",
        "inferences/s",
        "random",
    ):
        assert word in result.stdout
    assert result.stderr == ""


def test_runs_continue_until_the_least_time() -> None:
    steady = invoke_json("benchmark", MODEL, *QUICK, "--runs", "1", "--min-secs", "0.2")["steady"]
    assert steady["runs"] > 1


def test_runs_end_after_the_most_time() -> None:
    document = invoke_json("benchmark", MODEL, "--runs", "100000000", "--max-secs", "0.1")
    assert 1 <= document["steady"]["runs"] < 100000000


def test_no_warm_up() -> None:
    document = invoke_json("benchmark", MODEL, *QUICK, "--warmup-runs", "0")
    assert document["warmup"] == {"runs": 0, "mean_ms": None}
    assert "warm-up" not in invoke("benchmark", MODEL, *QUICK, "--warmup-runs", "0").stdout


@pytest.mark.parametrize(
    "options",
    [["--device", "cpu"], ["--threads", "2"], ["--signature", "serving_default"], ["--burst"]],
    ids=" ".join,
)
def test_options(options: list[str]) -> None:
    assert invoke_json("benchmark", MODEL, *QUICK, *options)["steady"]["runs"] == 7


def test_a_burst_in_a_daemon() -> None:
    with running_daemon() as address:
        document = invoke_json("benchmark", MODEL, *QUICK, "--burst", "--device", address)
        assert document["burst"] is True
        assert "in a burst" in invoke("benchmark", MODEL, *QUICK, "--burst", "--device", address).stdout
