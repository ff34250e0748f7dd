"""Measures the models of a folder, and keeps what was measured if the run is interrupted.

For each model, LiteRT's results are the reference. A runtime that fails, or whose results differ,
is not timed; its row says why.
"""

import json
import math
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from agreement import disagreement
from bursts import take_turns
from folder_tables import folder_tables
from model_folder import FolderModel, OpenShapes, Unusable
from process import Failed, Task, Worker, readable_files
from report import SUBJECT, TRUTH, milliseconds, say, summarise

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from result_file import Result, circumstances, read, write

_REFERENCE = "litert_reference"
#: Maximum time of all bursts of one model.
_LIMIT_S = 40.0
#: Fields of a result file that must be the same to continue it.
_SETTINGS = ("machine", "commit")


@dataclass(kw_only=True)
class FolderSession:
    """Configuration of the measurements, and their rows.

    A row has the `model`, its `family`, the number of `threads`, the `times` by engine as
    `report.summarise` gives them, `cold` preparation by engine, and `failures`, reasons by engine.

    Attributes:
        engines: the installed engines.
        peers: the interpreter of the other engines.
        cores: the cores to use, as many as the largest number of threads.
        shapes: lengths of open dimensions.
        result: the file to write after each model; None writes nothing.
    """

    engines: Sequence[str]
    peers: Path
    cores: Sequence[int]
    rounds: int
    burst_ms: float
    shapes: OpenShapes
    folder_name: str
    result: Path | None = None
    rows: list[dict[str, Any]] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)

    def resume(self) -> None:
        """Takes over the rows of the result file, if there is one.

        Raises:
            ValueError: it is from another machine, commit or folder.
        """
        if self.result is None or not self.result.exists():
            return
        earlier, now = read(self.result), circumstances()
        found = {name: getattr(earlier, name) for name in _SETTINGS}
        wanted = {name: now[name] for name in _SETTINGS}
        if found != wanted or earlier.details.get("folder") != self.folder_name:
            raise ValueError(
                f"{self.result} has measurements of {earlier.details.get('folder')} under other "
                f"circumstances ({found}) than these ({wanted}); choose another file, or omit --resume"
            )
        self.rows = list(earlier.details["rows"])
        self.versions = dict(earlier.details["versions"])

    def measure(self, model: FolderModel, threads: Sequence[int]) -> None:
        """Measures one model with each number of threads, unless it has rows already."""
        done = {row["threads"] for row in self.rows if row["model"] == model.name}
        for count in threads:
            if count not in done:
                with tempfile.TemporaryDirectory(prefix="cpu-benchmark") as folder:
                    row = self._row(model, count, Path(folder))
                self.rows.append(row)
                _show(row)
                self.save()

    def _row(self, model: FolderModel, threads: int, folder: Path) -> dict[str, Any]:
        failures: dict[str, str] = {}
        row: dict[str, Any] = {"model": model.name, "family": model.family, "threads": threads}
        row |= {"times": {}, "cold": {}, "failures": failures}
        try:
            np.savez(folder / "inputs.npz", *model.inputs(self.shapes))
        except (Unusable, KeyError, TypeError, ValueError) as error:
            failures["all"] = f"no inputs: {error}"
            return row
        with ExitStack() as stack:
            workers = self._started(stack, model, threads, folder, failures)
            row["cold"] = {
                name: {key: worker.report[key] for key in ("load_ms", "prepare_ms", "first_ms", "cpu_ms")}
                for name, worker in workers.items()
            }
            if TRUTH in workers:
                self._check(model, threads, folder, workers, failures)
            if workers:
                try:
                    rounds = take_turns(
                        workers,
                        rounds=self.rounds,
                        burst_ms=self.burst_ms,
                        cores=self.cores if threads == 1 else (),
                        limit_s=_LIMIT_S,
                    )
                    row["times"] = summarise(rounds)
                except Failed as error:
                    failures["all"] = f"a later run failed: {error}"
        return row

    def _started(
        self, stack: ExitStack, model: FolderModel, threads: int, folder: Path, failures: dict[str, str]
    ) -> dict[str, Worker]:
        workers = {}
        for engine in self.engines:
            for path in readable_files(engine, model.tflite, model.onnx):
                try:
                    workers[engine] = worker = Worker(self._task(engine, path, threads, folder), self.peers)
                except Failed as error:
                    failures.setdefault(engine, str(error))
                    continue
                failures.pop(engine, None)
                stack.callback(worker.close)
                self.versions[engine] = worker.report["version"]
                break
        return workers

    def _task(self, engine: str, path: Path, threads: int, folder: Path) -> Task:
        return Task(
            engine=engine,
            model=path,
            threads=threads,
            inputs=folder / "inputs.npz",
            outputs=folder / f"{engine}.npz",
            cores=self.cores[:threads],
        )

    def _check(
        self,
        model: FolderModel,
        threads: int,
        folder: Path,
        workers: dict[str, Worker],
        failures: dict[str, str],
    ) -> None:
        """Closes the engines with wrong results."""
        truths, limits = [folder / f"{TRUTH}.npz"], model.limits()
        for engine in [name for name in workers if name != TRUTH]:
            found = folder / f"{engine}.npz"
            why = disagreement(found, truths, limits)
            if why and len(truths) == 1:
                try:
                    Worker(self._task(_REFERENCE, model.tflite, threads, folder), self.peers).close()
                    truths.append(folder / f"{_REFERENCE}.npz")
                    why = disagreement(found, truths, limits)
                except Failed as error:
                    failures[_REFERENCE] = str(error)
            if why:
                failures[engine] = f"wrong result: {why}"
                workers.pop(engine).close()

    def document(self) -> dict[str, Any]:
        """Returns all measurements."""
        return {
            "folder": self.folder_name,
            "versions": self.versions,
            "rows": self.rows,
            "load_afterwards": os.getloadavg(),
        }

    def save(self) -> None:
        """Writes the result file. An interruption leaves the earlier one."""
        if self.result is None:
            return
        facts = circumstances()
        versions = (f"{engine} {version}" for engine, version in self.versions.items())
        facts["software"] = ", ".join((facts["software"], *versions))
        result = Result(
            title=f"CPU device: models of {self.folder_name}",
            description=(
                "Ratios are neurald's processor time of a run divided by the other runtime's with one "
                "thread, and its duration with several; medians of interleaved bursts. Below 1 neurald "
                "is faster. Preparation is that without a cache in a new process: loading, compiling "
                "and the first run, the processor time of all threads and helper processes."
            ),
            tables=folder_tables(self.rows),
            details=json.loads(json.dumps(self.document())),
            **facts,
        )
        partial = self.result.with_name(self.result.name + ".partial")
        write(partial, result)
        partial.replace(self.result)


def _show(row: Mapping[str, Any]) -> None:
    """Prints a row."""
    kind = "ratio_cpu" if row["threads"] == 1 else "ratio"
    cells = []
    for engine, figures in row["times"].items():
        text = f"{engine} {milliseconds(figures['cpu_ms' if row['threads'] == 1 else 'p50_ms'])}"
        cells.append(text + (f" {figures[kind]:.2f}×" if kind in figures else ""))
    cells += [f"{engine}: {reason[:160]}" for engine, reason in row["failures"].items()]
    cold = row["cold"].get(SUBJECT)
    if cold is not None and math.isfinite(cold["cpu_ms"]):
        cells.append(f"cold {cold['cpu_ms']:.0f} ms")
    say(f"{row['model']} ({row['family']}), {row['threads']} threads: {'; '.join(cells)}")
