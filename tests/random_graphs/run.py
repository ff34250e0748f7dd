"""Compares random graphs on references, compiled, on OpenCL and split over devices.

    .venv/bin/python tests/random_graphs/run.py --count 14500
    .venv/bin/python tests/random_graphs/run.py --count 14500 --resume DIR     # resumes a run
    .venv/bin/python tests/random_graphs/run.py --graph 4711      # one graph, shrunk if it fails

Each graph is determined by its number and `--seed`. The ways to run it are

    references         the CPU device without its compiler
    split references   two sample devices with a third of all operations each, and CPU references
    compiled           the CPU device
    opencl             the OpenCL device, and references for the rest; skipped if there is none
    split              the two sample devices, OpenCL and the compiling CPU device

with a random preference, priority and mode of execution for each. `comparison.py` decides which
results are correct. Operations that fail to compile and run otherwise count as mismatches too.
Worker processes run the cases; the case of a worker that dies, hangs or runs out of memory is a
finding, and the worker is replaced.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import numpy as np  # noqa: E402
from support.long_runs.case_pool import run_cases, serve  # noqa: E402
from support.long_runs.progress import Progress  # noqa: E402

#: A graph that takes longer hangs.
LIMIT_S = 300.0
#: Address space of a worker beyond its initial use.
ADDRESS_SPACE = 6 << 30
#: Distance between the seeds of different runs.
_SEEDS = 1_000_000_000
_LARGE_EVERY, _LARGE = 10, 60
WAYS = ("references", "split references", "compiled", "opencl", "split")


def checked(number: int, ways: Sequence[str] = (), *, reduces: bool = False) -> dict[str, Any]:
    """Checks a graph; returns the types of its operations, and mismatches."""
    from random_graphs.check import described, mismatches
    from random_graphs.graph import RandomGraph, random_graph
    from random_graphs.reduction import reduced

    graph = random_graph(number, _LARGE if number % _LARGE_EVERY == 0 else 12)
    found = list(mismatches(graph, ways))
    findings = []
    for name in dict.fromkeys(each.way.partition(",")[0] for each in found):
        first = next(each for each in found if each.way.startswith(name + ","))

        def fails(smaller: RandomGraph, name: str = name, told: str = first.why[:9]) -> bool:
            return any(each.why.startswith(told) or each.output >= 0 for each in mismatches(smaller, [name]))

        small = reduced(graph, fails) if reduces else graph
        operations = described(small.model) if reduces else []
        findings.append({"graph": number, "way": first.way, "why": first.why, "operations": operations})
    types = sorted(kind.name for kind in graph.operations)
    elements = sum(array.size for array in graph.expected)
    return {"types": types, "elements": elements, "findings": findings}


def work(ways: Sequence[str]) -> None:
    """Runs a worker."""
    np.seterr(all="ignore")
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        serve(lambda case: checked(case["graph"], ways, reduces=True), address_space=ADDRESS_SPACE)


def run(
    count: int,
    *,
    seed: int = 0,
    jobs: int = 1,
    ways: Sequence[str] = (),
    resume: Path | None = None,
    minutes: float | None = None,
    tell: bool = False,
) -> tuple[Progress, Counter[str]]:
    """Checks graphs in worker processes.

    Returns the progress, and the number of graphs per operation.
    """
    progress = Progress(resume / "random_graphs.json" if resume is not None else None, seed)
    end = time.monotonic() + 60 * minutes if minutes is not None else float("inf")
    numbers = (n for n in progress.remaining(count) if time.monotonic() < end)
    cases = ({"graph": seed * _SEEDS + number, "number": number} for number in numbers)
    command = [sys.executable, str(HERE / "run.py"), "--worker", *(f"--way={way}" for way in ways)]
    types: Counter[str] = Counter()
    told = time.monotonic()
    try:
        for ended in run_cases(command, cases, jobs=jobs, limit_s=LIMIT_S):
            number = ended.case["number"]
            if ended.result is None:
                finding = {"graph": ended.case["graph"], "way": "", "why": ended.death, "operations": []}
                progress.note(number, "died", finding)
                continue
            types.update(ended.result["types"])
            findings: Sequence[Mapping[str, Any]] = ended.result["findings"]
            outcome = "mismatch" if findings else "same" if ended.result["elements"] else "same, no elements"
            progress.note(number, outcome, *findings)
            if tell and time.monotonic() - told > 30:
                told = time.monotonic()
                print(
                    f"{progress.done} graphs, {len(progress.findings)} findings", file=sys.stderr, flush=True
                )
    finally:
        progress.write()
    return progress, types


def summary(progress: Progress, types: Counter[str], seconds: float) -> str:
    """Formats a summary of one screen."""
    lines = [
        f"{finding['graph']}: {finding['way']}: {finding['why'][:160]}" for finding in progress.findings[:20]
    ]
    if len(progress.findings) > 20:
        lines.append(f"… and {len(progress.findings) - 20} more")
    lines += [f"{count:7} {outcome}" for outcome, count in progress.outcomes.most_common()]
    rare = ", ".join(f"{name} {count}" for name, count in types.most_common()[-6:])
    lines.append(f"{len(types)} types of operations; the rarest: {rare}")
    lines.append(f"{progress.done} graphs, {len(progress.findings)} findings, {seconds:.0f} s in this run")
    return "\n".join(lines)


def main() -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=1000, help="graphs in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--minutes", type=float, help="end after this time")
    parser.add_argument("--way", action="append", choices=WAYS, default=[], help="only these")
    parser.add_argument("--resume", type=Path, metavar="DIR", help="folder that keeps where the run stands")
    parser.add_argument("--json", type=Path, help="file to write the results to")
    parser.add_argument("--graph", type=int, help="only this one, in this process")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.way)
        return 0
    if options.graph is not None:
        result = checked(options.graph, options.way, reduces=True)
        print(json.dumps(result, indent=1))
        return 1 if result["findings"] else 0
    started = time.monotonic()
    progress, types = run(
        options.count,
        seed=options.seed,
        jobs=options.jobs,
        ways=options.way,
        resume=options.resume,
        minutes=options.minutes,
        tell=True,
    )
    seconds = time.monotonic() - started
    if options.json:
        results = {
            "seed": progress.seed,
            "graphs": progress.done,
            "outcomes": dict(progress.outcomes),
            "types": dict(types.most_common()),
            "findings": progress.findings,
            "seconds": round(seconds, 1),
        }
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    print(summary(progress, types, seconds))
    return 1 if progress.findings else 0


if __name__ == "__main__":
    sys.exit(main())
