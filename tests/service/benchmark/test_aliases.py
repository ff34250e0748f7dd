import pytest
from typer.main import get_command

from neurald.hal.errors import BadData
from neurald.service.benchmark.aliases import ALIASES, OTHER_NAMES, REFUSED, WITHOUT_EFFECT, translated
from neurald.service.cli import app


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("--graph=m.tflite --num_runs=7 --min_secs 2", "m.tflite --runs 7 --min-secs 2"),
        ("--graph m.tflite --run_delay=-1.0 --run_frequency=30", "m.tflite --frequency 30"),
        ("--graph=m.tflite --num_threads=-1 --warmup_runs=3", "m.tflite --warmup-runs 3"),
        ("--enable_op_profiling=true --graph=m", "--profile m"),
        ("--enable_op_profiling m", "--profile m"),
        ("--enable_op_profiling false m", "m"),
        ("--use_gpu=true --require_full_delegation m", "--device opencl --require-full-delegation m"),
        (
            "--input_layer=x,y --input_layer_shape=1,2,3:4 m",
            "--shape x=1x2x3 --shape y=4 m",
        ),
        (
            "-m m.tflite -d CPU -niter 9 -t 3 -nireq 2",
            "m.tflite --device cpu --runs 9 --min-secs 3 --clients 2",
        ),
        ("-m m -niter 9", "--min-secs 0 m --runs 9"),
        ("-m m -t 3 -- -niter", "--runs 1 m --min-secs 3 -- -niter"),
        ("-m m -niter 9 --min-secs 2", "--min-secs 0 m --runs 9 --min-secs 2"),
        ("-m m -d MULTI:GPU,CPU -pc", "m --device opencl --device cpu --profile"),
        ("-m m -d AUTO -shape x[1,3,8,8],y[2]", "m --shape x=1x3x8x8 --shape y=2"),
        (
            "--iterations=5 --warmUp=200 --shapes=x:1x3,y:2x2",
            "--runs 5 --warmup-min-secs 0.2 --shape x=1x3 --shape y=2x2",
        ),
        ("--idleTime=50 --streams=4 --dumpProfile m", "--delay 0.05 --clients 4 --profile m"),
        (
            "--graph=m --output_filepath=o.json --op_profiling_output_file=p",
            "m --output o.json --profile-csv p",
        ),
        ("-m m -max_irate 30", "m --frequency 30"),
        ("--exportTimes=t.json m", "--output t.json m"),
        ("--warmUp=soon m", "--warmup-min-secs soon m"),
        ("m --runs 5 -- --graph", "m --runs 5 -- --graph"),
        ("--json m", "--json m"),
        ("--graph", ""),
        (
            "--path_to_model m --target_device=CPU --time 3 --perf_counts --number_infer_requests 2",
            "--runs 1 m --device cpu --min-secs 3 --profile --clients 2",
        ),
        ("-m m -pc false -json_stats true -no_warmup", "m --json --warmup-runs 0 --warmup-min-secs 0"),
        ("--model=m --result_json r.json --no_cpu", "m --output r.json --require-full-delegation"),
        ("--graph=m --nnapi_accelerator_name=gpu0 --nnapi_use_burst_mode=true", "m --device gpu0 --burst"),
        ("m --optShapes=x:4x3 --exportProfile=p.json", "m --shape x=4x3 --profile --output p.json"),
    ],
)
def test_flags_are_translated(given: str, expected: str) -> None:
    found, ignored = translated(given.split())
    assert " ".join(found).strip() == expected
    assert ignored == []


def test_flags_without_effect_are_named() -> None:
    given = "--use_xnnpack=false --verbose -hint latency --useSpinWait m --avgRuns=10"
    assert translated(given.split()) == (
        ["m"],
        ["--use_xnnpack", "--verbose", "-hint", "--useSpinWait", "--avgRuns"],
    )


def test_values_of_flags_without_effect_are_not_taken_for_models() -> None:
    given = "-nstreams 1 -pin YES -i x.png --input_layer_value_range=x,0,1 --use_hexagon=false --fp16 m --memPoolSize 9"
    assert translated(given.split())[0] == ["m"]


def test_no_flag_has_two_meanings() -> None:
    flags = [*(alias.flag for alias in ALIASES), *WITHOUT_EFFECT, *REFUSED]
    assert len(flags) == len(set(flags))
    assert set(OTHER_NAMES.values()) <= set(flags)
    command = get_command(app).commands["benchmark"]  # type: ignore[attr-defined]
    ours = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    assert not ours & {*flags, *OTHER_NAMES}


@pytest.mark.parametrize("flag", REFUSED)
def test_what_would_be_measured_in_another_way_is_refused(flag: str) -> None:
    for given in ([flag, "m"], [f"{flag}=x", "m"]):
        with pytest.raises(BadData, match=f"^{flag} is not understood here: "):
            translated(given)
    assert translated([f"{flag}=false", "m"]) == (["m"], [flag])


@pytest.mark.parametrize("given", [["-b", "1"], ["-b=1"], ["--batch_size=1"], ["--batch_size", "1"]])
def test_a_batch_of_one_is_what_is_measured_anyway(given: list[str]) -> None:
    assert translated([*given, "m"]) == (["m"], ["-b"])
    with pytest.raises(BadData, match="is not understood here: give inputs their sizes"):
        translated([each.replace("1", "8") for each in given])
