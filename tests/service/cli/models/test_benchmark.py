import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from support.daemon.command_line import invoke, invoke_json
from support.daemon.processes import running_daemon
from support.devices.misbehaving import FailingDevice
from support.sweeps import sweep

import neurald as nd
from neurald.hal.device import KernelTime
from neurald.hal.errors import DeadObject
from neurald.runtime.compilation import Compilation
from neurald.runtime.execution.profile import StepProfile
from neurald.service.console.measurement import BoundExecution
from neurald.service.demo.digits import MODEL

QUICK = ["--runs", "7", "--min-secs", "0", "--warmup-runs", "3", "--warmup-min-secs", "0"]


def test_json_has_every_phase() -> None:
    document = invoke_json("benchmark", MODEL, *QUICK)
    assert document["inputs"] == "random (seed 0)"
    assert document["model_bytes"] == Path(MODEL).stat().st_size
    (step,) = document["steps"]
    assert step["device"] == "cpu"
    assert step["operations"] > 1
    assert step["prepare_ms"] > 0
    assert (step["cache"], step["reason"]) in (("miss", "first use"), ("hit", ""))
    for phase in ("load_ms", "prepare_ms", "first_ms"):
        assert document[phase] > 0
    used, unused = ("cache_load_ms", "compile_ms")[:: 1 if step["cache"] == "hit" else -1]
    assert (document[used], document[unused]) == (step["prepare_ms"], 0)
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
    assert steady["inferences_per_s"] == pytest.approx(1e3 / steady["mean_ms"])


def test_table_has_every_phase() -> None:
    result = invoke("benchmark", MODEL, *QUICK)
    assert result.exit_code == 0, result.stderr
    assert ("  compile" in result.stdout) is not ("  load from the cache" in result.stdout)
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


def test_the_rate_of_runs_with_pauses_is_not_that_of_their_latency() -> None:
    document = invoke_json("benchmark", MODEL, *QUICK, "--frequency", "50")
    assert 0 < document["steady"]["inferences_per_s"] < 51
    result = invoke("benchmark", MODEL, *QUICK, "--frequency", "50")
    assert "inferences/s, with the pauses" in result.stdout
    assert "timed in parts, a run takes" in result.stdout


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


@sweep(
    "options",
    [
        ["--device", "cpu"],
        ["--threads", "2"],
        ["--signature", "serving_default"],
        ["--burst"],
        ["--preference", "low_power", "--priority", "high"],
        ["--max-partitions", "1", "--min-operations", "2"],
    ],
    ids=" ".join,
)
def test_options(options: list[str]) -> None:
    assert invoke_json("benchmark", MODEL, *QUICK, *options)["steady"]["runs"] == 7


def test_relaxed_models_are_compared_with_exact_ones() -> None:
    document = invoke_json("benchmark", MODEL, *QUICK, "--relaxed", "--reference", "cpu")
    assert document["relaxed"] is True
    assert document["accuracy"]["reference"] == "cpu"
    assert invoke_json("benchmark", MODEL, *QUICK)["relaxed"] is False


def test_compiled_code_in_another_folder(tmp_path: Path) -> None:
    for expected in ("miss", "hit"):
        document = invoke_json("benchmark", MODEL, *QUICK, "--cache-dir", tmp_path)
        assert document["steps"][0]["cache"] == expected
    assert list(tmp_path.iterdir())


def test_inputs_of_files(tmp_path: Path) -> None:
    image = np.full((1, 8, 8, 1), 3, np.uint8)
    image.tofile(tmp_path / "image.bin")
    np.savez(tmp_path / "all.npz", input_0=image)
    single = ["--input", f"image={tmp_path}/image.bin"]
    for options, source in (
        (single, single[1]),
        (["--inputs", f"{tmp_path}/all.npz"], f"{tmp_path}/all.npz"),
        (["--input-range", "image=3:3"], "random (seed 0)"),
    ):
        assert invoke_json("benchmark", MODEL, *QUICK, *options)["inputs"] == source
        assert f"inputs: {source}" in invoke("benchmark", MODEL, *QUICK, *options).stdout
    result = invoke("benchmark", MODEL, *QUICK, *single, "--inputs", f"{tmp_path}/all.npz")
    assert "leaves nothing to other options" in result.stderr


