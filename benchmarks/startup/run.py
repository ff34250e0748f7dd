"""Measures how soon a new process has its first answer, compared with other runtimes.

    python benchmarks/startup/run.py --models FOLDER [--only NAME,...] [--rounds 5] [--json FILE]
        [--before FILE] [--second FIRST:SECOND ...] [--without NAME,...]

Each figure is of a new process, which imports the runtime, loads a `.tflite` file, prepares it with
one thread and runs it once. Processes of all runtimes alternate, and medians count. neurald starts
in two ways: *cold* with an empty cache, and *warm* when an earlier process has filled the cache.
Warm starts and other runtimes are compared by the processor time of their process, which other
programs disturb least; cold starts, which compile in other processes, by elapsed time. *Peak* is
the largest resident memory of the application's process; a cold process is measured until the
compiled code has replaced the first tier. `--second` compiles SECOND with a cache that has FIRST,
another model of the same family. With `--before`, processes of neurald and of LiteRT prepare the
model of FILE and then the measured one, in *later* figures: what a start takes without what happens
once in a process, such as imports. Those of neurald have a filled cache or, on the *first tier*, an
empty one; the latter and those of LiteRT also call the model, with zeros and while nothing
compiles.

`--without` leaves out what is not wanted: cold starts (`cold`), or other runtimes.

The other runtimes are those of the environment `build/peers` (or `NEURALD_PEERS`) that
`benchmarks/cpu/peers.sh` creates. ONNX Runtime is measured where there is an `.onnx` file of the
same name; OpenVINO reads the `.tflite` file.
"""

import argparse
import contextlib
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from result_file import Cell, Result, circumstances, write
from selection import selected
from start_tables import tables_of

_ROOT = Path(__file__).resolve().parents[2]
#: A compiled model of any runtime.
Prepared: TypeAlias = Any
_PEERS = ("litert", "openvino", "onnxruntime")
_TIMEOUT_S = 600
#: How long a file must be unmodified to be recognised, in seconds.
_REST_S = 3.0
#: How long to wait at most until models are compiled, and until this process only waits for that.
_BEGIN_S, _SETTLE_S = 5.0, 0.05
#: For how much processor time models are called, in seconds, and the least number of calls.
_CALLS_S, _LEAST_CALLS = 0.1, 3
#: Variables that the measured processes must not inherit.
_CHANGED = ("NEURALD_CPU_COMPILER", "NEURALD_STARTUP", "PYTHONDONTWRITEBYTECODE")


def _clocks() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def _since(start: tuple[float, float]) -> tuple[float, float]:
    """Returns elapsed and processor time in milliseconds."""
    now = _clocks()
    return (now[0] - start[0]) * 1e3, (now[1] - start[1]) * 1e3


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _neurald(path: str) -> Callable[[], Prepared]:
    import neurald as nd

    def prepare() -> Prepared:
        begin = time.process_time()
        model = nd.load_tflite(path)
        loaded_ms = (time.process_time() - begin) * 1e3
        prepared = nd.CompilationBuilder(model, threads=1).finish()
        _neurald_loads.append(loaded_ms)
        return prepared

    return prepare


#: What `load_tflite` took, for each model that this process has prepared, in milliseconds.
_neurald_loads: list[float] = []


def _litert(path: str) -> Callable[[], Prepared]:
    from ai_edge_litert.interpreter import Interpreter

    def prepare() -> Prepared:
        interpreter = Interpreter(path, num_threads=1)
        interpreter.allocate_tensors()
        return interpreter

    return prepare


def _openvino(path: str) -> Callable[[], Prepared]:
    import openvino

    def prepare() -> Prepared:
        return openvino.Core().compile_model(path, "CPU", {"INFERENCE_NUM_THREADS": 1})

    return prepare


def _onnxruntime(path: str) -> Callable[[], Prepared]:
    import onnxruntime

    def prepare() -> Prepared:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        return onnxruntime.InferenceSession(str(Path(path).with_suffix(".onnx")), options)

    return prepare


_ENGINES = {"neurald": _neurald, "litert": _litert, "openvino": _openvino, "onnxruntime": _onnxruntime}


def _call_of(engine: str, prepared: Prepared) -> Callable[[], object]:
    """Returns what calls a model with zeros, whose open lengths are 1."""
    import numpy as np

    if engine == "neurald":
        model = prepared.model
        operands = [model.main.operands[index] for index in model.inputs]
        arrays = [np.zeros([each or 1 for each in one.dimensions or ()], one.type.dtype) for one in operands]
        return lambda: prepared.run(*arrays)
    details = prepared.get_input_details()
    values = [np.zeros(each["shape"], each["dtype"]) for each in details]

    def invoke() -> object:
        for each, value in zip(details, values, strict=True):
            prepared.set_tensor(each["index"], value)
        prepared.invoke()
        return [prepared.get_tensor(each["index"]) for each in prepared.get_output_details()]

    return invoke


