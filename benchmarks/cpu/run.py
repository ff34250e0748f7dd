"""Compares whole models on the CPU device with LiteRT, OpenVINO and ONNX Runtime.

    benchmarks/cpu/peers.sh                      # once: installs the others separately
    python benchmarks/cpu [--models mobilenet,vww] [--threads 1,2] [--rounds 12] [--json FILE]
    python benchmarks/cpu --models FOLDER [--json FILE --resume]
    python benchmarks/cpu --busy                 # two threads against one, beside a busy program
    python benchmarks/cpu --cycles 1000          # detect memory leaks

Each engine has its own process and runs in short bursts, in random order, while the others are
stopped, so that interference affects all alike. With one thread an engine is pinned to a core, the
same for all in a round and the other one in the next, since cores of a shared machine differ in
speed; with more it may use all cores and pin its threads. Only the half of the rounds counts in
which all engines together took the least time. Times are those of the call alone, with inputs in
place. A ratio is neurald's median divided by the other's, the median over rounds; below 1 neurald
is faster. If other programs use cores, the ratio of the tenth percentiles is more reliable, and
with one thread that of the processor times.

Networks are built here with random weights, real models come from the data folder. OpenVINO reads
`.tflite` files too, and the networks as `.onnx` where it refuses these; ONNX Runtime gets the
networks as `.onnx`, so it cannot run the real models. Failures of an engine are reported.

With a folder, all `.tflite` files in it are measured, beside an `.onnx` file of the same name where
there is one. The tables are by family of models, see `model_folder.py`. Results are compared first:
a runtime whose results are not LiteRT's is not timed. `--resume` continues an interrupted run.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from bursts import take_turns
from folder_session import FolderSession
from folder_tables import folder_tables
from model_folder import OpenShapes, folder_models
from models import Case, Skipped, all_cases, build, inputs_of, multiplications
from peak import measure_peak
from process import Failed, Task, Worker, can_import, readable_files
from report import (
    SUBJECT,
    TRUTH,
    Round,
    difference,
    geometric_means,
    say,
    show_means,
    show_preparations,
    show_row,
    summarise,
)
from result_tables import result_tables

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from result_file import Result, circumstances, write
from selection import selected
from tables import table_lines

_PEERS = {"litert": "ai-edge-litert", "openvino": "openvino", "onnxruntime": "onnxruntime"}


@dataclass(kw_only=True)
class Session:
    """Configuration of the measurements, and their results.

    Attributes:
        engines: the installed engines.
        peers: the interpreter of the other engines.
        cores: the cores to use, as many as the largest number of threads.
        prepares: whether to measure preparation.
        peaks: 10⁹ operations per second, by kind and number of threads.
        versions: the version of each engine's package.
    """

    engines: Sequence[str]
    peers: Path
    cores: Sequence[int]
    rounds: int
    burst_ms: float
    folder: Path
    prepares: bool = True
    peaks: dict[tuple[str, int], float] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    preparations: dict[str, dict[str, Any]] = field(default_factory=dict)
    skipped: dict[str, dict[str, str]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    def engines_for(self, case: Case) -> list[str]:
        """Returns the engines that can read a case's files."""
        return [engine for engine in self.engines if readable_files(engine, case.tflite, case.onnx)]

    def task(
        self, case: Case, engine: str, threads: int, *, model: Path | None = None, **options: Any
    ) -> Task:
        """Returns the task of a worker; the model is the first file that the engine may read."""
        return Task(
            engine=engine,
            model=model or readable_files(engine, case.tflite, case.onnx)[0],
            threads=threads,
            inputs=self.folder / "inputs.npz",
            outputs=self.folder / f"{engine}.npz",
            **{"cores": self.cores[:threads], **options},
        )

    def document(self) -> dict[str, Any]:
        """Returns all results."""
        return {
            "peaks": [
                {"kind": kind, "threads": count, "giga": rate} for (kind, count), rate in self.peaks.items()
            ],
            "rows": self.rows,
            "means": geometric_means(row for row in self.rows if "precision" in row),
            "preparations": self.preparations,
            "skipped": self.skipped,
            "load_afterwards": os.getloadavg(),
        }

    def show(self) -> None:
        """Prints the tables of all models that have results."""
        document = self.document()
        if document["preparations"]:
            show_preparations(document["preparations"])
        if document["means"]:
            show_means(document["means"])
        for peak in document["peaks"]:
            say(f"peak of {peak['kind']} with {peak['threads']} threads: {peak['giga']:.0f} × 10⁹/s")

    def skip(self, case: Case, engine: str, reason: str) -> None:
        """Records and prints that something is not measured."""
        self.skipped.setdefault(case.name, {})[engine] = reason
        say(f"{case.name}: without {engine}: {reason[:200]}")

    def measure_peaks(self, threads: Sequence[int]) -> None:
        """Measures the peak rates, and keeps the best ones so far."""
        for kind in ("float32", "int8"):
            for count in threads:
                found = measure_peak(kind, self.cores[:count]) if count <= len(self.cores) else None
                if found is not None:
                    self.peaks[kind, count] = max(found, self.peaks.get((kind, count), 0.0))

    def measure(self, case: Case, threads: Sequence[int]) -> None:
        """Measures one model on all engines."""
        try:
            model = case.load()
        except Skipped as error:
            self.skip(case, "all", str(error))
            return
        np.savez(self.folder / "inputs.npz", *inputs_of(case, model))
        self.measure_peaks(threads)
        for number, count in enumerate(threads):
            with ExitStack() as stack:
                workers = self._started(stack, case, count, prepare=self.prepares and number == 0)
                if SUBJECT not in workers or len(workers) == 1:
                    self.skip(case, "comparison", f"{', '.join(workers) or 'no engine'} alone can run it")
                    return
                self._compare(case, count, workers, multiplications(model))

    def _started(self, stack: ExitStack, case: Case, threads: int, *, prepare: bool) -> dict[str, Worker]:
        """Starts the engines that can run a model, optionally after a cold preparation."""
        workers: dict[str, Worker] = {}
        for engine in self.engines_for(case):
            cache = self.folder / case.name / engine
            cache.mkdir(parents=True, exist_ok=True)
            for path in readable_files(engine, case.tflite, case.onnx):
                task = self.task(case, engine, threads, model=path, cache=cache)
                try:
                    cold = self._cold(task) if prepare else None
                    workers[engine] = worker = Worker(task, self.peers)
                except Failed as error:
                    self.skip(case, f"{engine} with {path.suffix}", str(error))
                    continue
                stack.callback(worker.close)
                self.versions[engine] = worker.report["version"]
                if cold is not None:
                    warm = {**worker.report, **worker.ask("memory")}
                    self.preparations.setdefault(case.name, {})[engine] = {"cold": cold, "warm": warm}
                break
        return workers

    def _cold(self, task: Task) -> dict[str, Any]:
        worker = Worker(replace(task, again=True), self.peers)
        try:
            return {**worker.report, **worker.ask("memory")}
        finally:
            worker.close()

    def _compare(self, case: Case, threads: int, workers: Mapping[str, Worker], products: int) -> None:
        rounds = self.take_turns(workers, pinned=threads == 1)
        row: dict[str, Any] = {
            "model": case.name,
            "precision": case.precision,
            "threads": threads,
            "products": products,
            "times": summarise(rounds),
        }
        kind = "float32" if case.precision in ("fp32", "fp16", "overhead") else "int8"
        peak = self.peaks.get((kind, threads))
        if peak and case.precision in ("fp32", "int8", "uint8"):
            row["share_of_peak"] = 2 * products / (row["times"][SUBJECT]["p10_ms"] * 1e6) / peak
        if TRUTH in workers:
            row["difference"] = difference(self.folder / f"{SUBJECT}.npz", self.folder / f"{TRUTH}.npz")
        self.rows.append(row)
        show_row(row)

    def take_turns(self, workers: Mapping[str, Worker], *, pinned: bool) -> list[Round]:
        """Runs bursts of all engines in turn, all on one core if they are pinned."""
        return take_turns(
            workers, rounds=self.rounds, burst_ms=self.burst_ms, cores=self.cores if pinned else ()
        )

    def measure_busy(self, case: Case) -> None:
        """Compares two threads, one on a busy core, with one thread on the other core."""
        np.savez(self.folder / "inputs.npz", *inputs_of(case, case.load()))
        with ExitStack() as stack:
            workers: dict[str, Worker] = {}
            for engine in self.engines_for(case):
                try:
                    for threads in (1, 2):
                        task = self.task(case, engine, threads)
                        workers[f"{engine}, {threads}"] = worker = Worker(task, self.peers)
                        stack.callback(worker.close)
                except Failed as error:
                    self.skip(case, engine, str(error))
            stack.enter_context(_busy(self.cores[1]))
            times = summarise(self.take_turns(workers, pinned=False))
        ratios = {
            engine: times[f"{engine}, 2"]["p50_ms"] / times[f"{engine}, 1"]["p50_ms"]
            for engine in self.engines
            if f"{engine}, 2" in times
        }
        self.rows.append({"model": case.name, "times": times, "two_to_one": ratios})
        for engine, ratio in ratios.items():
            one, two = (times[f"{engine}, {n}"]["p50_ms"] for n in (1, 2))
            say(
                f"{case.name}, one core busy, {engine}: {one:.2f} ms with 1 thread, {two:.2f} with 2: {ratio:.2f}×"
            )

    def measure_cycles(self, case: Case, count: int, threads: int) -> None:
        """Measures memory while a model is prepared, run and dropped, with and without a cache."""
        np.savez(self.folder / "inputs.npz", *inputs_of(case, case.load()))
        cache = self.folder / case.name / "cycles"
        cache.mkdir(parents=True)
        for where in (cache, None):
            worker = Worker(self.task(case, SUBJECT, threads, cache=where), self.peers)
            try:
                # Without a cache each cycle compiles.
                cycles = count if where is not None else max(10, count // 50)
                sizes = worker.ask("cycles", cycles)
            finally:
                worker.close()
            # Initial set-up and the first blocks of each pool are done after a fifth.
            grown = sizes[-1] - sizes[2]
            row = {"model": case.name, "cached": where is not None, "cycles": cycles, "resident_kib": sizes}
            self.rows.append(row)
            kind = "from the cache" if where is not None else "without a cache"
            say(f"{case.name}, {cycles} cycles {kind}: {grown:+} KiB in the last four fifths; KiB: {sizes}")


@contextmanager
def _busy(core: int) -> Iterator[None]:
    """Runs a busy loop on one core."""
    code = f"import os\nos.sched_setaffinity(0, ({core},))\nwhile True: pass"
    process = subprocess.Popen([sys.executable, "-c", code])  # noqa: S603
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _write(path: Path, session: Session) -> None:
    """Writes the results so far as a result file."""
    document = session.document()
    facts = circumstances()
    versions = (f"{engine} {version}" for engine, version in session.versions.items())
    facts["software"] = ", ".join((facts["software"], *versions))
    result = Result(
        title="CPU device: whole models",
        description=(
            "Ratios are neurald's time divided by the other runtime's, the median over rounds; below 1 "
            "neurald is faster. The difference is the largest one from LiteRT's results: relative to the "
            "largest value for floats, absolute for integers."
        ),
        tables=result_tables(document),
        details=document,
        **facts,
    )
    write(path, result)


def _arguments() -> argparse.Namespace:
    folder = Path(__file__).parents[2] / "build" / "peers"
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument(
        "--models",
        default="",
        metavar="NAMES|FOLDER",
        help="names or parts of names, with commas, or a folder of .tflite files; default: all networks "
        "and models",
    )
    parser.add_argument(
        "--only",
        default="",
        metavar="NAMES",
        help="names or parts of names of a folder's models, with commas",
    )
    parser.add_argument(
        "--engines", default="", metavar="NAMES", help=f"of {', '.join(_PEERS)}; default: all"
    )
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="INPUT=1,16",
        help="shape of an input that a folder's models leave open and no manifest gives; repeatable",
    )
    parser.add_argument(
        "--open-length", type=int, default=1, metavar="N", help="length of other open dimensions (1)"
    )
    parser.add_argument("--resume", action="store_true", help="keep what the --json file of a folder has")
    parser.add_argument("--threads", default="1,2", help="numbers, with commas")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--burst-ms", type=float, default=60.0)
    parser.add_argument("--peers", type=Path, default=Path(os.environ.get("NEURALD_PEERS", folder)))
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write a result file")
    parser.add_argument(
        "--no-preparations", dest="prepares", action="store_false", help="measure steady runs only"
    )
    parser.add_argument("--busy", action="store_true", help="two threads against one, beside a busy program")
    parser.add_argument("--cycles", type=int, metavar="COUNT", help="only look for memory leaks")
    return parser.parse_args()