def test_percentiles() -> None:
    document = invoke_json("benchmark", MODEL, *QUICK, "--percentile", "50,99.9")
    assert document["steady"]["p99.9_ms"] >= document["steady"]["p50_ms"]
    shown = invoke("benchmark", MODEL, *QUICK, "--percentile", "50,99.9").stdout
    assert "steady, p99.9" in shown
    assert "p90" not in shown


@sweep(
    ("option", "value", "message"),
    [
        ("--percentile", "101", "numbers from 0 to 100"),
        ("--percentile", "x", "numbers from 0 to 100"),
        ("--preference", "none", "low_power, fast_single_answer or sustained_speed is expected"),
        ("--priority", "none", "low, medium or high is expected"),
        ("--clients", "", "--clients is ''; numbers from 1 to 256 are expected"),
        ("--clients", "x", "--clients is 'x'; numbers from 1 to 256 are expected"),
        ("--delay", "inf", "3600"),
        ("--frequency", "inf", "1000000"),
    ],
)
def test_wrong_values_of_options(option: str, value: str, message: str) -> None:
    result = invoke("benchmark", MODEL, option, value)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_a_burst_in_a_daemon() -> None:
    with running_daemon() as address:
        document = invoke_json("benchmark", MODEL, *QUICK, "--burst", "--device", address)
        assert document["burst"] is True
        assert document["parts"]["transfer_in_ms"] > 0 < document["parts"]["transfer_out_ms"]
        assert "in a burst" in invoke("benchmark", MODEL, *QUICK, "--burst", "--device", address).stdout


# Kernel times

#: Operation 3 of the model is `CONV_2D`, and writes `conv2/relu`.
CONVOLUTION = {"graph": 0, "operation": 3, "type": "CONV_2D", "output": "conv2/relu"}
KERNELS = (
    KernelTime(name="conv", duration_ns=6000, operations=(3,), label="tile 64x64"),
    KernelTime(name="pool", duration_ns=1000, operations=(4, 5), label="element by element"),
    KernelTime(name="SOFTMAX", duration_ns=3000, operations=(7,), label="reference"),
)


def step(kernels: Sequence[KernelTime] = KERNELS, reason: str = "") -> StepProfile:
    return StepProfile(
        step=0, device="made-up", graph=0, operations=tuple(range(9)), kernels=tuple(kernels), reason=reason
    )


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Compilation, "profile", lambda self: (step(),))


@pytest.mark.usefixtures("told")
def test_the_slowest_kernels_first() -> None:
    def order(*options: str) -> list[int]:
        shown = invoke("benchmark", MODEL, *QUICK, *options).stdout
        return [shown.index(f"\n{name} ") for name in ("conv", "SOFTMAX", "pool")]

    in_order, by_time = order("--profile"), order("--slowest-first")
    assert by_time == sorted(by_time)
    assert in_order != sorted(in_order)


@pytest.mark.usefixtures("told")
def test_profile_as_data() -> None:
    profile = invoke_json("benchmark", MODEL, *QUICK, "--profile")["profile"]
    assert (profile["total_us"], profile["operations"], profile["compiled"]) == (10, 9, 8)
    assert [each["type"] for each in profile["on_references"]] == ["SOFTMAX"]
    assert profile["types"] == [
        {"types": ["CONV_2D"], "kernels": 1, "references": 0, "us": 6, "share": 0.6},
        {"types": ["SOFTMAX"], "kernels": 1, "references": 1, "us": 3, "share": 0.3},
        {"types": ["MAX_POOL_2D", "RESHAPE"], "kernels": 1, "references": 0, "us": 1, "share": 0.1},
    ]
    (found,) = profile["steps"]
    assert (found["step"], found["device"], found["graph"], found["us"]) == (0, "made-up", 0, 10)
    assert found["kernels"][0] == {
        "kernel": "conv",
        "label": "tile 64x64",
        "is_reference": False,
        "is_copy": False,
        "operations": [CONVOLUTION],
        "us": 6,
        "share": 0.6,
    }


