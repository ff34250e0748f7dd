"""Runs forms of every TFLite operator with LiteRT and neurald, and reports differences.

    .venv/bin/python -m pip install --group litert
    .venv/bin/python tests/sweep/run.py --json sweep.json
    .venv/bin/python tests/sweep/run.py --operator ADD SUB
    .venv/bin/python tests/sweep/run.py --references --record       # after changing forms
    .venv/bin/python tests/sweep/run.py --references --record --again   # after changing support

A form is a model of one operator with types, quantisation, ranks, constant inputs and options.
LiteRT runs it with its reference kernels, its built-in ones and its default ones (XNNPACK); neurald
on references and compiled. The verdicts are:

    broken      neurald ended with an exception other than nd.Error
    differs     both run it, and neurald's numbers are those of none of LiteRT's kernels
    refused     LiteRT runs it, neurald does not
    uncompiled  the compiled device fails where references do not
    agrees      both run it, with the same numbers
    more        neurald runs it, LiteRT does not
    declined    neither runs it

Refusals and differences that are not in the tables of `known.py` are listed, and make the command
fail. All verdicts are recorded in `recorded.json`, which ordinary tests compare with, without
LiteRT.

Everything is determined by the seed. Worker processes run the forms; one that dies is reported with
its form, and another one continues.
"""

import argparse
import json
import os
import select
import subprocess
import sys
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from sweep.form import Form  # noqa: E402
from sweep.forms import OPERATORS, forms_of  # noqa: E402
from sweep.judge import VERDICTS  # noqa: E402
from sweep.known import DIFFERENT, REFUSED, known  # noqa: E402
from sweep.recorded import record, unsettled  # noqa: E402

Row = Mapping[str, str]


def forms(options: argparse.Namespace) -> list[Form]:
    """Returns the forms that the options select, in a fixed order."""
    every = [form for operator in options.operator for form in forms_of(operator)]
    if options.again:
        every = [form for operator in options.operator for form in unsettled(operator)]
    return [form for form in every if zlib.crc32(form.key.encode()) % options.every == 0]


def work(options: argparse.Namespace) -> None:
    """Runs a worker: prints a line with each verdict on its share of the forms."""
    from sweep.worker import sweep

    mine = forms(options)[options.shard :: options.jobs][options.skip :]
    for form, verdict in sweep(mine, options.litert, options.seed, compiles=not options.references):
        row = {"operator": form.operator, "form": form.name, "verdict": verdict.verdict, "why": verdict.why}
        print(json.dumps(row), flush=True)


class Worker:
    """Worker process with its share of the forms."""

    def __init__(self, shard: int, options: argparse.Namespace) -> None:
        self._command = [sys.executable, __file__, "--worker", "--shard", str(shard)]
        self._command += [
            "--jobs",
            str(options.jobs),
            "--seed",
            str(options.seed),
            "--litert",
            options.litert,
        ]
        self._command += ["--every", str(options.every)]
        self._command += ["--again"] if options.again else []
        self._command += ["--references"] if options.references else []
        self._command += ["--operator", *options.operator]
        self._forms = forms(options)[shard :: options.jobs]
        self.rows: list[Row] = []
        self._start()

    def _start(self) -> None:
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [*self._command, "--skip", str(len(self.rows))],
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        assert self.process.stdout is not None
        self.lines = self.process.stdout

    def handle(self, line: str) -> None:
        """Processes a line of the process; "" if it has ended."""
        if line:
            self.rows.append(json.loads(line))
            return
        code = self.process.wait()
        if self.is_done:
            return
        form = self._forms[len(self.rows)]
        why = f"the process ended with {code}"
        self.rows.append({"operator": form.operator, "form": form.name, "verdict": "broken", "why": why})
        if not self.is_done:
            self._start()

    @property
    def is_done(self) -> bool:
        return len(self.rows) >= len(self._forms)


def run(options: argparse.Namespace) -> list[Row]:
    """Returns the verdicts on all forms, by operator and name."""
    workers = [Worker(shard, options) for shard in range(options.jobs)]
    try:
        running = [worker for worker in workers if not worker.is_done]
        while running:
            streams = {worker.lines: worker for worker in running}
            for stream in select.select(list(streams), [], [])[0]:
                streams[stream].handle(stream.readline())
            running = [worker for worker in running if not worker.is_done]
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.wait()
    return sorted(
        (row for worker in workers for row in worker.rows), key=lambda r: (r["operator"], r["form"])
    )


def is_problem(row: Row) -> bool:
    """Returns True if a verdict must be investigated."""
    if row["verdict"] in ("broken", "uncompiled"):
        return True
    if row["verdict"] == "refused":
        return known(REFUSED, row["operator"], row["form"], row["why"]) is None
    return row["verdict"] == "differs" and known(DIFFERENT, row["operator"], row["form"]) is None


def table(rows: Sequence[Row]) -> str:
    """Formats the number of forms per operator and verdict."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        counts[row["operator"]][row["verdict"]] += 1
        counts["in all"][row["verdict"]] += 1
    lines = [f"{'operator':34}" + "".join(f"{verdict:>11}" for verdict in VERDICTS)]
    for operator, found in counts.items():
        if operator != "in all":
            lines.append(f"{operator:34}" + "".join(f"{found[v] or '':>11}" for v in VERDICTS))
    lines.append(f"{'in all':34}" + "".join(f"{counts['in all'][v]:>11}" for v in VERDICTS))
    return "\n".join(lines)


def main() -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--operator", nargs="+", default=list(OPERATORS), metavar="NAME", choices=OPERATORS)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--again", action="store_true", help="only forms that are recorded as refused or different"
    )
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only one of N forms")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--litert", default=sys.executable, help="a Python with ai-edge-litert")
    parser.add_argument("--references", action="store_true", help="do not compile")
    parser.add_argument("--json", type=Path, help="file to write every verdict to")
    parser.add_argument("--list", nargs="*", default=(), choices=VERDICTS, help="list these, known or not")
    parser.add_argument("--record", action="store_true", help="write recorded.json")
    parser.add_argument(
        "--keep", type=Path, help="folder to write the forms to, as .tflite files, and no more"
    )
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--shard", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--skip", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options)
        return 0
    if options.keep:
        for form in forms(options):
            name = "".join(c if c.isalnum() else "_" for c in form.key)
            (options.keep / f"{name}.tflite").write_bytes(form.case(options.seed).content)
        return 0
    started = time.monotonic()
    rows = run(options)
    unknown = [row for row in rows if is_problem(row)]
    for row in [*unknown, *(row for row in rows if row["verdict"] in options.list)]:
        print(f"{row['verdict']}: {row['operator']}: {row['form']}: {row['why']}")
    print(table(rows))
    print(f"{len(rows)} forms in {time.monotonic() - started:.0f} s, {len(unknown)} problems")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    if options.record:
        record({(row["operator"], row["form"]): row["verdict"] for row in rows})
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
