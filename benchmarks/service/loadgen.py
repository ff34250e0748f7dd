"""Loads a model with MLPerf LoadGen: in process, through a driver daemon, and through the service.

    .venv/bin/python -m pip install mlcommons-loadgen
    python benchmarks/service/loadgen.py [--seconds 10] [--turns 1] [--network mobilenet_v2]
        [--json FILE]

The model is an int8 network, written with weights of the networks of `benchmarks/networks`. LoadGen
issues queries in four scenarios, and says whether a run is valid: whether it was long enough, and
for Server whether 99 % of the queries were answered within 100 ms. The service is called through
`nd.connect_service`. All ways have two threads, each of which runs the model on one thread of the
CPU. Ways alternate in each scenario; figures are medians of the turns, and a result is VALID if all
of them are. The rate of Server is the largest of a few parts of what the way itself reached
Offline at which the run is valid, or the smallest part if none is.
"""

import argparse
import importlib
import queue
import re
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from networks import NETWORKS, tflite_file
from result_file import Column, Table, write_run
from support.inference import zoo
from support.inference.serving import Serving

import neurald as nd
from neurald.service.demo.daemon import driver_daemon

_THREADS: Final = 2
_SAMPLES: Final = 64
#: How long each way is used before it is measured. Programs compile a network better in the
#: background, which takes processors of the ways that are measured meanwhile.
_WARM_UP_S: Final = 4.0
#: The limit of a query of Server, and the parts of the rate Offline at which queries arrive.
_LIMIT_NS: Final = 100_000_000
_LOADS: Final = (0.8, 0.7, 0.6, 0.5, 0.4, 0.3)
_PER_QUERY: Final = 8
_SCENARIOS: Final = ("Offline", "SingleStream", "MultiStream", "Server")
#: Fewer do not suffice for LoadGen's estimate of the 99th percentile.
_QUERIES: Final = 700
_CONFIG: Final = 'parameters { key: "threads" value { string_value: "1" } }'

Run = Callable[[Any], Any]


@contextmanager
def in_process(model: Path) -> Iterator[Run]:
    """Yields a function that runs the model in this process."""
    yield nd.CompilationBuilder(nd.load_tflite(model), [nd.devices()[0]], 1).finish().run


@contextmanager
def by_daemon(model: Path) -> Iterator[Run]:
    """Yields a function that runs the model in a driver daemon."""
    with driver_daemon("cpu") as address:
        yield nd.CompilationBuilder(nd.load_tflite(model), [nd.connect(address)], 1).finish().run