def _compiling() -> list[int]:
    """Returns the processes that compile. Other runtimes have none."""
    pools: Mapping[Any, Any] = getattr(
        sys.modules.get("neurald.hal.compiling.separate_compiler"), "_pools", {}
    )
    return [pool.process for pool in list(pools.values()) if pool.process is not None]


def _signal_compiling(number: signal.Signals) -> None:
    """Sends a signal to the processes that compile."""
    pending = _compiling()
    while pending:
        process = pending.pop()
        children = Path(f"/proc/{process}/task/{process}/children")
        with contextlib.suppress(OSError):
            os.kill(process, number)
            pending += [int(each) for each in children.read_text("ascii").split()]


def _keep_first_tier() -> None:
    """Stops what compiles, which begins some time after a model is prepared."""
    end_s = time.monotonic() + _BEGIN_S
    while not _compiling() and time.monotonic() < end_s:
        time.sleep(0.01)
    _signal_compiling(signal.SIGSTOP)
    # Until this process waits for the others.
    time.sleep(_SETTLE_S)


def _call_ms(call: Callable[[], object]) -> float:
    """Returns the processor time of a call after the first ones."""
    for _ in range(2):
        call()
    count, begin = 0, time.process_time()
    while (spent := time.process_time() - begin) < _CALLS_S or count < _LEAST_CALLS:
        call()
        count += 1
    return spent / count * 1e3


def worker(engine: str, path: str, *, optimizes: bool, calls: bool = False, before: str = "") -> None:
    """Prepares a model in this new process and prints the figures."""
    if before:
        # The first one stays, as in a program that uses both.
        first = _ENGINES[engine](before)()  # noqa: F841
    start = _clocks()
    prepare = _ENGINES[engine](path)
    import_ms, import_cpu_ms = _since(start)
    begin = _clocks()
    prepared = prepare()
    ready_ms, ready_cpu_ms = _since(begin)
    found = {
        "import_ms": import_ms,
        "import_cpu_ms": import_cpu_ms,
        "ready_ms": ready_ms,
        "ready_cpu_ms": ready_cpu_ms,
        "ready_peak_mib": _peak_mib(),
    }
    if engine == "neurald":
        found["load_cpu_ms"] = _neurald_loads[-1]
        graphs = (prepared.model.main, *prepared.model.referenced)
        found["operations"] = sum(len(graph.operations) for graph in graphs)
    if calls:
        if engine == "neurald":
            _keep_first_tier()
        found["call_cpu_ms"] = _call_ms(_call_of(engine, prepared))
        _signal_compiling(signal.SIGKILL)
    if optimizes:
        prepared.wait_until_optimized(_TIMEOUT_S)
        found["optimized_ms"] = _since(begin)[0]
    found["peak_mib"] = _peak_mib()
    print(json.dumps(found), flush=True)  # noqa: T201 - the parent reads it
    # What ends the process is not measured. A converted file is kept then, if no call has done so.
    sys.exit()


class Machine:
    """Starts the processes that are measured.

    Args:
        folder: for caches.
        peers: interpreter of the other runtimes.
    """

    def __init__(self, folder: Path, peers: Path) -> None:
        self._folder, self._peers = folder, peers
        (folder / "run").mkdir(mode=0o700)

    def run(
        self,
        engine: str,
        path: Path,
        cache: str,
        *,
        optimizes: bool = False,
        calls: bool = False,
        waits: bool = False,
        before: Path | None = None,
    ) -> dict[str, float]:
        """Returns the figures of a new process.

        Args:
            engine: the runtime.
            path: of the model.
            cache: name of the cache.
            optimizes: whether to wait until optimised code runs.
            calls: whether to call the model.
            waits: whether to prepare without a first tier, which compiles at once.
            before: a model that is prepared earlier.

        Raises:
            RuntimeError: it fails; the message ends with what it printed last.
        """
        python = sys.executable if engine == "neurald" else str(self._peers)
        command = [python, __file__, "--worker", engine, str(path)]
        environment = {
            **{name: value for name, value in os.environ.items() if name not in _CHANGED},
            "XDG_CACHE_HOME": str(self._folder / cache),
            # Daemons of this machine are not part of the measurement.
            "XDG_RUNTIME_DIR": str(self._folder / "run"),
            "NEURALD_AUTOSTART": "0",
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
        }
        if waits:
            environment["NEURALD_STARTUP"] = "optimized"
        if optimizes:
            command.append("--optimizes")
        if calls:
            command.append("--calls")
        if before is not None:
            command += ["--before", str(before)]
        done = subprocess.run(  # noqa: S603 - constant arguments
            command, capture_output=True, text=True, env=environment, timeout=_TIMEOUT_S, check=False
        )
        try:
            found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        except (IndexError, ValueError):
            raise RuntimeError(done.stderr.strip()[-300:]) from None
        return found