@pytest.mark.usefixtures("told")
def test_profile_as_tables() -> None:
    result = invoke("benchmark", MODEL, *QUICK, "--profile")
    assert result.exit_code == 0, result.stderr
    for words in (
        "step 0 on made-up: 2 kernels and 1 reference, 10.0 us",
        "tile 64x64",
        "3 CONV_2D conv2/relu",
        "4 MAX_POOL_2D pool2, 5 RESHAPE flat",
        "reference implementation, not a kernel",
        "MAX_POOL_2D + RESHAPE",
        "60.0 %",
        "timed one by one, the kernels and copies take 0.010 ms; the median run takes",
        "8 of 9 operations (88.9 %) have compiled kernels; the others run on their references: 7 "
        "SOFTMAX softmax",
    ):
        assert words in result.stdout


def test_no_profile_unless_asked_for() -> None:
    assert "profile" not in invoke_json("benchmark", MODEL, *QUICK)


def test_profile_of_a_device_that_cannot_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Compilation, "profile", lambda self: (step((), "made-up cannot tell"),))
    profile = invoke_json("benchmark", MODEL, *QUICK, "--profile")["profile"]
    assert (profile["operations"], profile["compiled"], profile["types"]) == (0, 0, [])
    result = invoke("benchmark", MODEL, *QUICK, "--profile")
    assert "step 0 on made-up: made-up cannot tell" in result.stdout
    assert "have compiled kernels" not in result.stdout


def test_profile_has_medians_of_the_same_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    other = (KernelTime(name="another", duration_ns=10**9, operations=(3,)),)
    times = iter([10**6, 3000, 1000, 2000, 10**6, 10**6, 2000, 2000, 1000])

    def profile(self: Compilation) -> tuple[StepProfile, ...]:
        time_ns = next(times, 1000)
        kernel = KernelTime(name="conv", duration_ns=time_ns, operations=(3,))
        return (step(other if time_ns == 10**6 else (kernel,)),)

    monkeypatch.setattr(Compilation, "profile", profile)
    assert invoke_json("benchmark", MODEL, *QUICK, "--profile")["profile"]["total_us"] == 2


def test_profile_of_a_daemon() -> None:
    with running_daemon() as address:
        profile = invoke_json("benchmark", MODEL, *QUICK, "--profile", "--device", address)["profile"]
        (found,) = profile["steps"]
        assert found["kernels"]
        assert profile["operations"] == 9
        assert profile["total_us"] > 0


# Where executions ran


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> FailingDevice:
    """A fast device that fails. The command uses it by default; the CPU device may take over."""
    device = FailingDevice()
    cpu = nd.devices()[0]
    monkeypatch.setattr("neurald.runtime.compilation_builder.devices", lambda: (cpu, device))
    return device


