import os
import re

import pytest
from typer.main import get_command

from neurald.hal.errors import BadData
from neurald.service.benchmark.aliases import (
    ALIASES,
    GROUPS,
    OTHER_NAMES,
    REFUSED,
    WITHOUT_EFFECT,
    translated,
)
from neurald.service.cli import app


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("--graph=m.tflite --num_runs=7 --min_secs 2", "m.tflite --runs 7 --min-secs 2"),
        ("--graph m.tflite --run_delay=-1.0 --run_frequency=30", "m.tflite --frequency 30"),
        ("--graph=m.tflite --num_threads=-1 --warmup_runs=3", "m.tflite --warmup-runs 3"),
        ("--graph=m --num_runs=0 --min_secs=-1 --warmup_runs=0", "m --runs 1 --min-secs 0 --warmup-runs 0"),
        ("--enable_op_profiling=true --graph=m", "--profile m"),
        ("--enable_op_profiling m", "--profile m"),
        ("--enable_op_profiling false m", "m"),
        ("--use_gpu=true --require_full_delegation m", "--device opencl --require-full-delegation m"),
        (
            "--input_layer=x,y --input_layer_shape=1,2,3:4 m",
            "--shape input_0=1x2x3 --shape input_1=4 m",
        ),
        (
            "-m m.tflite -d CPU -niter 9 -t 3 -nireq 2",
            "--runs 9 --min-secs 3 --clients 2 m.tflite --device cpu",
        ),
        ("-m m -niter 9", "--runs 9 --min-secs 0 m"),
        ("-m m -t 3 -- -niter", "--runs 1 --min-secs 3 m -- -niter"),
        ("-m m -niter 9 --min-secs 2", "--runs 9 --min-secs 0 m --min-secs 2"),
        ("-m m -d MULTI:GPU,CPU -pc", "m --device opencl --device cpu --profile"),
        ("-m m -d HETERO:GPU.0,CPU(2)", "m --device opencl --device cpu"),
        ("-m m -d AUTO -shape x[1,3,8,8],y[2]", "m --shape x=1x3x8x8 --shape y=2"),
        ("-m m -data_shape [1,3,8,8]", "m --shape input_0=1x3x8x8"),
        ("-m m -shape x:0[1,2]", "m --shape x:0=1x2"),
        ("-m m -nstreams CPU:4", "--clients 4 m"),
        ("-m m -nstreams 4 -nireq 2 -hint latency", "--clients 2 m"),
        ("-m m -nireq 2 -api sync", "m"),
        ("-m m -hint latency", "m"),
        ("-m m -latency_percentile 95 -cdir kept", "m --percentile 95 --cache-dir kept"),
        ("-m m -infer_precision CPU:f32,GPU:f16", "m --relaxed"),
        ("-m m -infer_precision f32 -i x:0:one.bin,y:two.npy", "m --input x:0=one.bin --input y=two.npy"),
        ("-m m -i all.npz -pcsort sort", "m --inputs all.npz --profile --slowest-first"),
        ("-m m -i one.bin -pcsort no_sort", "m --input input_0=one.bin --profile"),
        ("-m m -report_type no_counters -report_folder out", "--csv out/benchmark_report.csv m"),
        (
            "-m m -report_type average_counters",
            "--csv benchmark_report.csv --profile-csv benchmark_average_counters_report.csv m",
        ),
        (
            "-m m -report_type detailed_counters -json_stats -report_folder o",
            "--output o/benchmark_report.json --profile m",
        ),
        (
            "--iterations=5 --warmUp=200 --shapes=x:1x3,y:2x2",
            "--runs 5 --warmup-min-secs 0.2 --shape x=1x3 --shape y=2x2",
        ),
        (
            "--shapes='x:0':1x3 --loadInputs='x:0':a.bin,y:b.bin m",
            "--shape x:0=1x3 --input x:0=a.bin --input y=b.bin m",
        ),
        (
            "--warmUp=0 --fp16 --percentile 90 m",
            "--warmup-runs 0 --warmup-min-secs 0 --relaxed --percentile 90 m",
        ),
        ("--idleTime=50 --streams=4 --dumpProfile m", "--delay 0.05 --clients 4 --profile m"),
        (
            "--graph=m --enable_op_profiling=1 --op_profiling_output_mode=csv --op_profiling_output_file=p",
            "--profile-csv p m",
        ),
        ("--enable_op_profiling=1 --profiling_output_csv_file=p m", "--profile-csv p m"),
        ("--enable_op_profiling=1 --op_profiling_output_file=p m", "--profile m"),
        ("--profiling_output_csv_file=p m", "m"),
        (
            "--input_layer=a:b,y --input_layer_shape=1,2:3 --input_layer_value_range=y,0,9 "
            "--input_layer_value_files=a::b:/f m",
            "--shape input_0=1x2 --shape input_1=3 --input-range input_1=0:9 --input input_0=/f m",
        ),
        ("--allow_fp16=true --max_delegated_partitions=2 m", "--relaxed --max-partitions 2 m"),
        (
            "--allow_fp16=false --max_delegated_partitions=0 --min_nodes_per_partition=3 m",
            "--min-operations 3 m",
        ),
        (
            "--nnapi_execution_preference=low_power --nnapi_execution_priority=high m",
            "--preference low_power --priority high m",
        ),
        ("--nnapi_execution_preference=undefined --nnapi_execution_priority=default m", "m"),
        ("--delegate_serialize_dir=d --delegate_serialize_token=t m", "--cache-dir d m"),
        ("--delegate_serialize_dir=d m", "m"),
        ("-m m -max_irate 30", "m --frequency 30"),
        ("--exportTimes=t.json m", "--output t.json m"),
        ("m --runs 5 -- --graph", "m --runs 5 -- --graph"),
        ("--json m", "--json m"),
        ("-m m -niter 1 -nireq 0 -nstreams 0", "--runs 1 --min-secs 0 m"),
        ("-m m -hint none -api async -pcsort no_sort", "m --profile"),
        ("-m m -pcsort simple_sort", "m --profile --slowest-first"),
        (
            "--path_to_model m --target_device=CPU --time 3 --perf_counts --number_infer_requests 2",
            "--runs 1 --min-secs 3 --clients 2 m --device cpu --profile",
        ),
        ("-m m -pc false -json_stats true -no_warmup", "--json m --warmup-runs 0 --warmup-min-secs 0"),
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
    given = "--use_xnnpack=false --verbose -pin YES --useSpinWait m --avgRuns=10"
    assert translated(given.split()) == (
        ["m"],
        ["--use_xnnpack", "--verbose", "-pin", "--useSpinWait", "--avgRuns"],
    )


