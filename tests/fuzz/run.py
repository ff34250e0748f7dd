"""Fuzzes neurald's inputs: each must give a result or an nd.Error, in bounded time and memory.

    .venv/bin/python tests/fuzz/run.py --count 1000000 --resume DIR      # resumes a previous run
    .venv/bin/python tests/fuzz/run.py --minutes 10 --target requests
    .venv/bin/python tests/fuzz/run.py --target ring --replay DIR/ring/findings/0123456789abcdef.bin

The targets, all unless one is named:

    tflite     `.tflite` files, run on references; some also compiled, with equal results
    requests   requests of a client with a session, memories and prepared models, to a daemon
    ring       packets and shared memory of rings, from a hostile client or daemon
    lane       packets, descriptors and rings of lanes, from a hostile client of the service
    cache      changed, truncated, exchanged or missing cache files, links, pipes and other things
               in their places, and the installation's secret
    npz        damaged `.npz` files with inputs
    config     configurations of models and of the service manager

Worker processes run the cases, each with a limited address space and a time limit per case. A
worker that dies or hangs is a finding with its case, and is replaced. Cases start from valid
inputs, and from the corpus: inputs with a new outcome, or (from Python 3.12 on) with newly executed
lines of code. Findings are shrunk, and kept with the corpus and the progress in the folder of
`--resume`.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from fuzz.campaign import Campaign, Report, replay, work  # noqa: E402
from fuzz.target import MODULES, target_of  # noqa: E402
from support.files.data import MODELS  # noqa: E402

#: Number of outcomes and findings in the summary of each target.
_LISTED_OUTCOMES, _LISTED_FINDINGS = 4, 4


def summary(reports: Sequence[Report]) -> str:
    """Formats a summary of one screen."""
    lines = []
    for report in reports:
        rate = report.cases / report.seconds if report.seconds else 0.0
        lines.append(
            f"{report.target}: {report.cases} cases in all, {len(report.outcomes)} kinds of outcomes, {report.corpus} in the "
            f"corpus, {len(report.findings)} findings ({report.seconds:.0f} s in this run, {rate:.0f} a second)"
        )
        lines += [f"{count:9} {name[:110]}" for name, count in report.outcomes.most_common(_LISTED_OUTCOMES)]
        lines += [
            f"  FINDING {found['why'][:200]}\n    {found['file']}"
            for found in report.findings[:_LISTED_FINDINGS]
        ]
        if len(report.findings) > _LISTED_FINDINGS:
            lines.append(f"  … and {len(report.findings) - _LISTED_FINDINGS} more")
    return "\n".join(lines)


def main() -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--target", action="append", default=[], help="only these; may be a module like theirs"
    )
    parser.add_argument("--count", type=int, default=10_000, help="cases of each target in all")
    parser.add_argument(
        "--minutes", type=float, help="end each target after this time, whatever --count says"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="worker processes")
    parser.add_argument("--resume", type=Path, metavar="DIR", help="folder of state, corpus and findings")
    parser.add_argument(
        "--replay", type=Path, metavar="FILE", help="run this input of one target, and no more"
    )
    parser.add_argument("--models", type=Path, default=MODELS, help="folder with more good .tflite files")
    parser.add_argument("--own-models", action="store_true", help="only the project's own model")
    parser.add_argument("--json", type=Path, help="file to write the results to")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    targets = options.target or list(MODULES)
    models = None if options.own_models else options.models
    if options.worker:
        with tempfile.TemporaryDirectory(prefix="nf") as cache:
            os.environ["XDG_CACHE_HOME"] = cache
            os.environ.setdefault("NEURALD_SECRET_FILE", f"{cache}/secret")
            work(target_of(targets[0], models))
        return 0
    if options.replay is not None:
        if len(options.target) != 1:
            parser.error("--replay takes an input of one --target")
        reports = [replay(options.target[0], options.replay, models)]
    else:
        folder = options.resume or Path(tempfile.mkdtemp(prefix="neurald-fuzz-"))
        reports = []
        for name in targets:
            campaign = Campaign(name, folder=folder, seed=options.seed, models=models, jobs=options.jobs)
            end = float("inf")
            if options.minutes is not None:
                end = time.monotonic() + 60 * options.minutes
            count = options.count if options.minutes is None else max(options.count, 1 << 62)
            reports.append(campaign.run(count, end, lambda text: print(text, file=sys.stderr, flush=True)))
    if options.json:
        results = [
            {
                "target": report.target,
                "cases": report.cases,
                "outcomes": dict(report.outcomes.most_common()),
                "findings": report.findings,
                "corpus": report.corpus,
                "seconds": round(report.seconds, 1),
            }
            for report in reports
        ]
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    print(summary(reports))
    if options.replay is None and not options.resume:
        print(f"state, corpus and findings are in {folder}; --resume goes on from there")
    return 1 if any(report.findings for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main())
