"""Runs a model with another runtime, in a Python that may not have neurald.

    python peer_process.py ENGINE MODEL INPUTS.npz THREADS RUNS MIN_S MAX_S WARMUP_RUNS WARMUP_MIN_S

Prints one JSON document: `version`, `start_ms`, `latencies_ms`, `peak_bytes`; or `error`.
"""

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Any


def litert(model: str, inputs: list[Any], threads: int) -> tuple[str, Callable[[], Any]]:
    """Returns LiteRT's version and a function that runs a model."""
    from importlib.metadata import version

    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=model, num_threads=threads)
    details = interpreter.get_input_details()
    for each, array in zip(details, inputs, strict=True):
        interpreter.resize_tensor_input(each["index"], array.shape)
    interpreter.allocate_tensors()
    outputs = [each["index"] for each in interpreter.get_output_details()]

    def run() -> None:
        for each, array in zip(details, inputs, strict=True):
            interpreter.set_tensor(each["index"], array)
        interpreter.invoke()
        for index in outputs:
            interpreter.get_tensor(index)

    return version("ai-edge-litert"), run


def openvino(model: str, inputs: list[Any], threads: int) -> tuple[str, Callable[[], Any]]:
    """Returns OpenVINO's version and a function that runs a model."""
    import openvino

    core = openvino.Core()
    read = core.read_model(model)
    read.reshape({each: list(array.shape) for each, array in zip(read.inputs, inputs, strict=True)})
    options = {
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        # It would compute in bfloat16 on processors that have it.
        "INFERENCE_PRECISION_HINT": "f32",
    }
    request = core.compile_model(read, "CPU", options).create_infer_request()
    return openvino.__version__, lambda: request.infer(inputs)


def onnxruntime(model: str, inputs: list[Any], threads: int) -> tuple[str, Callable[[], Any]]:
    """Returns ONNX Runtime's version and a function that runs a model."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feed = {each.name: array for each, array in zip(session.get_inputs(), inputs, strict=True)}
    return onnxruntime.__version__, lambda: session.run(None, feed)


ENGINES = {"litert": litert, "openvino": openvino, "onnxruntime": onnxruntime}


def repeat(run: Callable[[], Any], runs: int, min_s: float, max_s: float) -> list[float]:
    """Runs until there are enough runs and time has passed; returns the durations in ms."""
    found: list[float] = []
    begin = time.perf_counter()
    elapsed = 0.0
    while (len(found) < runs or elapsed < min_s) and elapsed < max_s:
        start = time.perf_counter()
        run()
        end = time.perf_counter()
        found.append((end - start) * 1e3)
        elapsed = end - begin
    return found


def main(arguments: list[str]) -> None:
    """Measures, and prints the document."""
    import numpy as np

    engine, model, stored, threads = arguments[:4]
    runs, min_s, max_s, warmup_runs, warmup_min_s = map(float, arguments[4:])
    with np.load(stored) as archive:
        inputs = [archive[name] for name in archive.files]
    # What runtimes print would be mixed with the document.
    out = os.dup(1)
    os.dup2(2, 1)
    start = time.perf_counter()
    version, run = ENGINES[engine](model, inputs, int(threads))
    run()
    start_ms = (time.perf_counter() - start) * 1e3
    repeat(run, int(warmup_runs), warmup_min_s, max_s)
    document = {
        "version": version,
        "start_ms": start_ms,
        "latencies_ms": repeat(run, max(int(runs), 1), min_s, max_s),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    os.write(out, json.dumps(document).encode())


if __name__ == "__main__":
    main(sys.argv[1:])