@contextmanager
def by_service(model: Path) -> Iterator[Run]:
    """Yields a function that has an execution service run the model."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        zoo.write_model(folder / "models", "network", model.read_bytes(), config=_CONFIG)
        with Serving(
            folder / "models", socket=str(folder / "s.sock"), http="", grpc="127.0.0.1:0"
        ) as service:
            service.wait_ready()
            yield nd.connect_service(folder / "s.sock").model("network")


_WAYS: Final = {"in process": in_process, "driver daemon": by_daemon, "service": by_service}


class Workers:
    """Runs queries in threads, and tells LoadGen of each that is done.

    Args:
        run: runs the model.
        inputs: one for each sample.
    """

    def __init__(self, run: Run, inputs: Any) -> None:
        self._run = run
        self._inputs = inputs
        self._waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(_THREADS)]
        for thread in self._threads:
            thread.start()

    def issue(self, samples: Any) -> None:
        """Takes the samples of a query."""
        for sample in samples:
            self._waiting.put(sample)

    def close(self) -> None:
        """Ends the threads."""
        for _ in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join()

    def _serve(self) -> None:
        loadgen = load_generator()
        while (sample := self._waiting.get()) is not None:
            self._run(self._inputs[sample.index % _SAMPLES])
            loadgen.QuerySamplesComplete([loadgen.QuerySampleResponse(sample.id, 0, 0)])


def load_generator() -> Any:
    """Returns the module of LoadGen; ends the program if it is not installed."""
    try:
        return importlib.import_module("mlperf_loadgen")
    except ImportError:
        sys.exit("MLPerf LoadGen is not installed. Run: .venv/bin/python -m pip install mlcommons-loadgen")


def settings_of(scenario: str, seconds: float, rate: float) -> Any:
    """Returns LoadGen's settings of a run.

    Args:
        scenario: its name.
        seconds: how long the run takes at least.
        rate: the samples per second that are expected, or for Server offered.
    """
    loadgen = load_generator()
    settings = loadgen.TestSettings()
    settings.scenario = getattr(loadgen.TestScenario, scenario)
    settings.mode = loadgen.TestMode.PerformanceOnly
    settings.min_duration_ms = int(seconds * 1000)
    settings.min_query_count = _QUERIES
    if scenario == "SingleStream":
        settings.single_stream_expected_latency_ns = int(1e9 / rate)
    elif scenario == "MultiStream":
        settings.multi_stream_samples_per_query = _PER_QUERY
        settings.multi_stream_expected_latency_ns = int(_PER_QUERY * 1e9 / rate)
    elif scenario == "Server":
        settings.server_target_qps = rate
        settings.server_target_latency_ns = _LIMIT_NS
    else:
        settings.offline_expected_qps = rate
        settings.min_query_count = 1
    return settings


def measured(run: Run, inputs: Any, scenario: str, seconds: float, rate: float) -> tuple[float, float, bool]:
    """Returns the samples per second of a run, its latency at p90 in ms, and its validity."""
    workers = Workers(run, inputs)
    loadgen = load_generator()
    log = loadgen.LogSettings()
    with tempfile.TemporaryDirectory() as folder:
        log.log_output.outdir = folder
        log.log_output.copy_summary_to_stdout = False
        under_test = loadgen.ConstructSUT(workers.issue, lambda: None)
        samples = loadgen.ConstructQSL(_SAMPLES, _SAMPLES, lambda indices: None, lambda indices: None)
        try:
            loadgen.StartTestWithLogSettings(
                under_test, samples, settings_of(scenario, seconds, rate), log, "audit.config"
            )
        finally:
            loadgen.DestroyQSL(samples)
            loadgen.DestroySUT(under_test)
            workers.close()
        summary = (Path(folder) / "mlperf_log_summary.txt").read_text(encoding="utf-8")
    found = {key.strip(): value for key, _, value in (line.partition(":") for line in summary.splitlines())}
    p90_ms = _number(found, r"90.00 percentile latency \(ns\)") / 1e6
    if scenario in ("SingleStream", "MultiStream"):
        count = _PER_QUERY if scenario == "MultiStream" else 1
        reached = count * 1e9 / _number(found, r"Mean latency \(ns\)")
    else:
        reached = _number(found, r"(Completed s|S)amples per second")
    return reached, p90_ms, found["Result is"].strip() == "VALID"


def _number(found: dict[str, str], pattern: str) -> float:
    return next(float(value) for key, value in found.items() if re.fullmatch(pattern, key))


class Way:
    """One way to run the model, and what it has reached in each scenario.

    Args:
        run: runs the model.
        inputs: one for each sample.
        seconds: how long each run takes at least.
    """

    def __init__(self, run: Run, inputs: Any, seconds: float) -> None:
        self._run = run
        self._inputs = inputs
        self._seconds = seconds
        self._offline = 100.0
        #: The position in `_LOADS` of the load of the last run of Server.
        self._load = 0
        self._found: dict[str, list[tuple[float, float, bool]]] = {}

    def warm_up(self) -> None:
        """Runs the model until its code is not replaced by better one any more."""
        end = time.monotonic() + _WARM_UP_S
        while time.monotonic() < end:
            for sample in self._inputs:
                self._run(sample)

    def measure(self, scenario: str) -> None:
        """Runs a scenario once more."""
        if scenario == "Server":
            found = self._measured(scenario, self._offline * _LOADS[self._load])
            while not found[2] and self._load + 1 < len(_LOADS):
                # The turns before had a load that is too large as well.
                self._found.pop(scenario, None)
                self._load += 1
                found = self._measured(scenario, self._offline * _LOADS[self._load])
        else:
            # LoadGen prepares as many queries as it expects to need, and a run without enough is
            # not valid. One thread may be faster alone than two together on a busy machine.
            found = self._measured(scenario, self._offline if scenario == "Offline" else 2 * self._offline)
        if scenario == "Offline":
            # The first run is as long as its guess of the rate says.
            found = self._measured(scenario, 1.6 * found[0])
            self._offline = found[0]
        self._found.setdefault(scenario, []).append(found)

    def result(self, scenario: str) -> tuple[float, float, bool]:
        """Returns the samples per second, latency at p90 in ms, and whether all runs were valid."""
        rates, latencies, valid = zip(*self._found[scenario], strict=True)
        return statistics.median(rates), statistics.median(latencies), all(valid)

    def _measured(self, scenario: str, rate: float) -> tuple[float, float, bool]:
        return measured(self._run, self._inputs, scenario, self._seconds, rate)


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--network", default="mobilenet_v2", choices=tuple(NETWORKS))
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write a result file")
    arguments = parser.parse_args()
    load_generator()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        model = Path(folder) / "network.tflite"
        model.write_bytes(tflite_file(NETWORKS[arguments.network](), np.int8))
        random = np.random.default_rng(0)
        inputs = random.integers(-128, 128, (_SAMPLES, 1, 224, 224, 3), np.int8)
        ways = {
            name: Way(stack.enter_context(start(model)), inputs, arguments.seconds)
            for name, start in _WAYS.items()
        }
        for way in ways.values():
            way.warm_up()
        for _ in range(arguments.turns):
            for scenario in _SCENARIOS:
                for way in ways.values():
                    way.measure(scenario)
    rows: list[list[Any]] = []
    for name, way in ways.items():
        for scenario in _SCENARIOS:
            reached, p90_ms, is_valid = way.result(scenario)
            share = reached / ways["in process"].result(scenario)[0]
            rows.append([name, scenario, "VALID" if is_valid else "INVALID", reached, p90_ms, share])
            print(rows[-1])  # noqa: T201
    if arguments.json:
        columns = [
            Column(name="way", title="way"),
            Column(name="scenario", title="scenario"),
            Column(name="result", title="result"),
            Column(name="rate", title="samples", unit="1/s", format=",.0f"),
            Column(name="p90", title="p90", unit="ms", format=".2f"),
            Column(name="share", title="of in process", format=".2f"),
        ]
        title = f"MLPerf LoadGen: {arguments.network}, int8"
        table = Table(title="Four scenarios", columns=columns, rows=rows)
        write_run(arguments.json, title, __doc__, [table])


if __name__ == "__main__":
    main()
