"""The flags of other benchmark tools, as flags of `neurald benchmark`.

These are TFLite's `benchmark_model`, LiteRT's `litert-benchmark`, OpenVINO's `benchmark_app` and
TensorRT's `trtexec`. What a flag means there is translated, units as well. A flag without a meaning
here has no effect, and a note says so. What would be measured without a flag, but is something
else, is refused with what to do instead.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from neurald.hal.errors import BadData
from neurald.service.benchmark import alias_values
from neurald.service.benchmark.alias_values import FALSE, TRUE, BadValue, Translation


class Takes(Enum):
    """The kinds of values that follow a flag."""

    VALUE = "a value, after = or as the next argument"
    TRUTH = "nothing, or true or false"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Alias:
    """A flag of another tool.

    Attributes:
        tool: its name.
        flag: the flag of the tool, without `=`.
        shown: what the flag is here, for documentation.
        translate: returns the flags here for its value.
        takes: what follows it.
        expects_flags: whether a value that is translated to nothing has no effect, which a note
            says.
    """

    tool: str
    flag: str
    shown: str
    translate: Translation
    takes: Takes = Takes.VALUE
    expects_flags: bool = False


_LITERT, _PYTHON, _OPENVINO, _TENSORRT = "benchmark_model", "litert-benchmark", "benchmark_app", "trtexec"

_NO_WARMUP = ("--warmup-runs", "0", "--warmup-min-secs", "0")


def _warm_up_ms(value: str) -> list[str]:
    """Translates the warm-up of `trtexec`, of which 0 makes no run at all."""
    return list(_NO_WARMUP) if value == "0" else alias_values.scaled("--warmup-min-secs", 1e-3)(value)


def _priority(value: str) -> list[str]:
    """Translates a priority of NNAPI."""
    return [] if value in ("", "default") else ["--priority", value]


def _sorted(value: str) -> list[str]:
    """Translates the order of kernels."""
    order = alias_values.chosen(value, "no_sort", "sort", "simple_sort")
    return ["--profile"] if order == "no_sort" else ["--profile", "--slowest-first"]


ALIASES: tuple[Alias, ...] = (
    Alias(_LITERT, "--graph", "MODEL", alias_values.positional),
    Alias(_LITERT, "--num_runs", "--runs", alias_values.at_least("--runs", 1)),
    Alias(_LITERT, "--min_secs", "--min-secs", alias_values.at_least("--min-secs", 0)),
    Alias(_LITERT, "--max_secs", "--max-secs", alias_values.same("--max-secs")),
    Alias(_LITERT, "--warmup_runs", "--warmup-runs", alias_values.at_least("--warmup-runs", 0)),
    Alias(_LITERT, "--warmup_min_secs", "--warmup-min-secs", alias_values.at_least("--warmup-min-secs", 0)),
    Alias(_LITERT, "--run_delay", "--delay", alias_values.unless_negative("--delay")),
    Alias(_LITERT, "--run_frequency", "--frequency", alias_values.unless_negative("--frequency")),
    Alias(_LITERT, "--num_threads", "--threads", alias_values.unless_negative("--threads")),
    Alias(_LITERT, "--signature_to_run_for", "--signature", alias_values.same("--signature")),
    Alias(_LITERT, "--use_gpu", "--device opencl", alias_values.if_true("--device", "opencl"), Takes.TRUTH),
    Alias(
        _LITERT,
        "--require_full_delegation",
        "--require-full-delegation",
        alias_values.if_true("--require-full-delegation"),
        Takes.TRUTH,
    ),
    Alias(_LITERT, "--result_file_path", "--output", alias_values.same("--output")),
    Alias(_LITERT, "--allow_fp16", "--relaxed", alias_values.if_true("--relaxed"), Takes.TRUTH),
    Alias(_LITERT, "--xnnpack_force_fp16", "--relaxed", alias_values.if_true("--relaxed"), Takes.TRUTH),
    Alias(
        _LITERT, "--gpu_precision_loss_allowed", "--relaxed", alias_values.if_true("--relaxed"), Takes.TRUTH
    ),
    Alias(_LITERT, "--nnapi_allow_fp16", "--relaxed", alias_values.if_true("--relaxed"), Takes.TRUTH),
    Alias(_LITERT, "--nnapi_accelerator_name", "--device", alias_values.same("--device")),
    Alias(_LITERT, "--nnapi_use_burst_mode", "--burst", alias_values.if_true("--burst"), Takes.TRUTH),
    Alias(
        _LITERT,
        "--nnapi_execution_preference",
        "--preference",
        lambda value: [] if value in ("", "undefined") else ["--preference", value],
    ),
    Alias(_LITERT, "--nnapi_execution_priority", "--priority", _priority),
    Alias(
        _LITERT,
        "--max_delegated_partitions",
        "--max-partitions",
        alias_values.unless_zero("--max-partitions"),
    ),
    Alias(
        _LITERT, "--min_nodes_per_partition", "--min-operations", alias_values.unless_zero("--min-operations")
    ),
    Alias(_PYTHON, "--model", "MODEL", alias_values.positional),
    Alias(_PYTHON, "--result_json", "--output", alias_values.same("--output")),
    Alias(
        _PYTHON,
        "--no_cpu",
        "--require-full-delegation",
        lambda _: ["--require-full-delegation"],
        Takes.NOTHING,
    ),
    Alias(_OPENVINO, "-m", "MODEL", alias_values.positional),
    Alias(_OPENVINO, "-d", "--device", alias_values.devices),
    Alias(_OPENVINO, "-nthreads", "--threads", alias_values.same("--threads")),
    Alias(_OPENVINO, "-max_irate", "--frequency", alias_values.same("--frequency")),
    Alias(_OPENVINO, "-shape", "--shape", alias_values.bracketed_shapes),
    Alias(_OPENVINO, "-data_shape", "--shape", alias_values.bracketed_shapes),
    Alias(_OPENVINO, "-i", "--input", alias_values.input_files, expects_flags=True),
    Alias(_OPENVINO, "-pc", "--profile", alias_values.if_true("--profile"), Takes.TRUTH),
    Alias(
        _OPENVINO,
        "-pcsort",
        "--profile --slowest-first",
        _sorted,
    ),
    Alias(_OPENVINO, "-latency_percentile", "--percentile", alias_values.same("--percentile")),
    Alias(_OPENVINO, "-cdir", "--cache-dir", alias_values.same("--cache-dir")),
    Alias(_OPENVINO, "-infer_precision", "--relaxed for f16", alias_values.precision),
    Alias(
        _OPENVINO,
        "-no_warmup",
        "--warmup-runs 0 --warmup-min-secs 0",
        lambda _: list(_NO_WARMUP),
        Takes.NOTHING,
    ),
    Alias(_TENSORRT, "--iterations", "--runs", alias_values.at_least("--runs", 1)),
    Alias(_TENSORRT, "--duration", "--min-secs", alias_values.same("--min-secs")),
    Alias(_TENSORRT, "--warmUp", "--warmup-min-secs, in ms there", _warm_up_ms),
    Alias(_TENSORRT, "--idleTime", "--delay, in ms there", alias_values.scaled("--delay", 1e-3)),
    Alias(_TENSORRT, "--streams", "--clients", alias_values.same("--clients")),
    Alias(_TENSORRT, "--infStreams", "--clients", alias_values.same("--clients")),
    Alias(_TENSORRT, "--shapes", "--shape", alias_values.named_shapes),
    Alias(_TENSORRT, "--loadInputs", "--input", alias_values.named_files),
    Alias(_TENSORRT, "--fp16", "--relaxed", lambda _: ["--relaxed"], Takes.NOTHING),
    Alias(_TENSORRT, "--best", "--relaxed", lambda _: ["--relaxed"], Takes.NOTHING),
    Alias(_TENSORRT, "--dumpProfile", "--profile", lambda _: ["--profile"], takes=Takes.NOTHING),
    Alias(_TENSORRT, "--exportTimes", "--output", alias_values.same("--output")),
    Alias(_TENSORRT, "--optShapes", "--shape", alias_values.named_shapes),
    Alias(
        _TENSORRT,
        "--exportProfile",
        "--profile --output",
        lambda value: ["--profile", "--output", value],
    ),
)

#: Other names of the flags of `benchmark_app`.
OTHER_NAMES: Mapping[str, str] = {
    "--path_to_model": "-m",
    "--target_device": "-d",
    "--number_iterations": "-niter",
    "--time": "-t",
    "--number_threads": "-nthreads",
    "--maximum_inference_rate": "-max_irate",
    "--number_infer_requests": "-nireq",
    "--perf_counts": "-pc",
    "--json_stats": "-json_stats",
    "--perf_hint": "-hint",
    "--api_type": "-api",
    "--paths_to_input": "-i",
    "--cache_dir": "-cdir",
    "-cache_dir": "-cdir",
    "--pcseq": "-pcseq",
    "--number_streams": "-nstreams",
    "--infer_threads_pinning": "-pin",
    "--latency_percentile": "-latency_percentile",
    "--report_type": "-report_type",
    "--report_folder": "-report_folder",
    "--perf_counts_sort": "-pcsort",
    "--no_warmup": "-no_warmup",
    "--inference_only": "-inference_only",
    "--batch_size": "-b",
    "--load_from_file": "-lfile",
    "--extensions": "-extensions",
    "--path_to_cldnn_config": "-c",
    "--input_precision": "-ip",
    "--output_precision": "-op",
    "--input_output_precision": "-iop",
    "-load_config": "--load_config",
    "-dump_config": "--dump_config",
    "-exec_graph_path": "--exec_graph_path",
}

Given = Mapping[str, str]


def _iterations(given: Given) -> list[str]:
    """Translates least amounts of work: `-niter 10` alone makes 10 runs, `-t 5` runs for 5 s."""
    runs, seconds = given.get("-niter"), given.get("-t")
    if runs == "0":
        raise BadData("-niter 0 measures nothing; `neurald compile` prepares a model without running it")
    return ["--runs", "1" if runs is None else runs, "--min-secs", "0" if seconds is None else seconds]


#: Values of `-hint` that ask for the most work.
_HINTS = ("throughput", "tput", "cumulative_throughput", "ctput")
#: Values of `-report_type`.
_REPORTS = ("no_counters", "average_counters", "detailed_counters")


def _requests(given: Given) -> list[str]:
    """Translates what sets the number of requests that run at the same time.

    Without a number this is one for the least latency, and as many as processors for the most work.
    """
    hint, api = given.get("-hint", "none"), given.get("-api", "async")
    if hint not in (*_HINTS, "latency", "none"):
        raise BadData(f"-hint is {hint!r}; one of {', '.join(_HINTS)}, latency, none is expected")
    if api not in ("sync", "async"):
        raise BadData(f"-api is {api!r}; sync or async is expected")
    if api == "sync":
        return []
    streams = given.get("-nstreams", "").rpartition(":")[2]
    # 0 leaves the number to the tool.
    if given.get("-nireq", "0") != "0":
        return ["--clients", given["-nireq"]]
    if streams.isdecimal() and streams != "0":
        return ["--clients", streams]
    return ["--clients", str(len(os.sched_getaffinity(0)))] if hint in _HINTS else []


def _reports(given: Given) -> list[str]:
    """Translates the files of statistics."""
    is_json = "-json_stats" in given and given["-json_stats"].lower() in TRUE
    kind, folder = given.get("-report_type", ""), given.get("-report_folder", "")
    if not kind:
        return ["--json"] if is_json else []
    if kind not in _REPORTS:
        raise BadData(f"-report_type is {kind!r}; one of {', '.join(_REPORTS)} is expected")
    ending, flag = ("json", "--output") if is_json else ("csv", "--csv")
    flags = [flag, str(Path(folder) / f"benchmark_report.{ending}")]
    if kind != "no_counters" and is_json:
        flags.append("--profile")
    elif kind != "no_counters":
        flags += ["--profile-csv", str(Path(folder) / f"benchmark_{kind}_report.csv")]
    return flags


def _layers(given: Given) -> list[str]:
    """Translates the descriptions of inputs."""
    names = ("--input_layer", "--input_layer_shape", "--input_layer_value_range", "--input_layer_value_files")
    return alias_values.layers(*[given.get(name, "") for name in names])


def _profiles(given: Given) -> list[str]:
    """Translates where kernels are timed to; files without profiling have nothing."""
    if "--enable_op_profiling" not in given or given["--enable_op_profiling"].lower() not in TRUE:
        return []
    mode, path = given.get("--op_profiling_output_mode", "stdout"), given.get("--op_profiling_output_file")
    if older := given.get("--profiling_output_csv_file"):
        mode, path = "csv", older
    if mode == "proto":
        raise BadData(
            "--op_profiling_output_mode=proto is not understood here: --profile --output FILE writes a JSON "
            "document, and --profile-csv FILE a CSV file"
        )
    return ["--profile-csv", path] if mode == "csv" and path else ["--profile"]


def _cache(given: Given) -> list[str]:
    """Translates where compiled code is kept; `benchmark_model` needs both flags."""
    folder, token = given.get("--delegate_serialize_dir"), given.get("--delegate_serialize_token")
    return ["--cache-dir", folder] if folder and token else []


@dataclass(frozen=True, slots=True)
class Group:
    """Flags of another tool that only together say what is measured.

    Attributes:
        flags: what follows each of them.
        translate: returns the flags here for the values of those that are given.
    """

    flags: Mapping[str, Takes]
    translate: Callable[[Given], list[str]]


GROUPS: tuple[Group, ...] = (
    Group({"-niter": Takes.VALUE, "-t": Takes.VALUE}, _iterations),
    Group(dict.fromkeys(("-nireq", "-nstreams", "-hint", "-api"), Takes.VALUE), _requests),
    Group({"-json_stats": Takes.TRUTH, "-report_type": Takes.VALUE, "-report_folder": Takes.VALUE}, _reports),
    Group(
        dict.fromkeys(
            (
                "--input_layer",
                "--input_layer_shape",
                "--input_layer_value_range",
                "--input_layer_value_files",
            ),
            Takes.VALUE,
        ),
        _layers,
    ),
    Group(
        {
            "--enable_op_profiling": Takes.TRUTH,
            "--op_profiling_output_mode": Takes.VALUE,
            "--op_profiling_output_file": Takes.VALUE,
            "--profiling_output_csv_file": Takes.VALUE,
        },
        _profiles,
    ),
    Group(dict.fromkeys(("--delegate_serialize_dir", "--delegate_serialize_token"), Takes.VALUE), _cache),
)

#: Flags that say what happens here anyway, or only concern the other tool, and what follows them.
WITHOUT_EFFECT: Mapping[str, Takes] = {
    "--use_xnnpack": Takes.TRUTH,
    "--use_nnapi": Takes.TRUTH,
    "--verbose": Takes.TRUTH,
    "--report_peak_memory_footprint": Takes.TRUTH,
    "--allow_dynamic_profiling_buffer_increase": Takes.TRUTH,
    "--benchmark_name": Takes.VALUE,
    "--disable_delegate_clustering": Takes.TRUTH,
    "--enable_builtin_cast_constant_cache": Takes.TRUTH,
    "--gpu_backend": Takes.VALUE,
    "--gpu_experimental_enable_quant": Takes.TRUTH,
    "--gpu_inference_for_sustained_speed": Takes.TRUTH,
    "--max_profiling_buffer_entries": Takes.VALUE,
    "--memory_footprint_check_interval_ms": Takes.VALUE,
    "--optimize_memory_for_large_tensors": Takes.VALUE,
    "--output_prefix": Takes.VALUE,
    "--print_postinvoke_state": Takes.TRUTH,
    "--print_preinvoke_state": Takes.TRUTH,
    "--release_dynamic_tensors": Takes.TRUTH,
    "--use_caching": Takes.TRUTH,
    "--use_coreml": Takes.TRUTH,
    "--use_hexagon": Takes.TRUTH,
    "--xnnpack_force_fp32": Takes.TRUTH,
    "--xnnpack_weight_cache_file_path": Takes.VALUE,
    "--xnnpack_runtime_flags": Takes.VALUE,
    "--model_runtime_info_output_file": Takes.VALUE,
    "--tensor_name_display_length": Takes.VALUE,
    "--tensor_type_display_length": Takes.VALUE,
    "--alloc_type_display_length": Takes.VALUE,
    "--enable_platform_tracing": Takes.TRUTH,
    "--gpu_wait_type": Takes.VALUE,
    "--gpu_invoke_loop_times": Takes.VALUE,
    "--coreml_version": Takes.VALUE,
    "--hexagon_profiling": Takes.TRUTH,
    "--hexagon_lib_path": Takes.VALUE,
    "--disable_nnapi_cpu": Takes.TRUTH,
    "--nnapi_allow_dynamic_dimensions": Takes.TRUTH,
    "--nnapi_support_library_path": Takes.VALUE,
    "--use_cpu": Takes.TRUTH,
    "--dispatch_library_path": Takes.VALUE,
    "--compiler_plugin_path": Takes.VALUE,
    "--runtime_path": Takes.VALUE,
    "-pin": Takes.VALUE,
    "-inference_only": Takes.TRUTH,
    "-layout": Takes.VALUE,
    "-c": Takes.VALUE,
    "-lfile": Takes.NOTHING,
    "-ip": Takes.VALUE,
    "-op": Takes.VALUE,
    "-iop": Takes.VALUE,
    "--mean_values": Takes.VALUE,
    "--scale_values": Takes.VALUE,
    "-pcseq": Takes.TRUTH,
    "--export_model_runtime_info": Takes.TRUTH,
    "--dump_config": Takes.VALUE,
    "--exec_graph_path": Takes.VALUE,
    "--avgRuns": Takes.VALUE,
    "--bf16": Takes.NOTHING,
    "--builderOptimizationLevel": Takes.VALUE,
    "--int8": Takes.NOTHING,
    "--memPoolSize": Takes.VALUE,
    "--sleepTime": Takes.VALUE,
    "--timingCacheFile": Takes.VALUE,
    "--useCudaGraph": Takes.NOTHING,
    "--useSpinWait": Takes.NOTHING,
    "--noDataTransfers": Takes.NOTHING,
    "--separateProfileRun": Takes.NOTHING,
    **dict.fromkeys(
        (
            *("--fp8", "--int4", "--noTF32", "--stronglyTyped", "--directIO", "--refit", "--exposeDMA"),
            *("--useManagedMemory", "--timeDeserialize", "--timeRefit", "--noCompilationCache"),
            *("--noBuilderCache", "--heuristic", "--dumpRefit", "--allowGPUFallback", "--safe"),
            *("--versionCompatible", "--restricted", "--consistency", "--errorOnTimingCacheMiss"),
            *("--dumpLayerInfo", "--dumpOptimizationProfile", "--useRuntime", "--allowWeightStreaming"),
        ),
        Takes.NOTHING,
    ),
    **dict.fromkeys(
        (
            *("--minShapes", "--maxShapes", "--avgTiming", "--minTiming", "--maxTactics"),
            *("--workspace", "--sparsity", "--precisionConstraints", "--layerPrecisions", "--calib"),
            *("--layerOutputTypes", "--layerDeviceTypes", "--inputIOFormats", "--outputIOFormats"),
            *("--tacticSources", "--profilingVerbosity", "--hardwareCompatibilityLevel", "--tempdir"),
            *("--maxAuxStreams", "--useProfile", "--allocationStrategy", "--persistentCacheRatio"),
            *("--weightStreamingBudget", "--exportLayerInfo", "--tilingOptimizationLevel"),
        ),
        Takes.VALUE,
    ),
}

_NO_DELEGATES = (
    "neurald loads no native delegates or plugins of others; devices are reached through drivers, see "
    "`neurald devices` and --device"
)
_OUTPUTS = "`neurald run MODEL --outputs OUT.npz` writes the outputs of one run"
#: Flags without which something else would be measured, and what to do instead.
REFUSED: Mapping[str, str] = {
    "--dry_run": "it measures nothing; `neurald compile` prepares a model without running it",
    "--list_signatures": "`neurald inspect MODEL` lists the signatures",
    "--output_filepath": _OUTPUTS,
    "--output_proto_filepath": _OUTPUTS,
    "--external_delegate_path": _NO_DELEGATES,
    "--external_delegate_options": _NO_DELEGATES,
    "--stable_delegate_loader_settings": _NO_DELEGATES,
    "--stable_delegate_settings_file": _NO_DELEGATES,
    "--use_npu": "name the device: --device NAME, of those that `neurald devices` lists",
    "-extensions": _NO_DELEGATES,
    "-b": "give inputs their sizes by name: --shape NAME=8x224x224x3",
    "--load_config": "give the device and its options as flags",
    "--loadEngine": "an engine of TensorRT only runs there; give the .tflite file it was made of",
    "--saveEngine": "`neurald compile MODEL --output FILE` writes a plan file",
    "--skipInference": "it measures nothing; `neurald compile` prepares a model without running it",
    "--useDLACore": "name the device: --device NAME, of those that `neurald devices` lists",
    "--plugins": _NO_DELEGATES,
    "--dynamicPlugins": _NO_DELEGATES,
    "--staticPlugins": _NO_DELEGATES,
    "--dumpOutput": _OUTPUTS,
    "--exportOutput": _OUTPUTS,
    "--dumpRawBindingsToFile": _OUTPUTS,
}

#: Values of refused flags that change nothing.
_USUAL: Mapping[str, str] = {"-b": "1"}


def translated(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Translates the flags of other tools.

    Args:
        arguments: the arguments of the command line.

    Returns:
        The arguments for `neurald benchmark`, and the flags that have no effect.

    Raises:
        BadData: a flag of another tool asks for something else than a measurement, or for what is
            not here.
    """
    table = {alias.flag: alias for alias in ALIASES}
    grouped = {flag: (group, takes) for group in GROUPS for flag, takes in group.flags.items()}
    found: list[str] = []
    ignored: list[str] = []
    given: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument == "--":
            found += [argument, *rest]
            break
        named, equals, after = argument.partition("=")
        value = after if equals else None
        flag = OTHER_NAMES.get(named, named)
        if flag in grouped:
            given[flag] = _following(value, rest, grouped[flag][1])
        elif flag in table:
            alias = table[flag]
            following = _following(value, rest, alias.takes)
            try:
                flags = alias.translate(following)
            except BadValue as error:
                raise BadData(f"{named} is {following!r}; {error}") from None
            found += flags
            if alias.expects_flags and not flags:
                ignored.append(flag)
        elif flag in _USUAL and _USUAL[flag] == (value or (rest[0] if rest else "")):
            ignored.append(flag)
            _following(value, rest, Takes.VALUE)
        elif flag in REFUSED and (value or "").lower() not in FALSE:
            raise BadData(f"{named} is not understood here: {REFUSED[flag]}")
        elif flag in WITHOUT_EFFECT or flag in REFUSED:
            ignored.append(flag)
            _following(value, rest, WITHOUT_EFFECT.get(flag, Takes.NOTHING))
        else:
            found.append(argument)
    # They come first, since what is given explicitly comes later and counts.
    together = [
        each
        for group in GROUPS
        if not group.flags.keys().isdisjoint(given)
        for each in group.translate(given)
    ]
    return [*together, *found], ignored


def _following(value: str | None, rest: list[str], takes: Takes) -> str:
    """Returns what follows a flag, and removes it from the rest of the arguments."""
    if value is not None or takes is Takes.NOTHING or not rest:
        return value or ""
    if takes is Takes.TRUTH and rest[0].lower() not in (*TRUE[1:], *FALSE):
        return ""
    return rest.pop(0)
