"""Measures how long models take to prepare without a cache, compared with an earlier version.

    python benchmarks/startup/cold.py --base CHECKOUT --models FOLDER ... [--only NAME,...]
        [--rounds 1] [--json FILE]

Each figure is of `finish()` in a new process, with optimised code and one thread, an empty cache
and NumPy imported. Processor time includes that of the processes that compile. `--base` is another
checkout of this project, such as a `git worktree` of an earlier commit; processes of both
alternate, with the same Python. Models whose shapes are open are compiled when they run, so that
`finish()` does less; they have a line of their own.
"""

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from result_file import Cell, Column, Result, Table, circumstances, write
from selection import selected

_ROOT = Path(__file__).resolve().parents[2]
_TIMEOUT_S = 600
#: Variables that the measured processes must not inherit.
_CHANGED = ("NEURALD_CPU_COMPILER", "NEURALD_STARTUP", "PYTHONDONTWRITEBYTECODE")
_FIGURES = ("elapsed_ms", "cpu_ms", "compiling_ms")


def _children_ms() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (usage.ru_utime + usage.ru_stime) * 1e3


def _end_compiling_processes() -> None:
    """Ends the processes that compile, whose times count only then. Earlier versions have none."""
    if "neurald.hal.compiling.separate_compiler" in sys.modules:
        pools: Mapping[Any, Any] = getattr(
            sys.modules["neurald.hal.compiling.separate_compiler"], "_pools", {}
        )
        for pool in list(pools.values()):
            pool.close()


def worker(path: str) -> None:
    """Prepares a model in this new process and prints the figures."""
    import numpy  # noqa: F401 - its time does not count

    import neurald as nd

    model: Any = nd.load_tflite(path)
    before_ms, start, start_cpu = _children_ms(), time.perf_counter(), time.process_time()
    builder: Any = nd.CompilationBuilder(model, threads=1)
    if hasattr(builder, "set_startup"):
        builder.set_startup(nd.Startup.OPTIMIZED)
    builder.finish()
    elapsed, own = time.perf_counter() - start, time.process_time() - start_cpu
    _end_compiling_processes()
    compiling_ms = _children_ms() - before_ms
    figures = (elapsed * 1e3, own * 1e3 + compiling_ms, compiling_ms)
    print(json.dumps(dict(zip(_FIGURES, figures, strict=True))), flush=True)  # noqa: T201 - for the parent
    os._exit(0)  # What ends the process is not measured.


def prepare(checkout: Path, path: Path) -> dict[str, float]:
    """Returns the figures of a new process.

    Raises:
        RuntimeError: it fails; the message ends with what it printed last.
    """
    with tempfile.TemporaryDirectory(prefix="cold") as folder:
        environment = {
            **{name: value for name, value in os.environ.items() if name not in _CHANGED},
            "PYTHONPATH": str(checkout / "src"),
            "XDG_CACHE_HOME": f"{folder}/cache",
            # Daemons of this machine are not part of the measurement.
            "XDG_RUNTIME_DIR": folder,
            "NEURALD_AUTOSTART": "0",
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
        }
        done = subprocess.run(  # noqa: S603 - constant arguments
            [sys.executable, __file__, "--worker", str(path)],
            capture_output=True,
            text=True,
            env=environment,
            cwd=folder,
            timeout=_TIMEOUT_S,
            check=False,
        )
    try:
        found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        raise RuntimeError(done.stderr.strip()[-300:]) from None
    return found


def measure(checkouts: Mapping[str, Path], path: Path, rounds: int) -> dict[str, dict[str, float]]:
    """Returns the medians of a model, by checkout."""
    samples: dict[str, list[dict[str, float]]] = {name: [] for name in checkouts}
    for _ in range(rounds):
        for name, checkout in checkouts.items():
            samples[name].append(prepare(checkout, path))
    return {
        name: {figure: statistics.median(each[figure] for each in found) for figure in _FIGURES}
        for name, found in samples.items()
    }


def _mean(values: Sequence[float]) -> float | None:
    return math.exp(statistics.fmean(map(math.log, values))) if values else None


def table_of(models: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Table:
    """Returns the geometric means of all models, and of groups of them."""
    groups: dict[str, Callable[[Mapping[str, Mapping[str, float]]], bool]] = {
        "compiled, up to 250 ms before": lambda m: (
            bool(m["now"]["compiling_ms"]) and m["base"]["cpu_ms"] <= 250
        ),
        "compiled, longer": lambda m: bool(m["now"]["compiling_ms"]) and m["base"]["cpu_ms"] > 250,
        "compiled when they run": lambda m: not m["now"]["compiling_ms"],
        "all": lambda m: True,
    }
    rows: list[list[Cell]] = []
    for title, belongs in groups.items():
        found = [each for each in models.values() if belongs(each)]
        row: list[Cell] = [title, len(found)]
        for figure in ("cpu_ms", "elapsed_ms"):
            row += [_mean([each[side][figure] for each in found]) for side in ("base", "now")]
            row.append(_mean([each["now"][figure] / each["base"][figure] for each in found]))
        rows.append(row)
    ms = {"unit": "ms", "format": ",.0f"}
    columns = [Column(name="models", title="models"), Column(name="count", title="number")]
    for name, title in (("cpu", "processor time"), ("elapsed", "elapsed time")):
        columns += [
            Column(name=f"{name}_base", title=f"{title} before", **ms),
            Column(name=f"{name}_now", title="now", **ms),
            Column(name=f"{name}_ratio", title="now / before", format=".2f"),
        ]
    return Table(title="Preparation without a cache, geometric means", columns=columns, rows=rows)


def _commit(checkout: Path) -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"],  # noqa: S607
        cwd=checkout,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--base", type=Path, metavar="CHECKOUT")
    parser.add_argument("--models", type=Path, nargs="*", default=[], metavar="FOLDER")
    parser.add_argument("--only", default="", help="names of models or parts of names, with commas")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write a result file")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(arguments.worker)
    if arguments.base is None or not arguments.models:
        parser.error("--base CHECKOUT and --models FOLDER are required")
    checkouts = {"base": arguments.base.resolve(), "now": _ROOT}
    models: dict[str, dict[str, dict[str, float]]] = {}
    notes = [f"Before: commit {_commit(checkouts['base'])}."]
    files = sorted(path.resolve() for folder in arguments.models for path in folder.glob("**/*.tflite"))
    for path in selected(files, lambda path: path.stem, arguments.only.split(","), "--only"):
        try:
            models[path.stem] = measure(checkouts, path, arguments.rounds)
        except RuntimeError as error:
            notes.append(f"{path.stem} failed.")
            print(f"{path.name} fails: {error}", file=sys.stderr, flush=True)  # noqa: T201
        else:
            print(path.stem, models[path.stem], flush=True)  # noqa: T201
    table = table_of(models)
    for row in table.rows:
        print(*row)  # noqa: T201
    if arguments.json:
        result = Result(
            title="CPU device: preparation without a cache",
            description=" ".join((__doc__ or "").split("\n\n")[2].split()),
            tables=[table],
            notes=notes,
            details=models,
            **circumstances(),
        )
        write(arguments.json, result)


if __name__ == "__main__":
    main()