def _engines(python: Path, names: str) -> list[str]:
    """Returns the installed engines among those named, and reports the others."""
    found = [SUBJECT]
    for name in selected(_PEERS, str, names.split(","), "--engines"):
        if python.exists() and can_import(python, _PEERS[name]):
            found.append(name)
        else:
            say(f"without {name}: {python} has no {_PEERS[name]}; benchmarks/cpu/peers.sh installs it")
    return found


def _given_shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Parses options such as `input=1,16`."""
    pairs = [text.rpartition("=") for text in texts]
    return {name: tuple(map(int, lengths.split(","))) for name, _, lengths in pairs}


def _measure_folder(arguments: argparse.Namespace, threads: Sequence[int], engines: Sequence[str]) -> None:
    folder = Path(arguments.models)
    session = FolderSession(
        engines=engines,
        peers=arguments.peers / "bin" / "python",
        cores=sorted(os.sched_getaffinity(0))[: max(2, *threads)],
        rounds=arguments.rounds,
        burst_ms=arguments.burst_ms,
        shapes=OpenShapes(shapes=_given_shapes(arguments.shape), length=arguments.open_length),
        folder_name=folder.name if folder.name != "tflite" else folder.resolve().parent.name,
        result=arguments.json,
    )
    if arguments.resume:
        session.resume()
    models = folder_models(folder)
    for model in selected(models, lambda each: each.name, arguments.only.split(","), "--only"):
        session.measure(model, threads)
    for table in folder_tables(session.rows):
        say(f"\n{table.title}:\n")
        say("\n".join(table_lines(table)))


def main() -> None:
    """Runs the benchmark."""
    arguments = _arguments()
    threads = [int(text) for text in arguments.threads.split(",")]
    python = arguments.peers / "bin" / "python"
    say(f"{circumstances()['machine']}, load {os.getloadavg()[0]:.1f}")
    engines = [SUBJECT] if arguments.cycles else _engines(python, arguments.engines)
    if Path(arguments.models).is_dir() and arguments.models:
        _measure_folder(arguments, threads, engines)
    else:
        _measure_networks(arguments, threads, engines)
    say(f"load {os.getloadavg()[0]:.1f}")


def _measure_networks(arguments: argparse.Namespace, threads: Sequence[int], engines: Sequence[str]) -> None:
    cases = selected(all_cases(), lambda each: each.name, arguments.models.split(","), "--models")
    build(cases)
    with tempfile.TemporaryDirectory(prefix="cpu-benchmark") as folder:
        session = Session(
            engines=engines,
            peers=arguments.peers / "bin" / "python",
            cores=sorted(os.sched_getaffinity(0))[: max(2, *threads)],
            rounds=arguments.rounds,
            burst_ms=arguments.burst_ms,
            folder=Path(folder),
            prepares=arguments.prepares,
        )
        for case in cases:
            if arguments.cycles:
                session.measure_cycles(case, arguments.cycles, threads[0])
            elif arguments.busy:
                session.measure_busy(case)
            else:
                session.measure(case, threads)
            if arguments.json:
                # After each model, because long runs are sometimes interrupted.
                _write(arguments.json, session)
        session.show()


if __name__ == "__main__":
    main()
