"""The flags of other benchmark tools, as flags of `neurald benchmark`.

These are TFLite's `benchmark_model`, LiteRT's `litert-benchmark`, OpenVINO's `benchmark_app` and
TensorRT's `trtexec`. What a flag means there is translated, units as well. A flag without a meaning
here has no effect, and a note says so. What would be measured without a flag, but is something
else, is refused with what to do instead.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from neurald.hal.errors import BadData

Translation = Callable[[str], list[str]]

#: A name and its shape, in brackets or after a colon.
_SHAPE = re.compile(r",?([^\[\],:]+)(?:\[([0-9,]+)\]|:([0-9x]+))")


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
    """

    tool: str
    flag: str
    shown: str
    translate: Translation
    takes: Takes = Takes.VALUE


_TRUE = ("", "1", "true")
_FALSE = ("0", "false")


def _same(flag: str) -> Translation:
    return lambda value: [flag, value]


def _if_true(*flags: str) -> Translation:
    return lambda value: list(flags) if value.lower() in _TRUE else []


def _scaled(flag: str, factor: float) -> Translation:
    def translate(value: str) -> list[str]:
        try:
            return [flag, f"{float(value) * factor:g}"]
        except ValueError:
            return [flag, value]

    return translate


def _unless_negative(flag: str) -> Translation:
    return lambda value: [] if value.startswith("-") else [flag, value]


def _positional(value: str) -> list[str]:
    return [value]


def _shapes(value: str) -> list[str]:
    """Translates `x:1x3,y:2` and `x[1,3],y[2]`."""
    flags: list[str] = []
    for name, listed, plain in _SHAPE.findall(value):
        flags += ["--shape", f"{name}={plain or listed.replace(',', 'x')}"]
    return flags


def _devices(value: str) -> list[str]:
    """Translates `CPU`, `GPU`, `MULTI:CPU,GPU`."""
    names = {"CPU": "cpu", "GPU": "opencl"}
    if value.upper() in ("AUTO", "HETERO", ""):
        return []
    listed = value.rpartition(":")[2].split(",")
    return [flag for each in listed for flag in ("--device", names.get(each.upper(), each))]


_LITERT, _PYTHON, _OPENVINO, _TENSORRT = "benchmark_model", "litert-benchmark", "benchmark_app", "trtexec"

