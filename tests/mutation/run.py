"""Applies mutants one at a time and reports whether their tests fail, as they must.

    .venv/bin/python tests/mutation/run.py
    .venv/bin/python tests/mutation/run.py --only arena --only fusion     # by parts of names
    .venv/bin/python tests/mutation/run.py --jobs 2 --json > report.json

Every job works on its own copy of the repository in a temporary folder, so the sources that it was
started from never change. A mutant is

    killed     if one of its tests fails
    survived   if all of its tests pass: a test is missing
    skipped    if all of its tests are skipped here, for example without an OpenCL device
    invalid    if it cannot be applied, or its tests cannot be run

The tests first run once on the unchanged copy, since a test that always fails finds nothing. The
exit status is 1 if a mutant survived or is invalid, and 2 if tests fail without any mutant.
"""

import argparse
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from mutation.mutant import ROOT, Mutant, apply, defects
from mutation.mutants import MUTANTS

#: The parts of the repository that tests need.
_COPIED = ("hal", "runtime", "drivers", "service", "src", "proto", "tests", "examples", "docs", "scripts")
_COPIED_FILES = ("pyproject.toml", "README.md", "CONTRIBUTING.md", "SECURITY.md")
#: Tests of one mutant that take longer hang, which counts as a failure.
LIMIT_S = 600.0
_NOT_ALL_PASSED, _NO_TESTS = 1, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one mutant.

    Attributes:
        status: killed, survived, skipped or invalid.
        detail: the first failing test, or the reason.
    """

    name: str
    file: str
    breaks: str
    status: str
    detail: str
    seconds: float


def copy_repository(target: Path) -> None:
    """Copies what the tests need; links between the folders stay links."""
    for name in _COPIED:
        ignored = shutil.ignore_patterns("__pycache__", "results")
        shutil.copytree(ROOT / name, target / name, symlinks=True, ignore=ignored)
    for name in _COPIED_FILES:
        shutil.copy2(ROOT / name, target / name)


def run_tests(root: Path, tests: Sequence[str]) -> tuple[int | None, str]:
    """Runs tests in a copy. Returns pytest's exit status, None after `LIMIT_S`, and its output."""
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", *tests]
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command, cwd=root, env=environment, stdout=output, stderr=output, start_new_session=True
        )
        try:
            status: int | None = process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            status = None
        output.seek(0)
        return status, output.read().decode(errors="replace")


def outcome_of(mutant: Mutant, root: Path) -> Outcome:
    """Applies a mutant to a copy, runs its tests and restores the file."""
    started = time.monotonic()

    def ended(status: str, detail: str = "") -> Outcome:
        return Outcome(
            name=mutant.name,
            file=mutant.file,
            breaks=mutant.breaks,
            status=status,
            detail=detail,
            seconds=round(time.monotonic() - started, 1),
        )

    found = defects(mutant, root)
    if found:
        return ended("invalid", "; ".join(found))
    path = root / mutant.file
    original = path.read_bytes()
    try:
        apply(mutant, root)
        _forget_bytecode(path)
        status, output = run_tests(root, mutant.tests)
    finally:
        path.write_bytes(original)
        _forget_bytecode(path)
    if status is None:
        return ended("killed", f"its tests took longer than {LIMIT_S:g} s")
    if status == _NOT_ALL_PASSED:
        return ended("killed", _first_failure(output))
    if status == 0:
        return ended("survived" if re.search(r"\d+ passed", output) else "skipped")
    if status < 0:
        return ended("killed", f"the test process died of signal {-status}")
    # Python code that cannot even be imported is not a test of the tests.
    return ended("invalid", f"pytest ended with status {status}: {_last_line(output)}")


def _forget_bytecode(path: Path) -> None:
    """Removes cached bytecode, which Python trusts if size and time in seconds are the same."""
    for cached in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        cached.unlink()


def _first_failure(output: str) -> str:
    found = re.search(r"^(?:FAILED|ERROR) (.*)$", output, re.MULTILINE)
    return found[1] if found else _last_line(output)


def _last_line(output: str) -> str:
    return (output.strip().splitlines() or [""])[-1]


def failing_without_mutants(root: Path, mutants: Sequence[Mutant]) -> str:
    """Returns the first of the mutants' tests that fails anyway; empty if none does."""
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    status, output = run_tests(root, tests)
    return "" if status in (0, _NO_TESTS) else _first_failure(output)


def run(mutants: Sequence[Mutant], *, jobs: int, checks_tests: bool) -> list[Outcome] | str:
    """Runs mutants. Returns their outcomes in order, or the test that fails without a mutant."""
    pending: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(len(mutants)):
        pending.put(number)
    outcomes: dict[int, Outcome] = {}

    def work(root: Path) -> None:
        while True:
            try:
                number = pending.get_nowait()
            except queue.Empty:
                return
            outcome = outcomes[number] = outcome_of(mutants[number], root)
            line = f"{outcome.status:9}{outcome.seconds:7.1f} s  {outcome.name}: {outcome.detail}"
            print(line, file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory(prefix="neurald-mutants-") as folder:
        roots = [Path(folder) / str(number) for number in range(max(1, min(jobs, len(mutants))))]
        for root in roots:
            copy_repository(root)
        if checks_tests:
            failing = failing_without_mutants(roots[0], mutants)
            if failing:
                return failing
        threads = [threading.Thread(target=work, args=(root,)) for root in roots]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return [outcomes[number] for number in range(len(mutants))]


def main() -> int:
    """Runs the mutants that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="TEXT", help="mutants whose names contain it"
    )
    parser.add_argument("--jobs", type=int, default=1, help="mutants at the same time")
    parser.add_argument("--json", action="store_true", help="print the outcomes as one JSON document")
    parser.add_argument(
        "--trust-tests", action="store_true", help="do not run the tests without a mutant first"
    )
    options = parser.parse_args()
    mutants = [each for each in MUTANTS if not options.only or any(t in each.name for t in options.only)]
    if not mutants:
        parser.error(f"no mutant's name contains {' or '.join(map(repr, options.only))}")
    outcomes = run(mutants, jobs=options.jobs, checks_tests=not options.trust_tests)
    if isinstance(outcomes, str):
        print(f"a test fails without any mutant: {outcomes}", file=sys.stderr)
        return 2
    counts = Counter(outcome.status for outcome in outcomes)
    if options.json:
        print(json.dumps({"counts": counts, "mutants": [asdict(each) for each in outcomes]}, indent=1))
    else:
        print(f"{len(outcomes)} mutants: " + ", ".join(f"{n} {status}" for status, n in counts.items()))
        for outcome in outcomes:
            if outcome.status in ("survived", "invalid"):
                print(f"{outcome.status}: {outcome.name} ({outcome.file}): {outcome.breaks} {outcome.detail}")
    return 1 if counts["survived"] or counts["invalid"] else 0


if __name__ == "__main__":
    sys.exit(main())