def test_values_of_flags_without_effect_are_not_taken_for_models() -> None:
    given = "-pin YES -i x.png --use_hexagon=false --int8 m --memPoolSize 9"
    assert translated(given.split()) == (["m"], ["-pin", "-i", "--use_hexagon", "--int8", "--memPoolSize"])


def test_throughput_is_that_of_as_many_clients_as_processors() -> None:
    clients = str(len(os.sched_getaffinity(0)))
    for hint in ("throughput", "tput", "ctput", "cumulative_throughput"):
        assert translated(["-hint", hint, "m"])[0] == ["--clients", clients, "m"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("-shape x[?,3] m", "the shapes 'x[?,3]' cannot be read"),
        ("-data_shape x[1,3][1,4] m", "the shapes 'x[1,3][1,4]' cannot be read"),
        ("-shape x m", "the shapes 'x' cannot be read"),
        ("--shapes=x m", "the shapes 'x' cannot be read"),
        ("--optShapes=x:1x2,3 m", "expected NAME:SHAPE"),
        ("--input_layer=a,b --input_layer_shape=1 m", "names 2 inputs, and --input_layer_shape has 1 shapes"),
        ("--input_layer_shape=1 m", "names 0 inputs"),
        (
            "--input_layer=a --input_layer_shape=1 --input_layer_value_range=b,0,1 m",
            "names 'b'; --input_layer has a",
        ),
        (
            "--input_layer=a --input_layer_shape=1 --input_layer_value_range=a,0 m",
            "expected NAME,LOW,HIGH",
        ),
        ("--input_layer=a --input_layer_shape=1 --input_layer_value_files=a m", "expected NAME:FILE"),
        ("--enable_op_profiling --op_profiling_output_mode=proto m", "--profile-csv FILE a CSV file"),
        ("-niter 0 m", "-niter 0 measures nothing"),
        ("--warmUp=soon m", "--warmUp is 'soon'; a number is expected"),
        ("--num_runs= m", "--num_runs is ''; a number is expected"),
        ("m --idleTime x", "--idleTime is 'x'; a number is expected"),
        ("--graph", "--graph is ''; the file of a model is expected"),
        ("--path_to_model=", "--path_to_model is ''; the file of a model is expected"),
        ("-m m -hint fast", "-hint is 'fast'; one of throughput, tput, "),
        ("-m m -api later", "-api is 'later'; sync or async is expected"),
        ("-m m -report_type all", "-report_type is 'all'; one of no_counters, "),
        ("-m m -pcsort x", "-pcsort is 'x'; one of no_sort, sort, simple_sort is expected"),
    ],
)
def test_what_cannot_be_translated_is_refused(given: str, message: str) -> None:
    with pytest.raises(BadData, match=re.escape(message)):
        translated(given.split())


def test_no_flag_has_two_meanings() -> None:
    grouped = [flag for group in GROUPS for flag in group.flags]
    flags = [*(alias.flag for alias in ALIASES), *grouped, *WITHOUT_EFFECT, *REFUSED]
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