ALIASES: tuple[Alias, ...] = (
    Alias(_LITERT, "--graph", "MODEL", _positional),
    Alias(_LITERT, "--num_runs", "--runs", _same("--runs")),
    Alias(_LITERT, "--min_secs", "--min-secs", _same("--min-secs")),
    Alias(_LITERT, "--max_secs", "--max-secs", _same("--max-secs")),
    Alias(_LITERT, "--warmup_runs", "--warmup-runs", _same("--warmup-runs")),
    Alias(_LITERT, "--warmup_min_secs", "--warmup-min-secs", _same("--warmup-min-secs")),
    Alias(_LITERT, "--run_delay", "--delay", _unless_negative("--delay")),
    Alias(_LITERT, "--run_frequency", "--frequency", _unless_negative("--frequency")),
    Alias(_LITERT, "--num_threads", "--threads", _unless_negative("--threads")),
    # `--input_layer` and `--input_layer_shape` belong together; `translated` has them.
    Alias(_LITERT, "--signature_to_run_for", "--signature", _same("--signature")),
    Alias(_LITERT, "--enable_op_profiling", "--profile", _if_true("--profile"), Takes.TRUTH),
    Alias(_LITERT, "--profiling_output_csv_file", "--profile-csv", _same("--profile-csv")),
    Alias(_LITERT, "--op_profiling_output_file", "--profile-csv", _same("--profile-csv")),
    Alias(_LITERT, "--output_filepath", "--output", _same("--output")),
    Alias(_LITERT, "--use_gpu", "--device opencl", _if_true("--device", "opencl"), Takes.TRUTH),
    Alias(
        _LITERT,
        "--require_full_delegation",
        "--require-full-delegation",
        _if_true("--require-full-delegation"),
        Takes.TRUTH,
    ),
    Alias(_LITERT, "--result_file_path", "--output", _same("--output")),
    Alias(_LITERT, "--nnapi_accelerator_name", "--device", _same("--device")),
    Alias(_LITERT, "--nnapi_use_burst_mode", "--burst", _if_true("--burst"), Takes.TRUTH),
    Alias(_PYTHON, "--model", "MODEL", _positional),
    Alias(_PYTHON, "--result_json", "--output", _same("--output")),
    Alias(
        _PYTHON,
        "--no_cpu",
        "--require-full-delegation",
        lambda _: ["--require-full-delegation"],
        Takes.NOTHING,
    ),
    Alias(_OPENVINO, "-m", "MODEL", _positional),
    Alias(_OPENVINO, "-d", "--device", _devices),
    Alias(_OPENVINO, "-niter", "--runs", _same("--runs")),
    Alias(_OPENVINO, "-t", "--min-secs", _same("--min-secs")),
    Alias(_OPENVINO, "-nthreads", "--threads", _same("--threads")),
    Alias(_OPENVINO, "-max_irate", "--frequency", _same("--frequency")),
    Alias(_OPENVINO, "-nireq", "--clients", _same("--clients")),
    Alias(_OPENVINO, "-shape", "--shape", _shapes),
    Alias(_OPENVINO, "-data_shape", "--shape", _shapes),
    Alias(_OPENVINO, "-pc", "--profile", _if_true("--profile"), Takes.TRUTH),
    Alias(_OPENVINO, "-json_stats", "--json", _if_true("--json"), Takes.TRUTH),
    Alias(
        _OPENVINO,
        "-no_warmup",
        "--warmup-runs 0 --warmup-min-secs 0",
        lambda _: ["--warmup-runs", "0", "--warmup-min-secs", "0"],
        Takes.NOTHING,
    ),
    Alias(_TENSORRT, "--iterations", "--runs", _same("--runs")),
    Alias(_TENSORRT, "--duration", "--min-secs", _same("--min-secs")),
    Alias(_TENSORRT, "--warmUp", "--warmup-min-secs, in ms there", _scaled("--warmup-min-secs", 1e-3)),
    Alias(_TENSORRT, "--idleTime", "--delay, in ms there", _scaled("--delay", 1e-3)),
    Alias(_TENSORRT, "--streams", "--clients", _same("--clients")),
    Alias(_TENSORRT, "--infStreams", "--clients", _same("--clients")),
    Alias(_TENSORRT, "--shapes", "--shape", _shapes),
    Alias(_TENSORRT, "--dumpProfile", "--profile", lambda _: ["--profile"], takes=Takes.NOTHING),
    Alias(_TENSORRT, "--exportTimes", "--output", _same("--output")),
    Alias(_TENSORRT, "--optShapes", "--shape", _shapes),
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

#: Of flags that set one of two least amounts of work in their tool: what else holds here without
#: the flag that sets the other. `benchmark_app -niter 10` makes 10 runs, and `-t 5` runs for 5
#: seconds.
_ALONE: Mapping[str, tuple[str, Sequence[str]]] = {
    "-niter": ("-t", ("--min-secs", "0")),
    "-t": ("-niter", ("--runs", "1")),
}

#: Flags that say what happens here anyway, or only concern the other tool, and what follows them.
WITHOUT_EFFECT: Mapping[str, Takes] = {
    "--use_xnnpack": Takes.TRUTH,
    "--use_nnapi": Takes.TRUTH,
    "--verbose": Takes.TRUTH,
    "--report_peak_memory_footprint": Takes.TRUTH,
    "--allow_fp16": Takes.TRUTH,
    "--allow_dynamic_profiling_buffer_increase": Takes.TRUTH,
    "--benchmark_name": Takes.VALUE,
    "--delegate_serialize_dir": Takes.VALUE,
    "--delegate_serialize_token": Takes.VALUE,
    "--disable_delegate_clustering": Takes.TRUTH,
    "--enable_builtin_cast_constant_cache": Takes.TRUTH,
    "--gpu_backend": Takes.VALUE,
    "--gpu_experimental_enable_quant": Takes.TRUTH,
    "--gpu_inference_for_sustained_speed": Takes.TRUTH,
    "--gpu_precision_loss_allowed": Takes.TRUTH,
    "--input_layer_value_range": Takes.VALUE,
    "--max_delegated_partitions": Takes.VALUE,
    "--max_profiling_buffer_entries": Takes.VALUE,
    "--memory_footprint_check_interval_ms": Takes.VALUE,
    "--min_nodes_per_partition": Takes.VALUE,
    "--optimize_memory_for_large_tensors": Takes.VALUE,
    "--output_prefix": Takes.VALUE,
    "--print_postinvoke_state": Takes.TRUTH,
    "--print_preinvoke_state": Takes.TRUTH,
    "--release_dynamic_tensors": Takes.TRUTH,
    "--use_caching": Takes.TRUTH,
    "--use_coreml": Takes.TRUTH,
    "--use_hexagon": Takes.TRUTH,
    "--xnnpack_force_fp16": Takes.TRUTH,
    "--xnnpack_force_fp32": Takes.TRUTH,
    "--xnnpack_weight_cache_file_path": Takes.VALUE,
    "--xnnpack_runtime_flags": Takes.VALUE,
    "--input_layer_value_files": Takes.VALUE,
    "--op_profiling_output_mode": Takes.VALUE,
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
    "--nnapi_execution_preference": Takes.VALUE,
    "--nnapi_execution_priority": Takes.VALUE,
    "--disable_nnapi_cpu": Takes.TRUTH,
    "--nnapi_allow_fp16": Takes.TRUTH,
    "--nnapi_allow_dynamic_dimensions": Takes.TRUTH,
    "--nnapi_support_library_path": Takes.VALUE,
    "--use_cpu": Takes.TRUTH,
    "--dispatch_library_path": Takes.VALUE,
    "--compiler_plugin_path": Takes.VALUE,
    "--runtime_path": Takes.VALUE,
    "-hint": Takes.VALUE,
    "-api": Takes.VALUE,
    "-infer_precision": Takes.VALUE,
    "-report_type": Takes.VALUE,
    "-cache_dir": Takes.VALUE,
    "-cdir": Takes.VALUE,
    "-i": Takes.VALUE,
    "-latency_percentile": Takes.VALUE,
    "-nstreams": Takes.VALUE,
    "-pcsort": Takes.VALUE,
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
    "--dump_config": Takes.VALUE,
    "--exec_graph_path": Takes.VALUE,
    "-report_folder": Takes.VALUE,
    "--avgRuns": Takes.VALUE,
    "--percentile": Takes.VALUE,
    "--best": Takes.NOTHING,
    "--bf16": Takes.NOTHING,
    "--builderOptimizationLevel": Takes.VALUE,
    "--fp16": Takes.NOTHING,
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
            *("--minShapes", "--maxShapes", "--loadInputs", "--avgTiming", "--minTiming", "--maxTactics"),
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
#: Flags without which something else would be measured, and what to do instead.
REFUSED: Mapping[str, str] = {
    "--dry_run": "it measures nothing; `neurald compile` prepares a model without running it",
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
    "--dumpOutput": "`neurald run MODEL --outputs OUT.npz` writes the outputs of one run",
    "--exportOutput": "`neurald run MODEL --outputs OUT.npz` writes the outputs of one run",
    "--dumpRawBindingsToFile": "`neurald run MODEL --outputs OUT.npz` writes the outputs of one run",
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
    found: list[str] = []
    ignored: list[str] = []
    layers: list[str] = []
    used: set[str] = set()
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument == "--":
            found += [argument, *rest]
            break
        flag, equals, given = argument.partition("=")
        value = given if equals else None
        flag = OTHER_NAMES.get(flag, flag)
        alias = table.get(flag)
        used.add(flag)
        if flag == "--input_layer":
            layers = _following(value, rest, Takes.VALUE).split(",")
        elif flag == "--input_layer_shape":
            found += _layer_shapes(layers, _following(value, rest, Takes.VALUE))
        elif alias is not None:
            found += alias.translate(_following(value, rest, alias.takes))
        elif flag in _USUAL and _USUAL[flag] == (value or (rest[0] if rest else "")):
            ignored.append(flag)
            _following(value, rest, Takes.VALUE)
        elif flag in REFUSED and (value or "").lower() not in _FALSE:
            raise BadData(f"{argument.partition('=')[0]} is not understood here: {REFUSED[flag]}")
        elif flag in WITHOUT_EFFECT or flag in REFUSED:
            ignored.append(flag)
            _following(value, rest, WITHOUT_EFFECT.get(flag, Takes.NOTHING))
        else:
            found.append(argument)
    # They come first, since what is given explicitly comes later and counts.
    alone = [
        each
        for flag, (other, flags) in _ALONE.items()
        if flag in used and other not in used
        for each in flags
    ]
    return [*alone, *found], ignored


def _following(value: str | None, rest: list[str], takes: Takes) -> str:
    """Returns what follows a flag, and removes it from the rest of the arguments."""
    if value is not None or takes is Takes.NOTHING or not rest:
        return value or ""
    if takes is Takes.TRUTH and rest[0].lower() not in (*_TRUE[1:], *_FALSE):
        return ""
    return rest.pop(0)


def _layer_shapes(layers: Sequence[str], text: str) -> list[str]:
    """Translates shapes such as `1,224,224,3:1,8` of the layers that were named before."""
    flags: list[str] = []
    for name, lengths in zip(layers, text.split(":"), strict=False):
        flags += ["--shape", f"{name}={lengths.replace(',', 'x')}"]
    return flags