def fail_after(device: FailingDevice, executions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the device fail permanently after that many executions."""
    time_once = BoundExecution.time_once

    def counted(self: BoundExecution) -> float:
        if device.executions >= executions:
            device.error = DeadObject("its driver died")
        return time_once(self)

    monkeypatch.setattr(BoundExecution, "time_once", counted)


@pytest.mark.parametrize("options", [[], ["--burst"]], ids=" ".join)
def test_executions_of_a_dead_device_are_not_reported_as_its_own(
    failing: FailingDevice, options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first run and three warm-up runs succeed, and two of the seven measured runs.
    fail_after(failing, 6, monkeypatch)
    (step,) = invoke_json("benchmark", MODEL, *QUICK, *options)["steps"]
    assert (step["device"], step["executions_on_cpu_instead"]) == ("failing", 5)
    # A later attempt to prepare the step again, in the background, may have failed by now, too.
    assert step["failure"].endswith(("its driver died", "failing is gone"))


def test_a_dead_device_in_the_table(failing: FailingDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_after(failing, 0, monkeypatch)
    result = invoke("benchmark", MODEL, *QUICK)
    assert (
        "warning: the CPU device ran 7 executions of step 0 instead of failing: its driver" in result.stdout
    )


def test_a_model_that_could_not_be_prepared_says_why(failing: FailingDevice) -> None:
    failing.error = DeadObject("gone")
    document = invoke_json("benchmark", MODEL, *QUICK)
    assert [step["device"] for step in document["steps"]] == ["cpu"]
    assert "failing is gone" in document["fallback"]
    assert (
        "warning: the whole model was prepared for the CPU device"
        in invoke("benchmark", MODEL, *QUICK).stdout
    )
    result = invoke("run", MODEL)
    assert "the whole model was prepared for the CPU device" in result.stderr


# What is measured besides


def test_where_time_and_memory_go() -> None:
    document = invoke_json("benchmark", MODEL, *QUICK)
    assert document["delegation"] == {
        "kind": "none",
        "operations": {"cpu": document["steps"][0]["operations"]},
        "steps": 1,
    }
    parts = document["parts"]
    assert parts["total_ms"] >= parts["compute_ms"] > 0
    assert parts["transfer_in_ms"] == parts["transfer_out_ms"] == 0
    each = [parts[name] or 0 for name in ("compute_ms", "driver_ms", "queue_ms", "runtime_ms")]
    assert sum(each) == pytest.approx(parts["total_ms"])
    memory = document["memory"]
    assert 0 < memory["before_load"]["resident_bytes"] <= memory["after_runs"]["peak_bytes"]
    assert len(document["latencies_ms"]) == document["steady"]["runs"]


def test_clients_accuracy_and_drawings(tmp_path: Path) -> None:
    svg, csv, kernels, output = (tmp_path / name for name in ("a.svg", "a.csv", "k.csv", "a.json"))
    result = invoke(
        *("benchmark", str(MODEL), *QUICK, "--clients", "1,2", "--reference", "reference", "--histogram"),
        *("--svg", str(svg), "--csv", str(csv), "--profile-csv", str(kernels), "--output", str(output)),
    )
    assert result.exit_code == 0, result.stderr
    for words in ("no delegation", "part of a run", "clients", "differences from reference", "MiB at most"):
        assert words in result.stdout
    assert svg.read_text().startswith("<svg")
    rows = dict(line.split(",", 1) for line in csv.read_text().splitlines() if '"' not in line)
    assert rows["steady.runs"] == "7"
    assert "CONV_2D" in kernels.read_text()
    document = json.loads(output.read_text())
    assert [each["clients"] for each in document["clients"]] == [1, 2]
    assert document["accuracy"]["outputs"][0]["max_abs"] <= 1


def test_flags_of_other_tools() -> None:
    arguments = ("--num_runs=5", "--min_secs=0", "--warmup_min_secs=0", "--use_xnnpack=true")
    result = invoke("benchmark", f"--graph={MODEL}", *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["steady"]["runs"] == 5
    assert "--use_xnnpack has no effect here" in result.stderr
    assert invoke_json("benchmark", "-m", MODEL, "-niter", "4", "-t", "0", *QUICK[4:])["steady"]["runs"] == 4


def test_two_runs_are_compared(tmp_path: Path) -> None:
    before, after = str(tmp_path / "before.json"), str(tmp_path / "after.json")
    for path in (before, after):
        assert invoke("benchmark", MODEL, *QUICK, "--output", path).exit_code == 0
    alone = invoke_json("benchmark", "--compare", before, after)
    assert [each["statistic"] for each in alone["statistics"]] == ["median", "mean", "p90", "p99"]
    assert "95 % interval" in invoke("benchmark", "--compare", before, "--compare", after).stdout
    with_run = invoke_json("benchmark", MODEL, *QUICK, "--compare", before)
    assert with_run["comparison"]["before"] == before
    document = json.loads(Path(before).read_text())
    Path(before).write_text(json.dumps(document | {"waiting": 0.5}))
    note = "programs waited for a processor in 50 % of the time of"
    assert note in invoke_json("benchmark", "--compare", before, after)["notes"][0]
    assert note in " ".join(invoke("benchmark", "--compare", before, after).stderr.split())


def test_what_is_required_does_not_hold() -> None:
    result = invoke("benchmark", MODEL, *QUICK, "--require-full-delegation")
    assert (result.exit_code, "full delegation is required; found no delegation" in result.stderr) == (
        1,
        True,
    )
    for wrong in ([], ["--compare", "a.json"], [MODEL, "--compare", "a.json", "--compare", "b.json"]):
        assert invoke("benchmark", *wrong).exit_code == 2


def test_what_cannot_work_is_refused_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("neurald.service.benchmark.session._start", lambda *_: pytest.fail("it was measured"))
    for arguments, message in (
        (("--reference", "missing"), "there is no device 'missing'"),
        (("--onnx", "missing.onnx"), "missing.onnx: No such file"),
        (("--csv", str(tmp_path / "a"), "--output", str(tmp_path / "a")), "is named for two results"),
    ):
        result = invoke("benchmark", MODEL, *arguments)
        assert result.exit_code == 1
        assert message in " ".join(result.stderr.split())


def test_files_for_figures_need_a_model(tmp_path: Path) -> None:
    for option in ("--output", "--csv", "--profile-csv", "--svg", "--trace"):
        result = invoke(
            "benchmark", "--compare", "a.json", "--compare", "b.json", option, str(tmp_path / "x")
        )
        assert result.exit_code == 2
        assert "without a model nothing is measured" in " ".join(result.stderr.split())


def test_clients_have_no_pauses() -> None:
    shown = invoke("benchmark", MODEL, *QUICK, "--clients", "2", "--frequency", "500", "--burst").stdout
    assert "clients run without pauses or a burst" in shown
    assert "clients run without" not in invoke("benchmark", MODEL, *QUICK, "--clients", "2").stdout


def test_the_document_goes_to_all_files(tmp_path: Path) -> None:
    paths = [tmp_path / "times.json", tmp_path / "profile.json"]
    arguments = (f"--exportTimes={paths[0]}", f"--exportProfile={paths[1]}")
    assert invoke("benchmark", MODEL, *QUICK, *arguments).exit_code == 0
    first, second = (json.loads(path.read_text()) for path in paths)
    assert first == second
    assert "profile" in first


def test_runs_are_verified() -> None:
    document = invoke_json("benchmark", MODEL, *QUICK, "--device", "reference", "--verify", "0.5")
    (found,) = document["verification"]
    assert 0 < found["verified"] <= found["runs"]
    assert (
        "were verified: all were right"
        in invoke("benchmark", MODEL, *QUICK, "--device", "reference", "--verify", "1").stdout
    )
    assert invoke("benchmark", MODEL, *QUICK, "--require", "cpu").exit_code == 0
    lying = "support.devices.lying:create"
    result = invoke("benchmark", MODEL, *QUICK, "--device", lying, "--require", "cpu=1")
    assert (result.exit_code, "1 % of the operations must run on cpu" in result.stderr) == (1, True)
    result = invoke("benchmark", "missing.tflite", "--require", "gpu=0")
    assert (result.exit_code, "--require names 'gpu'" in result.stderr) == (1, True)


def test_other_runtimes_are_reported() -> None:
    document = invoke_json("benchmark", MODEL, *QUICK, "--peers")
    assert [each["engine"] for each in document["peers"]] == ["litert", "openvino"]
    assert all("error" in each or each["steady"]["runs"] for each in document["peers"])


def test_a_trace_is_written(tmp_path: Path) -> None:
    for command in (["benchmark", str(MODEL), *QUICK], ["run", str(MODEL)]):
        path = tmp_path / f"{command[0]}.json"
        assert invoke(*command, "--trace", str(path)).exit_code == 0
        names = [event["name"] for event in json.loads(path.read_text())["traceEvents"]]
        assert "run" in names
        assert "load" in names