def medians(samples: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Returns the median of each figure."""
    return {name: statistics.median(sample[name] for sample in samples) for name in samples[0]}


def measure(
    machine: Machine, path: Path, rounds: int, before: Path | None = None, without: Collection[str] = ()
) -> dict[str, dict[str, float]]:
    """Returns the figures of a model: of cold and warm starts, and of each other runtime."""
    found: dict[str, list[dict[str, float]]] = {}
    failed: dict[str, str] = {}

    def add(name: str, engine: str, cache: str, **options: Any) -> None:
        if name in failed:
            return
        try:
            found.setdefault(name, []).append(machine.run(engine, path, cache, **options))
        except RuntimeError as error:
            failed[name] = str(error)
            print(f"{path.name}: {name} fails: {error}", file=sys.stderr)  # noqa: T201

    peers = [each for each in _PEERS if each != "onnxruntime" or path.with_suffix(".onnx").exists()]
    peers = [each for each in peers if each not in without]
    if "cold" in without:
        machine.run("neurald", path, f"{path.stem}-0", waits=True)
    for number in range(rounds):
        if "cold" not in without:
            add("cold", "neurald", f"{path.stem}-{number}", optimizes=True)
        add("warm", "neurald", f"{path.stem}-0")
        for peer in peers:
            add(peer, peer, "peers")
        if before is not None:
            if not number:
                machine.run("neurald", before, f"{path.stem}-0", waits=True)
            add("later", "neurald", f"{path.stem}-0", before=before)
            add("first_tier", "neurald", f"{path.stem}-first-{number}", before=before, calls=True)
            add("litert_later", "litert", "peers", before=before, calls=True)
    # The first warm start also records what is known only once a file has been at rest.
    return {name: medians(samples[1:] or samples) for name, samples in found.items() if name not in failed}


def second_of_family(machine: Machine, first: Path, second: Path, rounds: int) -> list[Cell]:
    """Returns how long the second model takes to compile, without and with the first one's code."""
    alone, after = [], []
    for number in range(rounds):
        caches = f"alone-{second.stem}-{number}", f"after-{second.stem}-{number}"
        alone.append(machine.run("neurald", second, caches[0], optimizes=True)["optimized_ms"])
        machine.run("neurald", first, caches[1], optimizes=True)
        after.append(machine.run("neurald", second, caches[1], optimizes=True)["optimized_ms"])
    before_ms, after_ms = statistics.median(alone), statistics.median(after)
    return [f"{second.stem} after {first.stem}", before_ms, after_ms, after_ms / before_ms]


def main() -> None:
    """Runs the benchmark."""
    description = (__doc__ or "").split("\n", 1)[0]
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--models", type=Path, metavar="FOLDER")
    parser.add_argument("--only", default="", help="names of models or parts of names, with commas")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--second", nargs="*", default=[], metavar="FIRST:SECOND", help="paths of two files")
    parser.add_argument("--without", default="", metavar="NAME,...", help="cold, or names of other runtimes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write a result file")
    parser.add_argument("--before", type=Path, metavar="FILE", help="a model that is prepared earlier")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--optimizes", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--calls", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(
            *arguments.worker,
            optimizes=arguments.optimizes,
            calls=arguments.calls,
            before=str(arguments.before or ""),
        )
    if arguments.models is None and not arguments.second:
        parser.error("--models FOLDER or --second FIRST:SECOND is required")
    without = arguments.without.split(",")
    files = sorted(arguments.models.glob("**/*.tflite") if arguments.models else ())
    paths = selected(files, lambda path: path.stem, arguments.only.split(","), "--only")
    peers = Path(os.environ.get("NEURALD_PEERS", _ROOT / "build" / "peers")) / "bin" / "python"
    models: dict[str, dict[str, dict[str, float]]] = {}
    # Processes that applications have left may still write to their caches.
    with tempfile.TemporaryDirectory(prefix="startup", ignore_cleanup_errors=True) as folder:
        machine = Machine(Path(folder), peers)
        time.sleep(_REST_S)
        for path in paths:
            models[path.stem] = measure(machine, path, arguments.rounds, arguments.before, without)
            print(path.stem, models[path.stem], flush=True)  # noqa: T201
        second = [
            second_of_family(machine, *map(Path, pair.split(":")), rounds=arguments.rounds)
            for pair in arguments.second
        ]
    tables = tables_of(models, second)
    if arguments.json:
        result = Result(
            title="Start of a new process" + (" from the cache" if "cold" in without else ""),
            description=" ".join((__doc__ or "").split("\n\n")[2].split()),
            tables=tables,
            details=models,
            **circumstances(),
        )
        write(arguments.json, result)


if __name__ == "__main__":
    main()
