"""Measures what a call costs: an addition, on one number and on an image, in all ways to call it.

    benchmarks/cpu/peers.sh                      # once: installs the other runtimes separately
    python benchmarks/cpu/calls.py [--rounds 30] [--json FILE]

Each runtime has a process of its own, in which its ways run in bursts, in random order. Only one
process runs at a time. Figures are medians of the processor time of a call. `bound` ways find their
arrays in place; the others take arrays and return new ones.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from report import say

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from result_file import Column, Result, Table, circumstances, write

Ways = Mapping[str, Callable[[], object]]

#: Sides and channels of the images that are added, by the name of the model.
_MODELS = {"one number": (1, 1), "an image of 588 KB": (224, 3)}
#: Duration of a burst.
_BURST_MS = 10.0
_PACKAGES = {"neurald": "neurald", "litert": "ai-edge-litert", "onnxruntime": "onnxruntime"}


def neurald_ways(path: str, image: np.ndarray) -> Ways:
    """Returns the ways to run a model on the CPU device."""
    # Other devices are not part of the measurement.
    os.environ["NEURALD_AUTOSTART"] = "0"
    import neurald as nd

    builder = nd.CompilationBuilder(nd.load_tflite(path), [nd.devices()[0]], threads=1)
    builder.set_caching(None)
    compilation = builder.finish()
    (output,) = compilation.run(image)
    execution = nd.Execution(compilation, reusable=True)
    execution.set_input(0, image)
    execution.set_output(0, output)
    burst = compilation.create_burst()

    def once() -> None:
        single = nd.Execution(compilation)
        single.set_input(0, image)
        single.set_output(0, output)
        single.compute()

    return {
        "neurald": execution.compute,
        "neurald: compute(burst)": lambda: execution.compute(burst=burst),
        "neurald: start_compute, wait": lambda: execution.start_compute().wait(),
        "neurald: run": lambda: compilation.run(image),
        "neurald: new Execution": once,
    }


def litert_ways(path: str, image: np.ndarray) -> Ways:
    """Returns the ways to run a model with LiteRT."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=path, num_threads=1)
    interpreter.allocate_tensors()
    source = interpreter.get_input_details()[0]["index"]
    target = interpreter.get_output_details()[0]["index"]
    interpreter.set_tensor(source, image)

    def run() -> np.ndarray:
        interpreter.set_tensor(source, image)
        interpreter.invoke()
        output: np.ndarray = interpreter.get_tensor(target)
        return output

    return {"LiteRT": interpreter.invoke, "LiteRT: set_tensor, invoke, get_tensor": run}


def onnxruntime_ways(path: str, image: np.ndarray) -> Ways:
    """Returns the ways to run a model with ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    values = np.ascontiguousarray(image.transpose(0, 3, 1, 2))
    slot = session.get_inputs()[0].name
    binding = session.io_binding()
    binding.bind_ortvalue_input(slot, onnxruntime.OrtValue.ortvalue_from_numpy(values))
    for output in session.get_outputs():
        binding.bind_output(output.name)
    return {
        "ONNX Runtime": lambda: session.run_with_iobinding(binding),
        "ONNX Runtime: run": lambda: session.run(None, {slot: values}),
    }


_ENGINES: Mapping[str, Callable[[str, np.ndarray], Ways]] = {
    "neurald": neurald_ways,
    "litert": litert_ways,
    "onnxruntime": onnxruntime_ways,
}


def serve(engine: str, path: str, side: int, channels: int) -> None:
    """Runs the bursts that standard input asks for, and writes microseconds to standard output."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    image = np.random.default_rng(0).normal(size=(1, side, side, channels)).astype(np.float32)
    ways = _ENGINES[engine](path, image)
    counts: dict[str, int] = {}
    for name, run in ways.items():
        started = time.perf_counter()
        for _ in range(20):
            run()
        counts[name] = max(5, int(_BURST_MS / 1e3 * 20 / (time.perf_counter() - started)))
    print(json.dumps([version(_PACKAGES[engine]), list(ways)]), file=answers)
    for line in sys.stdin:
        name = json.loads(line)
        run, count = ways[name], counts[name]
        for _ in range(max(1, count // 5)):
            run()
        started_ns = time.process_time_ns()
        for _ in range(count):
            run()
        print((time.process_time_ns() - started_ns) / count / 1e3, file=answers)


class Runtime:
    """The process of a runtime with one model."""

    def __init__(self, engine: str, peers: Path, path: Path, side: int, channels: int) -> None:
        python = sys.executable if engine == "neurald" else str(peers)
        self._process = subprocess.Popen(  # noqa: S603
            [python, __file__, "--serve", engine, str(path), str(side), str(channels)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.version, self.ways = json.loads(self._answer())

    def burst(self, way: str) -> float:
        """Returns the processor time of a call, in microseconds."""
        assert self._process.stdin is not None  # noqa: S101
        self._process.stdin.write(json.dumps(way) + "\n")
        self._process.stdin.flush()
        return float(self._answer())

    def _answer(self) -> str:
        assert self._process.stdout is not None  # noqa: S101
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{' '.join(map(str, self._process.args))}: ended")  # type: ignore[arg-type]
        return line

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate(timeout=60)


def files(folder: Path, side: int, channels: int) -> Mapping[str, Path]:
    """Writes the files of a model; returns the one for each engine."""
    from networks import onnx_file, tflite_file
    from networks.network import Network

    network = Network(size=side, channels=channels)
    network.sum(network.image, network.image)
    tflite, onnx = folder / f"{side}.tflite", folder / f"{side}.onnx"
    tflite.write_bytes(tflite_file(network, np.float32))
    onnx.write_bytes(onnx_file(network, np.float32))
    return {"neurald": tflite, "litert": tflite, "onnxruntime": onnx}


def measure(peers: Path, rounds: int, folder: Path) -> tuple[dict[str, dict[str, float]], dict[str, str]]:
    """Returns the medians by model and way, and the versions of the runtimes."""
    found: dict[str, dict[str, float]] = {}
    versions: dict[str, str] = {}
    chance = random.Random(0)  # noqa: S311
    for model, (side, channels) in _MODELS.items():
        paths = files(folder, side, channels)
        with ExitStack() as stack:
            runtimes = {}
            for engine in _ENGINES:
                runtimes[engine] = runtime = Runtime(engine, peers, paths[engine], side, channels)
                stack.callback(runtime.close)
                versions[_PACKAGES[engine]] = runtime.version
            ways = [(runtime, way) for runtime in runtimes.values() for way in runtime.ways]
            times: dict[str, list[float]] = {way: [] for _, way in ways}
            for _ in range(rounds):
                for runtime, way in chance.sample(ways, len(ways)):
                    times[way].append(runtime.burst(way))
        found[model] = {way: statistics.median(each) for way, each in times.items()}
    return found, versions


def result(found: Mapping[str, Mapping[str, float]], versions: Mapping[str, str]) -> Result:
    """Returns the tables."""

    def table(title: str, times: Mapping[str, float]) -> Table:
        columns = [
            Column(name="runtime", title="call"),
            Column(name="time_us", title="time", unit="µs", format=".2f"),
        ]
        return Table(
            title=title, columns=columns, rows=[[way, round(time_us, 3)] for way, time_us in times.items()]
        )

    return Result(
        title="CPU device: overhead of a call",
        description=(
            "One execution of a model that adds an array to itself, with one thread: medians of the "
            "processor time. The first row of a runtime has its arrays in place (neurald: "
            "Execution.compute); `run` and the like take arrays and return new ones."
        ),
        tables=[table(f"One execution of an addition of {model}", times) for model, times in found.items()],
        **{**circumstances(), "software": ", ".join(f"{name} {each}" for name, each in versions.items())},
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures, prints the tables, and writes them to a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    root = Path(__file__).resolve().parents[2]
    default = Path(os.environ.get("NEURALD_PEERS", root / "build" / "peers")) / "bin" / "python"
    parser.add_argument("--peers", type=Path, default=default, help="Python that has the other runtimes")
    parser.add_argument("--rounds", type=int, default=30, help="bursts of each way")
    parser.add_argument("--json", type=Path, help="file to write")
    parser.add_argument("--serve", nargs=4, help=argparse.SUPPRESS)
    options: Any = parser.parse_args(arguments)
    if options.serve:
        engine, path, side, channels = options.serve
        serve(engine, path, int(side), int(channels))
        return
    with tempfile.TemporaryDirectory() as folder:
        found, versions = measure(options.peers, options.rounds, Path(folder))
    for model, times in found.items():
        say(f"\n{model}, µs")
        for way, time_us in times.items():
            say(f"  {way:42}{time_us:10.2f}")
    if options.json is not None:
        write(options.json, result(found, versions))


if __name__ == "__main__":
    main()
